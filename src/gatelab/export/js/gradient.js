// ---- The gradient: from the answer back through the head, the layers and the preparation of the input ----------------

/** The derivatives of Σ weights · answer with respect to the raw input and every state; `end` is the step that answers. */
function differentiated(model, tape, weights, end) {
  const { units, residual, directions } = about, { features } = model, { steps } = tape;
  const answer = Float64Array.from(weights, (w, i) => w * (model.outputDeviation ? model.outputDeviation[i] : 1));
  let adjoint = new Float64Array(steps * features); // of the last layer's output
  readBackwards(model, answer, adjoint, tape, end);
  const layers = [];
  for (let number = model.layers.length - 1; number >= 0; number--) {
    const { x, records } = tape.layers[number];
    const ofInput = residual && number ? adjoint.slice() : new Float64Array(x.length);
    const found = model.layers[number].map((layer, d) => {
      const record = records[d], isForward = layer.direction === "fwd";
      const adjoints = record.states.map((array) => new Float64Array(array.length));
      for (let n = 0; n < steps; n++) {
        const t = isForward ? steps - 1 - n : n, [at, from, to] = layer.rows(t);
        for (let j = 0; j < units; j++) adjoints[0][to + j] += adjoint[t * features + d * units + j];
        layer.hold(tape.clamps, tape.start + t);
        layer.backward(x, t * layer.inputs, record, adjoints, ofInput, at, from, to);
      }
      return { layer: number, direction: directions[d], states: named(about.states, adjoints, layer.direction, steps) };
    });
    layers.unshift(...found);
    adjoint = ofInput;
  }
  for (let number = model.stem.length - 1; number >= 0; number--) {
    const { output, steps: from } = tape.stem[number];
    adjoint = model.stem[number].backward(output, adjoint, from);
  }
  return { x: rawGradient(model, adjoint, weights, tape, end), layers };
}

/** The adjoint of the last layer's output, from that of the answer. */
function readBackwards(model, answer, adjoint, tape, end) {
  const { units, read, directions, outputs } = about, { features, readSize } = model;
  const ofRead = new Float64Array(readSize);
  if (model.head) multiply(ofRead, 0, model.headTransposed, answer, 0);
  else for (let i = 0; i < outputs; i++) ofRead[i] = answer[i];
  if (read in RUNNING) return pooledBackwards(model, ofRead, adjoint, tape, end);
  directions.forEach((direction, d) => {
    const t = direction === "bwd" && read === "last" ? 0 : end;
    for (let i = d * units; i < (d + 1) * units; i++) adjoint[t * features + i] = ofRead[i];
  });
}

/** The derivatives with respect to the raw input: of tokens with respect to their one-hot vectors. */
function rawGradient(model, adjoint, weights, tape, end) {
  const { inputs, tokens, differenced } = about, { length, start } = tape, { width, embedding } = model;
  const x = new Float64Array(length * inputs);
  for (let t = 0; t < length; t++)
    for (let i = 0; i < inputs; i++) {
      let own = 0;
      if (tokens && embedding) for (let k = 0; k < width; k++) own += embedding[i * width + k] * adjoint[t * width + k];
      else own = adjoint[t * width + i] / (model.inputDeviation ? model.inputDeviation[i] : 1);
      if (i >= differenced || start + t > 0) x[t * inputs + i] += own;
      if (i < differenced && t > 0) x[(t - 1) * inputs + i] -= own;
    }
  for (let i = 0; i < differenced; i++) x[end * inputs + i] += weights[i]; // changes are added to the last value
  return x;
}

/** Arrays of states by name, the value after each step. */
function named(names, arrays, direction, steps) {
  const [first, last] = direction === "fwd" ? [1, steps + 1] : [0, steps];
  return Object.fromEntries(names.map((name, i) => [name, arrays[i].subarray(first * about.units, last * about.units)]));
}
