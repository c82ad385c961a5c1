// ---- Numbers: a series as text, to be pasted ------------------------------------------------------------------------

/** Numbers from text; an error in words if they do not fit. A line has whole steps. */
function parsed(text) {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  if (/[,;][^\S\n]*[,;]/.test(text)) throw new RangeError("There is no number between two commas.");
  const values = words.map((word) => Number(word.replace("−", "-")));
  const wrong = values.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) throw new RangeError(`“${words[wrong]}” is not a number.`);
  if (!values.length) throw new RangeError("There are no numbers.");
  if (values.length % width) throw new RangeError(`${values.length} numbers: expected ${width} for each step.`);
  text.split("\n").forEach((line, i) => {
    const count = line.split(/[\s,;]+/).filter(Boolean).length;
    if (count % width) throw new RangeError(`Line ${i + 1} has ${counted(count, "number")}: expected ${width}.`);
  });
  if (values.length > LONGEST * width)
    throw new RangeError(`${values.length / width} steps: expected at most ${LONGEST}.`);
  return values;
}

/** A field for numbers, which are used as they are written. */
function makeNumbers(parent) {
  const field = element("textarea", { rows: 3, spellcheck: "false", "aria-label": "numbers of your own series" });
  const problem = element("p", { class: "problem", role: "status" });
  const use = () => {
    try {
      const values = parsed(field.value);
      remember();
      setInput(values);
      problem.textContent = "";
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const names = upTo(width).map(columnName).join(", ");
  const hint = width === 1 ? "One number for each step." : `${width} numbers for each step: ${names}.`;
  const note = element("span", { class: "note" }, hint);
  const row = element("div", { class: "row" }, button("Use these numbers", use), note);
  const summary = element("summary", {}, "Paste numbers");
  const details = element("details", {}, summary, field, row, problem);
  summary.addEventListener("click", () => { // not on `toggle`, which comes later: after what somebody typed at once
    if (details.open || field.value) return;
    const rows = upTo(steps()).map((t) => Array.from(situation.x.subarray(t * width, (t + 1) * width), plainNumber));
    field.value = rows.map((values) => values.join(", ")).join(width === 1 ? ", " : "\n");
  });
  parent.append(details);
}

/** A number with a plain minus sign, for fields. */
const plainNumber = (value) => String(Number(value.toPrecision(4)));
