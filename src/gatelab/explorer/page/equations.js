// ---- Equations: the legend. Pointing at a term lights up its values; a click brings its map to the front. -----------

/** Make the terms of a run's equations live. `places` are its maps by name. */
function makeLegend(run, equations, places) {
  const { gates, states } = about(run), note = byId(`term-${run}`), picture = byId(`weight-${run}`);
  const terms = [...equations.querySelectorAll("[data-kind]")].filter((term) => describe(run, term) !== null);
  const light = (lit) => {
    const name = lit?.dataset.name, kind = lit?.dataset.kind;
    for (const term of terms) term.classList.toggle("lit", term.dataset.name === name && term.dataset.kind === kind);
    for (const [own, place] of places) place.root.classList.toggle("lit", own === name);
    picture.hidden = true;
    note.textContent = lit ? describe(run, lit) : note.dataset.hint;
    if (kind === "weight") drawWeight(run, name, picture);
  };
  for (const term of terms) {
    const isMap = places.has(term.dataset.name) && gates.concat(states).includes(term.dataset.name);
    term.classList.add("term");
    term.setAttribute("tabindex", "0");
    term.addEventListener("pointerenter", () => light(term));
    term.addEventListener("pointerleave", () => light(null));
    term.addEventListener("focus", () => light(term));
    term.addEventListener("blur", () => light(null));
    if (!isMap) continue;
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

/** A weight or bias of the layer that is shown: { values, rows, columns }; null if there is none of this name. */
function weightOf(run, name) {
  const { weights } = globalThis[runs[run].network], { layer, direction } = situation.views[run];
  const text = weights.float32[`layers.${layer}.${direction}.${name}`], rows = about(run).units;
  if (text === undefined) return null;
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)), values = new Float32Array(bytes.buffer);
  return { values, rows, columns: values.length / rows };
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
  if (kind === "input") return `${name}: what the layer reads at step ${t + 1}`;
  const found = kind === "weight" || kind === "bias" ? weightOf(run, name) : null;
  if (!found) return null;
  const { values, rows, columns } = found, size = columns > 1 ? `${rows} × ${columns}` : `${rows}`;
  return `${name}: ${size} learned numbers, ${fromTo(values)}`;
}

/** The range of some values in words. */
function fromTo(values) {
  const [low, high] = rangeOf(values);
  return `from ${short(low)} to ${short(high)}`;
}

/** A matrix as a small map: a line for each unit, a column for each of its inputs. */
function drawWeight(run, name, canvas) {
  const { values, rows, columns } = weightOf(run, name);
  const transposed = values.map((_, i) => values[(i % rows) * columns + Math.floor(i / rows)]);
  canvas.hidden = false;
  drawMap(canvas, mapImage(transposed, columns, rows, upTo(rows), signedScale(values)));
}
