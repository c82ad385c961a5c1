// ---- Series: numbers over time, whose points can be dragged ---------------------------------------------------------

let column = 0; // the one that is dragged

/** The name of a column. */
const columnName = (i) => visible(task.columns[i] ?? `input ${i + 1}`);

/** A range with some room around it. */
function roomy([low, high]) {
  const room = 0.15 * (high - low || 1);
  return [low - room, high + room];
}

/** All columns of an input, as lines. */
function inputLines(x = situation.x) {
  return upTo(width).map((i) => ({ values: upTo(x.length / width).map((t) => x[t * width + i]), colour: i }));
}

/** The editor of series: a chart in which a pointer draws the chosen column. */
function makeSeries(parent) {
  // Lines do not move while they are dragged: the examples are within their ranges, too.
  const seen = task.examples.flatMap(({ x }) => inputLines(x))
    .map(({ values, colour }) => ({ values: rangeOf(values), colour }));
  const names = upTo(width).map(columnName);
  const label = element("span", {}, "drag the points", ...(width > 1 ? legend(names) : []));
  const place = strip(parent, { label, height: 170, says: "the input over time", className: "editor" });
  const plot = place.plot.cloneNode(true); // without the listeners that scrub
  place.plot.replaceWith(plot);
  place.canvas = plot.querySelector("canvas");
  place.canvas.setAttribute("role", "img");
  Object.assign(plot, { tabIndex: 0 });
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", "the input; arrow keys left and right move in time, up and down change the value");
  let axis = null, last = null;
  const draw = () => {
    const lines = inputLines();
    axis = drawLines(place, lines, steps(), rangesOf([...seen, ...lines]).map(roomy), column);
    if (steps() <= 120) drawPoints(place.canvas, axis);
  };
  when("x scheme", draw);
  const set = (event) => {
    const box = plot.getBoundingClientRect(), t = stepAt(plot, event), x = situation.x.slice();
    const share = Math.max(0, Math.min(1, (box.bottom - 6 - event.clientY) / (box.height - 12)));
    const [low, high] = axis.axes[column], value = low + share * (high - low);
    const from = last?.t ?? t, before = last?.value ?? value;
    for (let s = Math.min(from, t); s <= Math.max(from, t); s++)
      x[s * width + column] = s === t ? value : before + ((value - before) * (s - from)) / (t - from);
    last = { t, value };
    setInput(x);
  };
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pause();
    plot.setPointerCapture(event.pointerId);
    remember();
    change({ t: steps() - 1 });
    set(event);
  });
  plot.addEventListener("pointermove", (event) => {
    if (last) set(event);
  });
  for (const end of ["pointerup", "pointercancel"]) plot.addEventListener(end, () => (last = null));
  plot.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    remember();
    const x = situation.x.slice(), [low, high] = axis.axes[column];
    x[situation.t * width + column] += (event.key === "ArrowUp" ? 0.02 : -0.02) * (high - low);
    setInput(x);
  });
  if (width > 1)
    parent.append(choice("column to drag", [...names.entries()], 0, (chosen) => {
      column = Number(chosen);
      draw();
    }));
}

/** The points of all columns. */
function drawPoints(canvas, { y }) {
  const context = canvas.getContext("2d");
  inputLines().forEach(({ values, colour }) => {
    context.fillStyle = styled(LINES[colour % LINES.length]);
    values.forEach((value, t) => {
      context.beginPath();
      context.arc(((t + 0.5) / values.length) * canvas.clientWidth, y(value, colour), 3, 0, 7);
      context.fill();
    });
  });
}
