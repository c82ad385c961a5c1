// ---- Strips: rows of a common time axis, each with a label, a margin and a canvas -----------------------------------

/** A strip in a panel. The margin has names of lines, and is where units are brushed. */
function strip(parent, { label, height, says, className = "" }) {
  const margin = element("canvas", { class: "margin", "aria-hidden": "true" });
  const canvas = element("canvas", { role: "img", "aria-label": says });
  const plot = element("div", { class: "plot" }, canvas, element("div", { class: "cursor" }));
  const root = element("div", { class: `strip ${className}` }, element("div", { class: "label" }, label), margin, plot);
  root.style.setProperty("--height", `${height}px`);
  parent.append(root);
  scrubbed(plot);
  return { root, margin, canvas, plot };
}

/** The step under a pointer. */
function stepAt(plot, event) {
  const box = plot.getBoundingClientRect();
  return Math.max(0, Math.min(steps() - 1, Math.floor(((event.clientX - box.left) / box.width) * steps())));
}

/** Pressing or drawing a pointer along the time axis moves the cursor. */
function scrubbed(plot) {
  plot.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    plot.setPointerCapture(event.pointerId);
    seek(stepAt(plot, event));
  });
  plot.addEventListener("pointermove", (event) => {
    if (plot.hasPointerCapture(event.pointerId)) seek(stepAt(plot, event));
  });
}

/** All cursors stand at the step that was read last: one style for a whole page. */
function moveCursors() {
  const style = document.documentElement.style, count = steps();
  style.setProperty("--from", situation.t / count);
  style.setProperty("--share", 1 / count);
}

const shortened = new Map(); // by font, width and text: measuring at every step of time is slow

/** A text that fits into a width: its end is left out if it is too long. */
function fitting(context, text, room) {
  const key = `${context.font} ${room} ${text}`;
  if (!shortened.has(key)) {
    const signs = [...text].slice(0, 60), isShort = context.measureText(text).width <= room;
    while (signs.length > 1 && context.measureText(`${signs.join("")}…`).width > room) signs.pop();
    shortened.set(key, isShort ? text : `${signs.join("")}…`);
  }
  return shortened.get(key);
}

/** Names at the lines of a strip, as many as there is room for. */
function drawNames(canvas, names, emphasized = -1) {
  const { context, width, height } = fitted(canvas), line = height / names.length, size = Math.min(11, line);
  if (size < 7) return;
  context.textAlign = "right";
  context.textBaseline = "middle";
  names.forEach((name, i) => {
    context.font = `${i === emphasized ? "700 " : ""}${size}px system-ui, sans-serif`;
    context.fillStyle = styled(i === emphasized ? "--ink" : "--faint");
    context.fillText(fitting(context, name, width - 6), width - 5, (i + 0.5) * line);
  });
}
