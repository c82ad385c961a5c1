// ---- Pooling: from the output of each step to what the head reads, as running values ---------------------------------

const RUNNING = {
  mean: ["total"],
  max: ["largest"],
  "mean+max": ["total", "largest"],
  attention: ["total", "weight", "score"], // relative to the largest score so far, and rescaled where it rises
};

/** The running values before the first step: zeros. */
function unpooled(features) {
  const sizes = { total: features, largest: features, weight: 1, score: 1 };
  return Object.fromEntries((RUNNING[about.read] ?? []).map((name) => [name, new Float64Array(sizes[name])]));
}

/**
 * Pool one more output, that of `values` at `at`: replaces the running values, and returns what the head reads if the
 * sequence ends here. `steps` is the number of steps so far, this one included.
 */
function pooled(model, running, steps, values, at) {
  const { read } = about, { features } = model, { total, largest } = running;
  const output = values.slice(at, at + features);
  if (read === "attention") return attended(model, running, output);
  const parts = [];
  if (total) {
    for (let i = 0; i < features; i++) total[i] += output[i];
    parts.push(total.map((each) => each / steps));
  }
  if (largest) {
    for (let i = 0; i < features; i++) largest[i] = steps === 1 ? output[i] : Math.max(largest[i], output[i]);
    parts.push(largest);
  }
  return parts.length ? Float64Array.from(parts.flatMap((part) => Array.from(part))) : output;
}

/** The mean with the softmax of scores as weights. */
function attended(model, { total, weight, score }, output) {
  const own = scored(model, output, 0), isFirst = weight[0] === 0, top = isFirst ? own : Math.max(score[0], own);
  const earlier = isFirst ? 0 : Math.exp(score[0] - top), now = Math.exp(own - top);
  for (let i = 0; i < total.length; i++) total[i] = total[i] * earlier + output[i] * now;
  weight[0] = weight[0] * earlier + now;
  score[0] = top;
  return total.map((each) => each / weight[0]);
}

/** The score of an output for attention. */
function scored({ query, features }, values, at) {
  let score = 0;
  for (let i = 0; i < features; i++) score += query[i] * values[at + i];
  return score;
}

/** Add to the adjoint of the outputs, from that of what was read at step `end` of a record. */
function pooledBackwards(model, ofRead, adjoint, tape, end) {
  const { features } = model, { outputs, start } = tape, running = copied(tape.running);
  let read;
  for (let t = 0; t <= end; t++) read = pooled(model, running, start + t + 1, outputs, t * features);
  if (about.read === "attention") return attendedBackwards(model, ofRead, adjoint, outputs, end, running, read);
  const { total, largest } = running;
  for (let i = 0; i < features; i++) {
    if (total) for (let t = 0; t <= end; t++) adjoint[t * features + i] += ofRead[i] / (start + end + 1);
    if (!largest) continue;
    const reach = Array.from({ length: end + 1 }, (_, t) => t).filter((t) => outputs[t * features + i] === largest[i]);
    const share = ofRead[total ? features + i : i] / reach.length; // steps with the same value share it
    for (const t of reach) adjoint[t * features + i] += share;
  }
}

function attendedBackwards(model, ofRead, adjoint, outputs, end, { weight, score }, read) {
  const { features, query } = model;
  for (let t = 0; t <= end; t++) {
    const at = t * features, share = Math.exp(scored(model, outputs, at) - score[0]) / weight[0];
    let ofScore = 0;
    for (let i = 0; i < features; i++) ofScore += ofRead[i] * (outputs[at + i] - read[i]);
    for (let i = 0; i < features; i++) adjoint[at + i] += share * (ofRead[i] + ofScore * query[i]);
  }
}

/** The running values of a state or of another pooling, to be changed on their own. */
function copied(running) {
  return Object.fromEntries((RUNNING[about.read] ?? []).map((name) => [name, running[name].slice()]));
}
