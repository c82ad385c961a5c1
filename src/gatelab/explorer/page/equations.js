// ---- Equations: the legend. Pointing at a term lights up its values; a click brings its map to the front. -----------

/** Make the terms of a run's equations live. `places` are its maps by name, `input` is the strip of its input. */
function makeLegend(run, equations, places, input) {
  const { gates, states } = about(run), note = byId(`term-${run}`), picture = byId(`weight-${run}`);
  const terms = [...equations.querySelectorAll("[data-kind]")].filter((term) => describe(run, term) !== null);
  const light = (lit) => {
    const name = lit?.dataset.name, kind = lit?.dataset.kind;
    for (const term of terms) term.classList.toggle("lit", term.dataset.name === name && term.dataset.kind === kind);
    for (const [own, place] of places) place.root.classList.toggle("lit", own === name);
    input.root.classList.toggle("lit", kind === "input" && situation.views[run].layer === 0);
    picture.hidden = true;
    note.textContent = lit ? describe(run, lit) : note.dataset.hint;
    if (kind === "weight" || kind === "bias") drawWeight(run, name, picture);
  };
  for (const term of terms) {
    const isMap = places.has(term.dataset.name) && gates.concat(states).includes(term.dataset.name);
    term.classList.add("term");
    term.setAttribute("tabindex", "0");
    term.addEventListener("pointerenter", () => light(term));
    term.addEventListener("pointerleave", () => light(null));
    term.addEventListener("focus", () => light(term));
    term.addEventListener("blur", () => light(null));
    if (!isMap) {
      term.setAttribute("role", "img");
      term.setAttribute("aria-label", `${KINDS[term.dataset.kind]} ${term.dataset.name}`);
      continue;
    }
    term.setAttribute("role", "button");
    term.setAttribute("aria-label", `${term.dataset.kind} ${term.dataset.name}: bring its map to the front`);
    term.addEventListener("click", () => toFront(run, term.dataset.name));
    term.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      toFront(run, term.dataset.name);
    });
  }
  when("views", () => {
    for (const term of terms) term.classList.toggle("chosen", term.dataset.name === situation.views[run].front);
  });
}

const KINDS = { weight: "weights", bias: "bias", number: "hyperparameter", input: "input" };

/** Learned numbers of the layer that is shown, or hyperparameters of its cell; null if there are none of this name. */
function numbersOf(run, name) {
  const { float32, float64 } = globalThis[runs[run].network].weights, { layer, direction } = situation.views[run];
  const key = `layers.${layer}.${direction}.${name}`, text = float32[key] ?? float64[key];
  if (text === undefined) return null;
  const { buffer } = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  return key in float32 ? new Float32Array(buffer) : new Float64Array(buffer);
}

/** What a term stands for, with its values at the cursor; null if there is nothing to show. */
function describe(run, { dataset: { kind, name } }) {
  const { gates, states, units, roles } = about(run), { t } = situation;
  if (gates.includes(name) || states.includes(name)) {
    const values = valuesOf(current(run), situation.views[run], name).subarray(t * units, (t + 1) * units);
    const what = gates.includes(name) ? `gate${roles[name] ? ` that ${WORDS[roles[name]]}` : ""}` : "state";
    const mean = values.reduce((a, b) => a + b) / units;
    return `${name}, a ${what}: at step ${t + 1} ${fromTo(values)}, mean ${short(mean)} over ${units} units`;
  }
  if (kind === "input") return `${name}, ${readAt(run, t)}`;
  const found = numbersOf(run, name);
  if (!found) return null;
  if (kind === "number") return `${name}, a hyperparameter of the cell: ${short(found[0])}`;
  const size = kind === "weight" ? `${units} × ${found.length / units}` : `${units}`;
  return `${name}: ${size} learned numbers, ${fromTo(found)}`;
}

/** What the layer that is shown reads at a step, in words. */
function readAt(run, t) {
  if (situation.views[run].layer) return `the output of the layer below at step ${t + 1}`;
  const row = situation.x.subarray(t * width, (t + 1) * width);
  if (task.kind === "tokens") return `the input: at step ${t + 1} “${visible(task.vocabulary[row[0]])}”`;
  return `the input: at step ${t + 1} ${width > 1 ? fromTo(row) : short(row[0])}, which is scaled before it is read`;
}

/** The range of some values in words. */
function fromTo(values) {
  const [low, high] = rangeOf(values);
  return `from ${short(low)} to ${short(high)}`;
}

/** A matrix as a small map: a line for each unit, a column for each of its inputs. */
function drawWeight(run, name, canvas) {
  const values = numbersOf(run, name), rows = about(run).units, columns = values.length / rows;
  const transposed = values.map((_, i) => values[(i % rows) * columns + Math.floor(i / rows)]);
  canvas.hidden = false;
  drawMap(canvas, mapImage(transposed, columns, rows, upTo(rows), signedScale(values)));
}
