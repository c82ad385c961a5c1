// ---- Output: the distribution over the classes at every step, or the predicted values ------------------------------

/** The strip of a run's answers; none for a network that answers after the last step only. */
function makeOutput(run, parent) {
  if (!untouched(run).answers) return;
  const names = (task.classes ?? []).map(visible), lines = names.length;
  const values = `predicted ${task.targets.map(visible).join(", ")}`;
  const says = `output: ${task.classes ? "probability of each class" : values}`;
  const dots = !task.classes && task.perStep ? "; dotted: target" : "";
  const label = element("span", {}, says + dots, ...(task.targets.length > 1 ? legend(task.targets.map(visible)) : []));
  const height = task.classes ? (lines <= 14 ? Math.max(40, 15 * lines) : 150) : 120;
  const place = strip(parent, { label, height, says });
  when("x clamps views scheme", () => (task.classes ? drawProbabilities(run, place) : drawPredicted(run, place)));
  if (!task.classes) return;
  const predicted = () => largestOf(answerAt(current(run), run, situation.t));
  when("x clamps t scheme", () => drawNames(place.margin, names, predicted()));
}

/** Probabilities, classes × steps. */
function drawProbabilities(run, place) {
  const K = about(run).outputs, view = situation.views[run];
  const probabilities = (ran) => {
    const all = new Float64Array(ran.steps * K);
    for (let t = 0; t < ran.steps; t++) all.set(softmax(answerAt(ran, run, t)), t * K);
    return all;
  };
  let values = probabilities(view.show === "untouched" ? untouched(run) : current(run)), scale = unitScale;
  if (view.show === "difference" && isClamped(run)) {
    const before = probabilities(untouched(run));
    values = values.map((value, i) => value - before[i]);
    scale = signedScale(values);
  }
  drawMap(place.canvas, mapImage(values, steps(), K, upTo(K), scale));
}

/** Predicted values as lines, the targets dotted, and the untouched network's thin where there are clamps. */
function drawPredicted(run, place) {
  const K = about(run).outputs, count = steps(), target = targetNow();
  const series = [];
  const column = (values, k) => upTo(values.length / K).map((t) => values[t * K + k]);
  for (let k = 0; k < K; k++) {
    if (target && task.perStep) series.push({ values: column(target, k), colour: k, dash: [2, 3] });
    if (isClamped(run)) series.push({ values: column(untouched(run).answers, k), colour: k, thin: true });
    series.push({ values: column(current(run).answers, k), colour: k });
  }
  drawLines(place, series, count);
}

const LINES = ["--blue", "--orange", "--green", "--pink", "--yellow", "--sky"];
const DASHES = [[], [9, 4], [14, 3, 3, 3]], BORDERS = ["none", "dashed", "dotted"]; // where there are more lines

/** Which repetition of the colours a line has. */
const turnOf = (colour) => Math.floor(colour / LINES.length) % DASHES.length;

/** The names of lines, each in its colour. */
const legend = (names) => names.map((name, i) => {
  const line = element("span", { class: "line" }, name);
  line.style.color = `var(${LINES[i % LINES.length]})`;
  line.style.textDecoration = turnOf(i) ? `underline ${BORDERS[turnOf(i)]}` : "none";
  return line;
});

/** The range of the lines of each colour: the same for all, unless some would be flat between the others. */
function rangesOf(series) {
  const ends = [];
  for (const { values, colour } of series) ends[colour] = (ends[colour] ?? []).concat(rangeOf(values));
  const own = ends.map(rangeOf), [low, high] = rangeOf(own.flat());
  return own.some(([from, to]) => to > from && to - from < (high - low) / 20) ? own : own.map(() => [low, high]);
}

/** A range that is not empty. */
function opened([low, high]) {
  if (high > low) return [low, high];
  return Number.isFinite(low) ? [low - (Math.abs(low) || 1), low + (Math.abs(low) || 1)] : [0, 1];
}

/** Lines over the steps, with the range of one colour in the margin. Returns the place of a value. */
function drawLines({ canvas, margin }, series, count, ranges = rangesOf(series), labelled = 0) {
  const { context, width, height } = fitted(canvas);
  const axes = ranges.map(opened), isShared = axes.every(([low, high]) => low === axes[0][0] && high === axes[0][1]);
  const y = (value, colour) => {
    const [low, high] = axes[colour];
    return height - 6 - ((value - low) / (high - low)) * (height - 12);
  };
  for (const { values, colour, dash = DASHES[turnOf(colour)], thin } of series) {
    context.beginPath();
    values.forEach((value, t) => context[t ? "lineTo" : "moveTo"](((t + 0.5) / count) * width, y(value, colour)));
    context.strokeStyle = styled(thin ? "--faint" : LINES[colour % LINES.length]);
    context.lineWidth = thin || dash.length ? 1 : 1.8;
    context.setLineDash(dash);
    context.stroke();
    context.setLineDash([]);
    if (values.length === 1 || count <= 1) context.strokeRect(width / 2 - 2, y(values[0], colour) - 2, 4, 4);
  }
  const side = fitted(margin), [low, high] = axes[labelled];
  side.context.font = "11px system-ui, sans-serif";
  side.context.fillStyle = styled(isShared ? "--faint" : LINES[labelled % LINES.length]);
  side.context.textAlign = "right";
  side.context.fillText(short(high), side.width - 5, 12, side.width - 6);
  side.context.fillText(short(low), side.width - 5, side.height - 4, side.width - 6);
  return { axes, y };
}
