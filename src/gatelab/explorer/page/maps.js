// ---- Maps: every gate and state of the chosen layer, units × steps ------------------------------------------------

const orders = networks.map((_, run) =>
  latest((x, sort, of, layer, direction) => {
    const units = upTo(about(run).units), place = { layer, direction };
    const key = sort === "constant" ? constantsOf(run, place) : sort === "influence" ? influence(run, place) : null;
    return key ? units.sort((a, b) => (key[b] ?? Infinity) - (key[a] ?? Infinity) || a - b) : units;
  }));

/** The order of the units from the top, as they are sorted. */
function orderOf(run) {
  const { layer, direction } = situation.views[run];
  return orders[run](situation.x, situation.sort, situation.of, layer, direction);
}

/** The time constants of the units by the first gate that has them; null is infinite. */
const constantsOf = (run, place) => Object.values(factsOf(run, place).constants)[0];

const finalGradients = networks.map((network) => latest((ran, of) => network.gradient(ran, of)));

/** The influence of each unit on the last answer: Σ |∂ output / ∂ state| over its states and the steps. */
function influence(run, place) {
  const ran = untouched(run), of = situation.of ?? (task.classes ? largestOf(ran.answer) : 0);
  const { states } = recordOf(finalGradients[run](ran, of), place), sums = new Float64Array(about(run).units);
  for (const values of Object.values(states)) values.forEach((value, i) => (sums[i % sums.length] += Math.abs(value)));
  return sums;
}

/** What a map shows, and its scale: the clamped run, the untouched one, or the difference. */
function shownValues(run, name) {
  const view = situation.views[run];
  const [now, before] = [current(run), untouched(run)].map((ran) => valuesOf(ran, view, name));
  if (view.show === "difference" && isClamped(run)) {
    const values = now.map((value, i) => value - before[i]);
    return { values, scale: signedScale(values) };
  }
  const values = view.show === "untouched" ? before : now;
  const isBounded = runs[run].bounded.includes(name) && !now.some((value) => value < 0 || value > 1); // unless clamped
  return { values, scale: isBounded ? unitScale : signedScale(before, now) };
}

const WORDS = { keep: "keeps", write: "writes", add: "adds" };

/** What a value is: a state that is not in the equations holds an earlier value of something in them. */
function kindOf(run, name) {
  if (about(run).gates.includes(name)) return "gate";
  return runs[run].states.includes(name) ? "state" : "earlier value";
}

/** The maps of a run, below each other; that at the front is large and first. */
function makeMaps(run, parent) {
  const { gates, states, roles, units } = about(run), places = new Map();
  for (const name of [...gates, ...states]) {
    const role = WORDS[roles[name]], what = kindOf(run, name);
    const bring = button(name, () => toFront(run, name), `${what} ${name}: bring its map to the front`);
    const bar = element("span", { class: "bar" }), low = element("span"), high = element("span");
    const kind = element("span", { class: "note" }, role ? ` ${what}, ${role}` : ` ${what}`);
    const label = element("span", {}, bring, kind, element("span", { class: "scale note" }, low, bar, high));
    const place = strip(parent, { label, height: 64, says: "", className: "map" });
    places.set(name, { ...place, bring, bar, low, high });
    selectable(run, name, place);
  }
  when("x clamps views sort of scheme", () => {
    const view = situation.views[run], order = orderOf(run);
    for (const [name, place] of places) {
      const isFront = name === view.front, { values, scale } = shownValues(run, name);
      place.root.classList.toggle("front", isFront); // which is first by its style, so that it keeps the focus
      place.bring.setAttribute("aria-pressed", isFront);
      const height = isFront ? Math.max(150, Math.min(340, units * 10)) : Math.max(40, Math.min(72, units * 2));
      place.root.style.setProperty("--height", `${height}px`);
      const image = mapImage(values, steps(), units, order, scale);
      outlineClamps(run, name, order, drawMap(place.canvas, image));
      const size = `${units} units × ${counted(steps(), "step")}`;
      place.canvas.setAttribute("aria-label", `${name}: ${size}, ${fromTo(values)}`);
      const stops = [0, 0.25, 0.5, 0.75, 1].map((share) => css(scale, scale.low + share * (scale.high - scale.low)));
      place.bar.style.background = `linear-gradient(to right, ${stops})`;
      place.low.textContent = short(scale.low);
      place.high.textContent = short(scale.high);
    }
  });
  when("x clamps views sort of scheme units", () => {
    const front = places.get(situation.views[run].front);
    drawSelection(run, front.margin);
    for (const place of places.values()) if (place !== front) fitted(place.margin);
  });
  return places;
}

/** Frames around the clamped units of a map, from the step on from which they are clamped. */
function outlineClamps(run, name, order, { context, width: wide, height }) {
  const { layer, direction } = situation.views[run], line = height / order.length;
  context.strokeStyle = styled("--accent");
  context.lineWidth = 1.5;
  for (const clamp of situation.clamps) {
    if (clamp.run !== run || clamp.value !== name || clamp.layer !== layer || clamp.direction !== direction) continue;
    const isIn = order.map((unit) => clamp.units === null || clamp.units.includes(unit));
    const left = (clamp.from / steps()) * wide;
    for (let first = 0; first < order.length; first++) {
      if (!isIn[first]) continue;
      let end = first;
      while (isIn[end]) end++;
      context.strokeRect(left + 0.75, first * line + 0.75, wide - left - 1.5, Math.max(1, (end - first) * line - 1.5));
      first = end;
    }
  }
}

/** Show the map of a gate or state at the front. */
const toFront = (run, front) => look(run, { front });
