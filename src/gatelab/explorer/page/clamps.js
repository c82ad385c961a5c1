// ---- Clamps: values that are set from a step on, and the list of those that are set --------------------------------

/** What limits a clamp on the input as it is now, in words. */
function clampLimit({ from, to }) {
  if (from >= steps()) return " (this input ends before)";
  const there = typeof to === "object" ? donorOf(to).length / width : Infinity;
  return there < steps() ? ` (which ends at step ${there})` : "";
}

/** What a clamp does, in words. */
function clampText({ run, layer, direction, value, units, from, to }) {
  const { layers, directions } = about(run);
  const some = units === null ? [] : units.length > 8 ? [...units.slice(0, 8), "…"] : units;
  const who = units === null ? "all units" : `${units.length > 1 ? "units" : "unit"} ${some.join(", ")}`;
  const where = (layers > 1 ? ` in layer ${layer}` : "") + (directions.length > 1 ? ` ${direction}` : "");
  const target = to === "mean" ? "the mean" : to === "hold" ? `the value at step ${from + 1}`
    : typeof to === "object" ? `the value in ${task.examples[to.example]?.name ?? "your own input"}` : short(to);
  return `${value} of ${who}${where} from step ${from + 1} on: ${target}`;
}

/** Clamp the value at the front, in the selected units or in all, from the chosen step on. */
function clampTo(run, to) {
  const { layer, direction, front } = situation.views[run], chosen = situation.units[run];
  remember();
  const units = chosen.length ? chosen : null;
  change({ clamps: [...situation.clamps, { run, layer, direction, value: front, units, from: situation.from, to }] });
}

/** Choose the first step of the next clamp. */
const fromStep = (t) => change({ from: Number.isInteger(t) ? Math.max(0, Math.min(steps() - 1, t)) : 0 });

/** The controls of a run's clamps. */
function makeClamps(run, parent) {
  const what = element("span", { class: "what", "aria-live": "polite" });
  const from = element("input", { type: "number", min: 1, "aria-label": "first step" });
  from.addEventListener("change", () => fromStep(from.valueAsNumber - 1));
  const here = button("at the cursor", () => fromStep(situation.t), "from the cursor's step on");
  const to = (text, value, label) => button(text, () => clampTo(run, value), label);
  const all = button("All units", () => select(run, []), "All units: clear the selection");
  const donors = element("select", { "aria-label": "example whose values are taken" });
  task.examples.forEach((example, i) => donors.append(element("option", { value: i }, example.name)));
  const own = element("option", { value: "own" }, "your last own input");
  const donor = () => (donors.value === "own" ? { input: situation.own } : { example: Number(donors.value) });
  const take = () => clampTo(run, donor());
  const taken = element("span", { class: "joined" },
    button("that of", take, "clamp to the values in the example"), donors);
  const list = element("ul", { class: "clamps" });
  parent.append(
    element("div", { class: "row" }, what, from, here, "to"),
    element("div", { class: "row" }, to("0", 0, "clamp to 0"), to("1", 1, "clamp to 1"),
      to("its mean", "mean"), to("its value at that step", "hold"), task.examples.length > 1 ? taken : null, all),
    list);
  when("units views from x", () => {
    const chosen = situation.units[run], { front } = situation.views[run];
    const who = chosen.length ? `${counted(chosen.length, "selected unit")}` : `all ${about(run).units} units`;
    what.replaceChildren("Set ", element("b", {}, front), ` of ${who} from step`);
    from.max = steps();
    from.value = situation.from + 1;
    all.hidden = !chosen.length;
  });
  when("own", () => situation.own && donors.append(own));
  when("example", () => {
    const { pair } = task.examples[situation.example];
    donors.value = pair ?? (situation.example + 1) % task.examples.length;
  });
  when("clamps x", () => {
    const remove = (clamp) => {
      remember();
      change({ clamps: situation.clamps.filter((other) => other !== clamp) });
    };
    const own = situation.clamps.filter((clamp) => clamp.run === run);
    list.replaceChildren(...own.map((clamp) => element("li", {}, clampText(clamp), clampLimit(clamp), " ",
      button("×", () => remove(clamp), `Remove the clamp: ${clampText(clamp)}`))));
  });
}

/** Which run the maps show; only of use where there are clamps. */
function makeShown(run, parent) {
  const names = { clamped: "the clamped network", untouched: "the untouched one", difference: "the difference" };
  const label = choice("maps show", Object.entries(names), situation.views[run].show, (show) => look(run, { show }));
  parent.append(label);
  when("clamps views", () => {
    label.hidden = !isClamped(run);
    label.querySelector("select").value = situation.views[run].show;
  });
}
