// ---- The networks: the untouched one and the one with clamps, run on the input as it is now -------------------------

const networks = runs.map(({ network }) => globalThis[network].create(globalThis[network].weights));
const about = (run) => networks[run].about;
const SORTS = ["unit", "constant", "influence"], SHOWN = ["clamped", "untouched", "difference"];

/** Remember the last result of a function of objects that are replaced when they change. */
function latest(compute) {
  let before = null, result;
  return (...inputs) => {
    if (!before || inputs.some((input, i) => input !== before[i])) {
      result = compute(...inputs);
      before = inputs;
    }
    return result;
  };
}

const recordings = networks.map((network) => latest((x) => network.run(x, { record: true })));

/** The run of the network as it was trained. */
const untouched = (run) => recordings[run](situation.x);

/** The input that a clamp takes its values from: of an example, or the reader's own. */
const donorOf = (to) => to.input ?? task.examples[to.example].x;

/** The run on such an input. */
const onDonor = networks.map((network) => {
  const found = new WeakMap();
  return (x) => {
    if (!found.has(x)) found.set(x, network.run(x, { record: true }));
    return found.get(x);
  };
});

/** What a recorded run has of a layer and direction. */
const recordOf = (ran, place) => ran.layers.find((record) => isSame(record, place));

/** Whether two places are the same layer and direction. */
const isSame = (a, b) => a.layer === b.layer && a.direction === b.direction;

/** The values of a gate or state, T × H. */
function valuesOf(ran, place, name) {
  const record = recordOf(ran, place);
  return record.gates[name] ?? record.states[name];
}

/** The facts about the units of a layer and direction. */
const factsOf = (run, place) => runs[run].units.find((facts) => isSame(facts, place));

/** A clamp as the network takes it: words become numbers. */
function resolved(clamp) {
  const { run, layer, direction, value, from, to } = clamp, size = about(run).units;
  const units = clamp.units ?? upTo(size);
  const plain = { layer, direction, value, units, from };
  if (to === "mean") return { ...plain, to: units.map((unit) => factsOf(run, clamp).means[value][unit]) };
  if (to === "hold") {
    const values = valuesOf(untouched(run), clamp, value), at = Math.min(from, steps() - 1) * size;
    return { ...plain, to: units.map((unit) => values[at + unit]) };
  }
  if (typeof to === "object") return { ...plain, to: valuesOf(onDonor[run](donorOf(to)), clamp, value) };
  return { ...plain, to };
}

const intervened = networks.map((network, run) =>
  latest((x, clamps) => {
    const own = clamps.filter((clamp) => clamp.run === run);
    return own.length ? network.clamp(own.map(resolved)).run(x, { record: true }) : untouched(run);
  }));

/** The run with the clamps; the untouched one if there are none. */
const current = (run) => intervened[run](situation.x, situation.clamps);

/** Whether a network has clamps. */
const isClamped = (run) => situation.clamps.some((clamp) => clamp.run === run);

/** The answer after step t: scores or values; null if the network answers after the last step only. */
function answerAt(ran, run, t) {
  const { outputs } = about(run);
  if (ran.answers) return ran.answers.subarray(t * outputs, (t + 1) * outputs);
  return t === ran.steps - 1 ? ran.answer : null;
}

/** Probabilities from scores. */
function softmax(scores) {
  const largest = Math.max(...scores), powers = Array.from(scores, (score) => Math.exp(score - largest));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / total);
}

/** Whether scores or predicted values can be shown: nothing was divided by 0, or became too large. */
const isAnswer = (values) => values.every(Number.isFinite);

/** The index of the largest. */
const largestOf = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

/** The output that is differentiated: the chosen one, or that with the highest score. */
function differentiated(run, at) {
  if (situation.of !== null) return situation.of;
  return task.classes ? largestOf(answerAt(current(run), run, at)) : 0;
}

/** The step whose answer is differentiated: that of the cursor, where the network has one. */
const answeringStep = (ran) => (ran.answers ? situation.t : ran.steps - 1);

const gradients = networks.map((network) => latest((ran, of, at) => ({ ...network.gradient(ran, of, at), of, at })));

/** The derivatives of one output at the cursor, with clamps. */
function gradient(run) {
  const ran = current(run), at = answeringStep(ran);
  return gradients[run](ran, differentiated(run, at), at);
}
