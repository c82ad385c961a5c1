// ---- The situation: everything that the reader has chosen. Every view is a function of it. --------------------------

const { task, runs } = JSON.parse(byId("data").textContent);

const situation = {
  example: 0, // the index of the example that x came from
  x: Float64Array.from(task.examples[0].x), // T × D numbers, or T tokens
  isOwn: false, // whether x was changed by hand
  t: 0, // the step that was read last
  sort: "unit", // "unit", "constant" or "influence"
  of: null, // the output that is differentiated; null for the predicted one
  clamps: [], // [{ run, layer, direction, value, units: [] or null for all, to, from }]
  from: 0, // the first step of the next clamp
  views: [], // what is shown of each run: { layer, direction, front, show }
  own: null, // the last input that was changed by hand, before an example was loaded
  units: [], // the selected units of each run, in the map at the front
};

const listeners = []; // [keys of the situation, function]
const touched = new Set();
const past = []; // situations to return to
let frame = 0;

/** Call a function in the next frame after any of these parts of the situation has changed. */
const when = (keys, listener) => listeners.push([keys.split(" "), listener]);

/** Change parts of the situation. */
function change(parts) {
  Object.assign(situation, parts);
  announce(...Object.keys(parts));
}

/** Have everything drawn again that depends on these: parts of the situation, "past", "gradient" or "scheme". */
function announce(...keys) {
  for (const key of keys) touched.add(key);
  if (!frame) frame = requestAnimationFrame(render);
}

/** Draw whatever depends on what has changed. */
function render() {
  frame = 0;
  const keys = new Set(touched);
  touched.clear();
  for (const [wanted, listener] of listeners) if (wanted.some((key) => keys.has(key))) listener(keys);
}

/** Remember the input and the clamps as they are, to return to them. */
function remember() {
  const { example, x, isOwn, clamps } = situation;
  past.push({ example, x: x.slice(), isOwn, clamps });
  if (past.length > 200) past.shift();
  announce("past");
}

/** Return to the situation before the last change of input or clamps. */
function undo() {
  const before = past.pop();
  if (!before) return;
  pause();
  change(before);
  announce("past");
  change({ t: Math.min(situation.t, steps() - 1), from: Math.min(situation.from, steps() - 1) });
}

/** Change what is shown of a run. */
const look = (run, parts) =>
  change({ views: situation.views.map((view, i) => (i === run ? { ...view, ...parts } : view)) });

/** The number of numbers at each step of the input. */
const { width } = task;

/** The number of steps of the input. */
const steps = () => situation.x.length / width;

/** The largest number of steps that an input can have. */
const LONGEST = task.examples.reduce((most, { x }) => Math.max(most, x.length / width), 20000);

/** Move the cursor to a step. */
function toStep(t) {
  const place = Math.max(0, Math.min(steps() - 1, t));
  if (place !== situation.t) change({ t: place });
}

/** Replace the input; its last step is shown if its length has changed. */
function setInput(x, parts = {}) {
  const isLongerOrShorter = x.length !== situation.x.length;
  pause();
  change({ x: Float64Array.from(x), isOwn: true, ...parts });
  if (isLongerOrShorter) change({ t: steps() - 1, from: Math.min(situation.from, steps() - 1) });
}

/** Load an example. */
function load(example) {
  remember();
  if (situation.isOwn) change({ own: Array.from(situation.x) });
  setInput(task.examples[example].x, { example, isOwn: false });
  change({ t: steps() - 1 });
}
