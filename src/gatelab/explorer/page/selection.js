// ---- Selection: units of the map at the front, clicked, brushed in the margin, or chosen with keys ------------------

const pointed = []; // the unit under the pointer or the keys, of each run

/** Select these units of a run. */
const select = (run, units) => change({ units: situation.units.map((own, i) => (i === run ? units : own)) });

/** Add a unit to the selection, or take it away. */
function toggle(run, unit) {
  const own = situation.units[run];
  select(run, own.includes(unit) ? own.filter((other) => other !== unit) : [...own, unit].sort((a, b) => a - b));
}

/** The line of a map under a pointer. */
function lineAt(target, event, lines) {
  const box = target.getBoundingClientRect();
  return Math.max(0, Math.min(lines - 1, Math.floor(((event.clientY - box.top) / box.height) * lines)));
}

/** A map whose units can be pointed at, and selected if it is at the front. */
function selectable(run, name, { plot, margin }) {
  const lines = about(run).units, isFront = () => situation.views[run].front === name;
  let pressed = null;
  const brush = (target, event) => {
    const [a, b] = [pressed.line, lineAt(target, event, lines)].sort((x, y) => x - y);
    select(run, orderOf(run).slice(a, b + 1).sort((x, y) => x - y));
  };
  const press = (target, event) => {
    if (event.button !== 0) return;
    pressed = { line: lineAt(target, event, lines), x: event.clientX, y: event.clientY, moved: false };
  };
  const release = (target, event) => {
    if (pressed && !pressed.moved && isFront()) toggle(run, orderOf(run)[lineAt(target, event, lines)]);
    else if (pressed && !pressed.moved) toFront(run, name);
    pressed = null;
  };
  plot.addEventListener("pointerdown", (event) => press(plot, event));
  plot.addEventListener("pointermove", (event) => {
    point(run, name, orderOf(run)[lineAt(plot, event, lines)], stepAt(plot, event), "off");
    if (!pressed) return;
    const [dx, dy] = [Math.abs(event.clientX - pressed.x), Math.abs(event.clientY - pressed.y)];
    pressed.moved ||= Math.max(dx, dy) > 5;
    if (pressed.moved && dy > dx && isFront() && event.pointerType === "mouse") brush(plot, event);
  });
  plot.addEventListener("pointerup", (event) => release(plot, event));
  plot.addEventListener("pointercancel", () => (pressed = null));
  margin.addEventListener("pointerdown", (event) => {
    margin.setPointerCapture(event.pointerId);
    press(margin, event);
  });
  margin.addEventListener("pointermove", (event) => {
    if (!pressed || !isFront()) return;
    pressed.moved ||= lineAt(margin, event, lines) !== pressed.line;
    if (pressed.moved) brush(margin, event);
  });
  margin.addEventListener("pointerup", (event) => release(margin, event));
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", `${name}: arrow keys up and down choose a unit, Enter selects it`);
  plot.addEventListener("keydown", (event) => withKeys(run, name, event));
}

/** Up and down choose a unit of a map, Enter selects it. */
function withKeys(run, name, event) {
  const order = orderOf(run), line = order.indexOf(pointed[run]);
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const next = line < 0 ? 0 : Math.max(0, Math.min(order.length - 1, line + (event.key === "ArrowDown" ? 1 : -1)));
    point(run, name, order[next], situation.t, "polite");
  } else if (event.key === "Enter" && situation.views[run].front !== name) toFront(run, name);
  else if (event.key === "Enter" && line >= 0) {
    toggle(run, order[line]);
    point(run, name, order[line], situation.t, "polite");
  }
  else return;
  event.preventDefault();
}

/** Say which value is pointed at; `manner` is how a screen reader says it. */
function point(run, name, unit, t, manner) {
  pointed[run] = unit;
  const view = situation.views[run], constant = constantsOf(run, view)?.[unit], place = t * about(run).units + unit;
  const [now, before] = [current(run), untouched(run)].map((ran) => valuesOf(ran, view, name)[place]);
  const value = { clamped: now, untouched: before, difference: now - before }[isClamped(run) ? view.show : "untouched"];
  const lasting = constantsOf(run, view) ? `; time constant ${constant === null ? "∞" : short(constant)} steps` : "";
  const text = `${name} of unit ${unit} at step ${t + 1}: ${short(value)}${lasting}`;
  const isChosen = situation.units[run].includes(unit) ? "; selected" : "";
  byId(`pointed-${run}`).setAttribute("aria-live", manner);
  byId(`pointed-${run}`).textContent = text + isChosen;
}

/** The margin of the map at the front: numbers of units where there is room, and the selected ones marked. */
function drawSelection(run, margin) {
  const order = orderOf(run), chosen = new Set(situation.units[run]);
  const { context, width, height } = fitted(margin), line = height / order.length;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.font = "10px system-ui, sans-serif";
  order.forEach((unit, i) => {
    if (chosen.has(unit)) {
      context.fillStyle = styled("--accent");
      context.fillRect(width - 6, i * line, 6, Math.max(1.5, line - 0.5));
    }
    context.fillStyle = styled(chosen.has(unit) ? "--ink" : "--faint");
    if (line >= 9 || (chosen.size <= 12 && chosen.has(unit))) context.fillText(unit, width - 9, (i + 0.5) * line);
  });
}
