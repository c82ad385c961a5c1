// ---- The answer at the cursor, beside that of the untouched network -------------------------------------------------

const SHOWN_CLASSES = 10; // of more classes, the likeliest

/** The target of the example; null if the input was changed by hand. */
const targetNow = () => (situation.isOwn ? null : task.examples[situation.example].target);

/** The target at the cursor: a class, or values; null if there is none. */
function targetAt(t) {
  const target = targetNow();
  if (!target) return null;
  if (task.classes) return task.perStep ? target[t] : target[0];
  const K = task.targets.length;
  return task.perStep ? target.slice(t * K, (t + 1) * K) : target;
}

/** Whether the target at a step of so many counts; places below 0 are counted from the end. */
function isScored(t, count) {
  const [from, to] = task.scored;
  return !task.perStep || upTo(count).slice(from ?? 0, to ?? count).includes(t);
}

/** The panel of a run's answer. */
function makeAnswer(run, parent) {
  const headline = element("p", { class: "headline", "aria-live": "polite" }), said = element("p", { class: "note" });
  const bars = element("div", { class: "bars" });
  parent.append(headline, said, bars);
  when("x clamps t", () => {
    const now = answerAt(current(run), run, situation.t), before = answerAt(untouched(run), run, situation.t);
    if (!now) {
      headline.textContent = "…";
      said.textContent = "This network also reads backwards: it answers after the last step.";
      bars.replaceChildren();
    } else if (!isAnswer(now) || !isAnswer(before)) {
      headline.textContent = "no number";
      said.textContent = "A value in the network is not a number: it was divided by 0, or became too large.";
      bars.replaceChildren();
    } else if (task.classes) showClasses(run, softmax(now), softmax(before), { headline, said, bars });
    else showNumbers(run, now, before, { headline, said, bars });
  });
}

/** The words below an answer. */
function context(target, isRight) {
  const { t } = situation, ends = !task.perStep && t < steps() - 1 ? "if the input ended here" : "";
  const facts = [ends, target ?? "your own input"];
  if (target !== null) facts.push(isScored(t, steps()) ? isRight : "not scored at this step");
  return facts.filter(Boolean).join("; ");
}

/** Probabilities as bars: those with clamps, and the untouched ones below them. */
function showClasses(run, now, before, { headline, said, bars }) {
  const best = largestOf(now), first = largestOf(before), names = task.classes.map(visible), touched = isClamped(run);
  const target = targetAt(situation.t);
  headline.replaceChildren(
    ...(touched ? [element("span", { class: "before" }, names[first]), " → "] : []),
    element("strong", {}, names[best]), element("span", { class: "share" }, ` p = ${now[best].toFixed(3)}`));
  said.textContent = context(target === null ? null : `target ${names[target]}`, best === target ? "right" : "wrong");
  const order = names.map((_, k) => k);
  if (names.length > SHOWN_CLASSES) order.sort((a, b) => now[b] - now[a]).splice(SHOWN_CLASSES);
  bars.replaceChildren(...order.flatMap((k) => {
    const row = probability(names[k], now[k], k === best ? "class best" : "class", "now");
    return touched ? [row, probability("untouched", before[k], "class was", "before")] : [row];
  }));
}

/** A line with a name, a bar and a number. */
const probability = (name, share, className, fill) => element("div", { class: className },
  element("span", { class: "name" }, name), meter(share, fill), element("span", { class: "share" }, share.toFixed(2)));

/** A bar of a length between 0 and 1. */
function meter(share, className) {
  const fill = element("i", { class: className });
  fill.style.width = `${100 * share}%`;
  return element("span", { class: "meter", "aria-hidden": "true" }, fill);
}

/** Predicted values. */
function showNumbers(run, now, before, { headline, said, bars }) {
  const names = task.targets.map(visible), target = targetAt(situation.t), touched = isClamped(run);
  headline.replaceChildren(
    ...(touched ? [element("span", { class: "before" }, short(before[0])), " → "] : []),
    element("strong", {}, short(now[0])),
    element("span", { class: "share" }, ` ${task.forecasts ? "next" : "predicted"} ${names[0]}`));
  const error = target && `error ${short(now[0] - target[0])}`;
  said.textContent = context(target && `target ${short(target[0])}`, error);
  bars.replaceChildren(...upTo(names.length).slice(1).map((k) => {
    const change = `${touched ? `${short(before[k])} → ` : ""}${short(now[k])}`;
    return element("div", {}, `${names[k]} ${change}${target ? `, target ${short(target[k])}` : ""}`);
  }));
}
