// ---- What is exported ------------------------------------------------------------------------------------------------

/** A network with these weights: { about, clamps, begin, step, run, gates, gradient, clamp }. */
function create(weights) {
  return withClamps(prepared(weights), []);
}

/** The network with some of its values clamped. */
function withClamps(model, clamps) {
  const { units, outputs, read, inputs, gates: gateNames, states, layers: count, differenced } = about;
  const isBackward = about.directions.length > 1, isWhole = isBackward || about.stem.length > 0;
  const why = isBackward ? "this network also reads backwards" : "the convolutions of this network read later steps";
  const held = clamps.map(understood);

  /** The state at the beginning of a sequence: zeros. */
  function begin() {
    if (isWhole) throw new TypeError(`${why}, so that it has no state: use run(xs)`);
    const zeros = () => Object.fromEntries(states.map((name) => [name, new Float64Array(units)]));
    const state = { steps: 0, layers: Array.from({ length: count }, zeros), ...unpooled(units) };
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
    if (isWhole && state) throw new TypeError(`${why}: expected a whole sequence, no state`);
    const tape = record || isWhole ? recorded(model, held, flat, steps, state) : null;
    const keepsAnswers = read === "steps" || (record && !isWhole);
    const answers = keepsAnswers ? new Float64Array(steps * outputs) : undefined;
    const running = state ?? unpooled(model.features), last = (tape ?? { steps }).steps - 1;
    let answer;
    for (let t = 0; t <= last; t++) {
      const features = tape ? featuresAt(tape, t, running) : advance(model, held, flat, t, state);
      if (keepsAnswers || t === last) answer = answered(model, features, 0, flat, t);
      if (answers) answers.set(answer, t * outputs);
    }
    if (tape && state) {
      state.steps += steps;
      for (let i = 0; i < differenced; i++) state.before[i] = flat[(steps - 1) * inputs + i];
    }
    const result = { steps, answer, answers, state };
    return record ? { ...result, layers: shown(tape), clamps, tape } : result;
  }

  /** What the head reads if the sequence ends at step t, from a record; the running values are replaced. */
  function featuresAt(tape, t, running) {
    const { features } = model, row = pooled(model, running, tape.start + t + 1, tape.outputs, t * features);
    if (read === "last" && isBackward) row.set(tape.outputs.subarray(units, features), units);
    return row;
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
      throw new RangeError(`${why}: it answers after the last step only`);
    const chosen = typeof of === "number" ? Float64Array.from({ length: outputs }, (_, i) => +(i === of)) : of;
    if (chosen.length !== outputs) throw new RangeError(`${chosen.length} weights: expected ${outputs}, one per output`);
    return differentiated(model, ran.tape, chosen, at - ran.steps + ran.tape.steps); // a stem makes fewer steps
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
