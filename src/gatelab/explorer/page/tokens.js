// ---- Tokens: a sentence to type, from the vocabulary ----------------------------------------------------------------

const isCharacters = task.vocabulary.every((word) => [...word].length === 1);

/** A word as it is typed: spaces separate words, so that those within one are written as a sign. */
const typed = (word) => (isCharacters ? word : word.replace(/\s/g, "␣"));
const words = task.vocabulary.map(typed);
const tokenOf = new Map(words.map((word, token) => [word, token]));

/** Tokens as text. */
const textOf = (x) => Array.from(x, (token) => words[token]).join(isCharacters ? "" : " ");

/** The words of a text. */
const wordsOf = (text) => (isCharacters ? [...text] : text.split(/\s+/).filter(Boolean));

/** The editor of token sequences: text, and buttons with what may follow. */
function makeTokens(parent) {
  const plain = { spellcheck: "false", autocapitalize: "off" };
  const field = element("textarea", { rows: 2, ...plain, "aria-label": "your own sequence, from the vocabulary" });
  const problem = element("p", { class: "problem", role: "status" });
  const suggestions = element("div", { class: "row suggestions", role: "group", "aria-label": "what can follow" });
  let isWriting = false, isRemembered = false;
  const read = () => {
    const all = wordsOf(field.value), unknown = all.filter((word) => !tokenOf.has(word));
    const isLast = !isCharacters && unknown.length === 1 && all.at(-1) === unknown[0] && !/\s$/.test(field.value);
    const isUnfinished = isLast && words.some((word) => word.startsWith(unknown[0]));
    problem.textContent = !unknown.length || isUnfinished ? "" : `“${unknown[0]}” is not in the vocabulary.`;
    const known = isUnfinished ? all.slice(0, -1) : all;
    if (!field.value.trim() && !known.length) problem.textContent = "The sequence is empty.";
    if (known.length > LONGEST) problem.textContent = `${known.length} steps: expected at most ${LONGEST}.`;
    suggest();
    if (!known.length || problem.textContent) return;
    if (!isRemembered) remember(); // once for all that is typed in one go
    isRemembered = isWriting = true;
    setInput(known.map((word) => tokenOf.get(word)));
    change({ t: steps() - 1 });
  };
  const suggest = () => {
    const part = isCharacters || /\s$/.test(field.value) ? "" : (wordsOf(field.value).at(-1) ?? "");
    const begun = tokenOf.has(part) ? "" : part;
    // Single characters are quickly typed: only a small alphabet is worth its buttons.
    const offered = isCharacters && words.length > 30 ? [] : words;
    const found = offered.filter((word) => word.startsWith(begun)).slice(0, 60);
    suggestions.replaceChildren(...found.map((word) => button(visible(word), () => {
      isRemembered = false;
      const text = begun ? field.value.slice(0, field.value.length - begun.length) : field.value;
      field.value = text + (isCharacters || !text || /\s$/.test(text) ? "" : " ") + word + (isCharacters ? "" : " ");
      read();
    })));
  };
  field.addEventListener("focus", () => (isRemembered = false));
  field.addEventListener("input", read);
  parent.append(field, problem, suggestions);
  when("x", () => {
    if (!isWriting) field.value = textOf(situation.x);
    if (!isWriting) problem.textContent = "";
    isWriting = false;
    suggest();
  });
}

/** The input strip of tokens: the words at their steps, coloured by their effect on the output. */
function drawTokenStrip({ canvas }, run) {
  const { context, width: wide, height } = fitted(canvas), count = steps(), each = wide / count;
  const effects = tokenEffects(run), scale = signedScale(effects);
  const shown = Array.from(situation.x, (token) => visible(task.vocabulary[token]));
  context.font = "13px system-ui, sans-serif";
  context.textBaseline = "middle";
  const isUpright = isCharacters || shown.every((word) => context.measureText(word).width <= each - 4);
  shown.forEach((word, t) => {
    context.fillStyle = css(scale, effects[t]);
    context.fillRect(t * each + 0.5, 0, Math.max(0.5, each - 1), height);
    if (each < 7) return;
    context.fillStyle = inkOn(scale, effects[t]);
    context.save();
    context.translate((t + 0.5) * each, height / 2);
    if (!isUpright) context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(word, 0, 0, isCharacters ? each : (isUpright ? each : height) - 4);
    context.restore();
  });
  canvas.setAttribute("aria-label", `the input: ${textOf(situation.x)}`);
}
