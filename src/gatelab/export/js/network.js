// ---- The network: input, layers, head; step by step, or a whole sequence with all that happens in it -----------------

/** The numbers of a weight; `length` of them are expected. */
function decoded(weights, name, length) {
  const kind = name in weights.float32 ? "float32" : "float64", text = weights[kind][name];
  if (text === undefined) throw new TypeError(`the weights have no ${name}: expected those of ${about.name}`);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  const values = kind === "float32" ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
  if (length !== undefined && values.length !== length)
    throw new TypeError(`${name} has ${values.length} numbers: expected ${length}`);
  return values;
}

/** One layer in one direction. */
class Layer {
  constructor(weights, number, direction, inputs) {
    const { units, gates, states, tokens, embedding, stem } = about;
    const read = new Map(); // both steps read the same weights
    const parameter = (name) => {
      const length = name.startsWith("W.") ? units * inputs : name.startsWith("b.") ? units : undefined;
      if (!read.has(name)) read.set(name, decoded(weights, `layers.${number}.${direction}.${name}`, length));
      return read.get(name);
    };
    Object.assign(this, { number, direction, inputs, isClamped: false });
    this.clamps = [...gates, ...states].map(() => ({ on: new Float64Array(units), to: new Float64Array(units) }));
    this.forward = forwardStep(parameter, inputs, this.clamps, tokens && !embedding && !stem.length && !number);
    this.backward = backwardStep(parameter, inputs, this.clamps);
    this.scratch = Layer.record(1);
  }

  /** Memory for the values of some steps. */
  static record(steps) {
    const arrays = (count, rows) => Array.from({ length: count }, () => new Float64Array(rows * about.units));
    return {
      states: arrays(about.states.length, steps + 1),
      gates: arrays(about.gates.length, steps),
      saved: arrays(SAVED, steps),
    };
  }

  /** Where a step reads and writes: rows of the gates, of the old states and of the new ones. */
  rows(t) {
    const at = t * about.units, next = at + about.units;
    return this.direction === "fwd" ? [at, at, next] : [at, next, at];
  }

  /** Set the clamps of one step. */
  hold(clamps, t) {
    if (this.isClamped) for (const { on } of this.clamps) on.fill(0);
    this.isClamped = clamps.length > 0;
    for (const clamp of clamps) {
      const isElsewhere = clamp.layer !== this.number || (clamp.direction ?? this.direction) !== this.direction;
      if (isElsewhere || t < clamp.from || t >= clamp.until) continue;
      const { on, to } = this.clamps[clamp.index];
      clamp.units.forEach((unit, i) => {
        on[unit] = 1;
        to[unit] = clamp.valueAt(t, unit, i);
      });
    }
  }
}

/** All weights, ready to be used. */
function prepared(weights) {
  const { inputs, units, outputs, directions, embedding, hasHead, read } = about;
  const width = embedding ?? inputs, features = units * directions.length;
  const readSize = read === "mean+max" ? 2 * features : features;
  const stem = about.stem.map((sizes, number) => new Convolution(weights, number, sizes));
  const first = stem.length ? stem.at(-1).channels : width;
  const isGiven = (name) => name in weights.float32 || name in weights.float64;
  const array = (name, length) => (isGiven(name) ? decoded(weights, name, length) : null);
  const layers = Array.from({ length: about.layers }, (_, number) =>
    directions.map((direction) => new Layer(weights, number, direction, number ? features : first)));
  const head = hasHead ? decoded(weights, "head.weight", outputs * readSize) : null;
  return {
    stem,
    layers,
    width,
    features,
    readSize,
    query: array("query", features),
    embedding: array("embedding", inputs * width),
    inputMean: array("input.mean", inputs),
    inputDeviation: array("input.deviation", inputs),
    outputMean: array("output.mean", outputs),
    outputDeviation: array("output.deviation", outputs),
    head: head && packed(readSize, [head]),
    headBias: head && decoded(weights, "head.bias", outputs),
    headTransposed: head && packed(outputs, [transposed(head, readSize)]),
  };
}

/** A sequence as one array of numbers or tokens, from that or from a list of steps. */
function flattened(xs) {
  const { inputs, tokens } = about;
  const flat = xs.length && xs[0].length !== undefined ? Array.from(xs, (row) => Array.from(row)).flat() : xs;
  if (!tokens && flat.length % inputs)
    throw new RangeError(`a sequence has ${flat.length} numbers: expected ${inputs} for each step`);
  if (tokens)
    for (const token of flat)
      if (!(Number.isInteger(token) && token >= 0 && token < inputs))
        throw new RangeError(`${token} is not a token: expected an integer from 0 to ${inputs - 1}`);
  return { flat, steps: tokens ? flat.length : flat.length / inputs };
}

/** What the first layer reads at step t of a sequence, from the raw input; `before` is the last input, if any. */
function encode(model, flat, t, before, out, at) {
  const { inputs, tokens, differenced } = about;
  if (tokens) {
    const token = flat[t], width = model.width;
    for (let i = 0; i < width; i++) out[at + i] = model.embedding ? model.embedding[token * width + i] : +(i === token);
    return;
  }
  for (let i = 0; i < inputs; i++) {
    let value = flat[t * inputs + i];
    if (i < differenced) {
      const last = t > 0 ? flat[(t - 1) * inputs + i] : before && before[i];
      value = last === null ? 0 : value - last;
    }
    out[at + i] = model.inputMean ? (value - model.inputMean[i]) / model.inputDeviation[i] : value;
  }
}

/** The answer to features of the last layer; `flat` at `t` is the input of the step, which changes are added to. */
function answered(model, features, at, flat, t) {
  const { inputs, outputs, differenced } = about;
  const answer = new Float64Array(outputs);
  if (model.head) {
    answer.set(model.headBias);
    multiply(answer, 0, model.head, features, at);
  } else {
    for (let i = 0; i < outputs; i++) answer[i] = features[at + i];
  }
  if (model.outputMean)
    for (let i = 0; i < outputs; i++) answer[i] = answer[i] * model.outputDeviation[i] + model.outputMean[i];
  for (let i = 0; i < differenced; i++) answer[i] += flat[t * inputs + i];
  return answer;
}

/** One step of all layers: replaces the state, returns the features that the head reads if the sequence ends here. */
function advance(model, clamps, flat, t, state) {
  const { units, residual, states, differenced, inputs } = about;
  let values = new Float64Array(model.width);
  encode(model, flat, t, state.steps ? state.before : null, values, 0);
  model.layers.forEach(([layer], number) => {
    const { scratch } = layer, own = state.layers[number];
    states.forEach((name, s) => scratch.states[s].set(own[name]));
    layer.hold(clamps, state.steps);
    layer.forward(values, 0, scratch, 0, 0, units);
    states.forEach((name, s) => own[name].set(scratch.states[s].subarray(units)));
    const output = own[states[0]].slice();
    if (residual && number) for (let j = 0; j < units; j++) output[j] += values[j];
    values = output;
  });
  state.steps += 1;
  for (let i = 0; i < differenced; i++) state.before[i] = flat[t * inputs + i];
  return pooled(model, state, state.steps, values, 0);
}

/** Run all layers over a sequence and keep every value. A stem makes fewer steps of it. */
function recorded(model, clamps, flat, length, state) {
  const { units, residual, states } = about, { features } = model;
  const start = state ? state.steps : 0, before = start && about.differenced ? state.before.slice() : null;
  const running = state ? copied(state) : unpooled(features);
  let values = new Float64Array(length * model.width), steps = length;
  for (let t = 0; t < steps; t++) encode(model, flat, t, before, values, t * model.width);
  const stem = model.stem.map((convolution) => {
    const from = steps;
    values = convolution.forward(values, steps);
    steps = convolution.shortened(steps);
    return { output: values, steps: from };
  });
  const layers = model.layers.map((directions, number) => {
    const outputs = new Float64Array(steps * features), x = values;
    const records = directions.map((layer, d) => {
      const record = Layer.record(steps), isForward = layer.direction === "fwd";
      if (state) states.forEach((name, s) => record.states[s].set(state.layers[number][name]));
      for (let n = 0; n < steps; n++) {
        const t = isForward ? n : steps - 1 - n, [at, from, to] = layer.rows(t);
        layer.hold(clamps, start + t);
        layer.forward(x, t * layer.inputs, record, at, from, to);
        for (let j = 0; j < units; j++) {
          const place = t * features + d * units + j;
          outputs[place] = record.states[0][to + j] + (residual && number ? x[place] : 0);
        }
      }
      if (state)
        states.forEach((name, s) => state.layers[number][name].set(record.states[s].subarray(steps * units)));
      return record;
    });
    values = outputs;
    return { x, records };
  });
  return { stem, layers, outputs: values, flat, length, steps, start, before, clamps, running };
}
