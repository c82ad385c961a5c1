// ---- What is exported ------------------------------------------------------------------------------------------------

/** A network with these weights: { about, clamps, begin, step, run, gates, gradient, clamp }. */
function create(weights) {
  return withClamps(prepared(weights), []);
}

/** The network with some of its values clamped. */
function withClamps(model, clamps) {
  const { units, outputs, read, inputs, gates: gateNames, states, layers: count, differenced } = about;
  const isWhole = about.directions.length > 1, held = clamps.map(understood);

  /** The state at the beginning of a sequence: zeros. */
  function begin() {
    if (isWhole) throw new TypeError("this network also reads backwards, so that it has no state: use run(xs)");
    const zeros = () => Object.fromEntries(states.map((name) => [name, new Float64Array(units)]));
    const state = { steps: 0, layers: Array.from({ length: count }, zeros) };
    if (read === "mean") state.total = new Float64Array(units);
    if (differenced) state.before = new Float64Array(differenced);
    return state;
  }

  /** One step: replaces the state, and returns the answer if the sequence ends here. x is a list of numbers or a token. */
  function step(x, state) {
    if (isWhole) begin();
    const { flat, steps } = flattened(about.tokens ? [x] : x);
    if (steps !== 1) throw new RangeError(`a step has ${flat.length} numbers: expected ${inputs}`);
    return answered(model, advance(model, held, flat, 0, state), 0, flat, 0);
  }

  /** A sequence, or a piece of one that continues a state; the state is replaced. With `record`, all values are kept. */
  function run(xs, { state = isWhole ? null : begin(), record = false } = {}) {
    const { flat, steps } = flattened(xs);
    if (!steps) throw new RangeError("the sequence has no steps: expected at least one");
    if (isWhole && state) throw new TypeError("this network also reads backwards: expected a whole sequence, no state");
    const tape = record || isWhole ? recorded(model, held, flat, steps, state) : null;
    const keepsAnswers = read === "steps" || (record && !isWhole);
    const answers = keepsAnswers ? new Float64Array(steps * outputs) : undefined;
    let answer;
    for (let t = keepsAnswers || !tape ? 0 : steps - 1; t < steps; t++) {
      const features = tape ? featuresAt(tape, t, state) : advance(model, held, flat, t, state);
      if (keepsAnswers || t === steps - 1) answer = answered(model, features, 0, flat, t);
      if (answers) answers.set(answer, t * outputs);
    }
    if (tape && state) {
      state.steps += steps;
      for (let i = 0; i < differenced; i++) state.before[i] = flat[(steps - 1) * inputs + i];
    }
    const result = { steps, answer, answers, state };
    return record ? { ...result, layers: shown(tape), clamps, tape } : result;
  }

  /** What the head reads if the sequence ends at step t, from a record; a mean continues that of the state. */
  function featuresAt(tape, t, state) {
    const { features } = model, { outputs: values, steps } = tape;
    const row = values.slice(t * features, (t + 1) * features);
    if (read === "last" && isWhole) row.set(values.subarray(units, features), units);
    if (read !== "mean") return row;
    const total = state ? state.total : new Float64Array(features);
    for (let s = isWhole ? 0 : t; s <= t; s++)
      for (let i = 0; i < features; i++) total[i] += values[s * features + i];
    return total.map((each) => each / (tape.start + t + 1));
  }

  /** Every gate and state of every layer, (steps × units) each. */
  function shown({ layers, steps }) {
    return layers.flatMap(({ records }, layer) =>
      records.map((record, d) => ({
        layer,
        direction: about.directions[d],
        gates: Object.fromEntries(gateNames.map((name, i) => [name, record.gates[i]])),
        states: named(states, record.states, about.directions[d], steps),
      })));
  }

  /** The gates and states of a sequence: what `run` records of the layers. */
  const gates = (xs) => run(xs, { record: true }).layers;

  /**
   * The derivatives of Σ of · answer, for a recorded run: { x: (steps × inputs), layers: [{ states: (steps × units) }] }.
   * `of` has a number for each output, or is the index of one; `at` is the step whose answer it is.
   */
  function gradient(ran, of, at = ran.steps - 1) {
    if (!ran.tape) throw new TypeError("the run was not recorded: expected one of run(xs, { record: true })");
    if (!(Number.isInteger(at) && at >= 0 && at < ran.steps))
      throw new RangeError(`there is no step ${at}: expected one from 0 to ${ran.steps - 1}`);
    if (isWhole && read !== "steps" && at !== ran.steps - 1)
      throw new RangeError("this network also reads backwards: it answers after the last step only");
    const chosen = typeof of === "number" ? Float64Array.from({ length: outputs }, (_, i) => +(i === of)) : of;
    if (chosen.length !== outputs) throw new RangeError(`${chosen.length} weights: expected ${outputs}, one per output`);
    return differentiated(model, ran.tape, chosen, at);
  }

  /** The same network with values clamped, beside this one: one or several { layer, value, units, to, from, until }. */
  const clamp = (more) => withClamps(model, clamps.concat(more));

  return Object.freeze({ about, clamps, begin, step, run, gates, gradient, clamp });
}

/** A clamp, checked, with defaults: all units, all steps, every direction. */
function understood({ layer = 0, direction, value, units, to, from, until }) {
  const values = [...about.gates, ...about.states], index = values.indexOf(value), size = about.units;
  const chosen = units === undefined || units === "all" ? Array.from({ length: size }, (_, j) => j) : Array.from(units);
  if (index < 0) throw new RangeError(`there is no gate or state ${value}: expected one of ${values.join(", ")}`);
  if (!(Number.isInteger(layer) && layer >= 0 && layer < about.layers))
    throw new RangeError(`there is no layer ${layer}: expected one from 0 to ${about.layers - 1}`);
  if (direction !== undefined && !about.directions.includes(direction))
    throw new RangeError(`there is no direction ${direction}: expected ${about.directions.join(" or ")}`);
  const wrong = chosen.find((unit) => !(Number.isInteger(unit) && unit >= 0 && unit < size));
  if (wrong !== undefined) throw new RangeError(`there is no unit ${wrong}: expected one from 0 to ${size - 1}`);
  const clamp = { layer, direction, index, units: chosen, from: from ?? 0, until: until ?? Infinity };
  if (Number.isFinite(to)) return { ...clamp, valueAt: () => to };
  const count = to?.length ?? 0;
  if (count === chosen.length) return { ...clamp, valueAt: (t, unit, i) => to[i] };
  if (count && count % size === 0)
    return { ...clamp, until: Math.min(clamp.until, count / size), valueAt: (t, unit) => to[t * size + unit] };
  const expected = `a number, ${chosen.length} numbers, or ${size} for each step`;
  throw new RangeError(`${value} is clamped to ${count ? `${count} numbers` : to}: expected ${expected}`);
}
