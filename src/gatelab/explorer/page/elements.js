// ---- Elements: what the page is built from. Strings become text, never markup. --------------------------------------

/** The element with this id. */
const byId = (id) => document.getElementById(id);

/** An element with attributes, listeners (onclick) and children; undefined attributes are left out. */
function element(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A button; `label` is what it says to a screen reader, if its text alone is not enough. */
const button = (text, onclick, label) => element("button", { type: "button", onclick, "aria-label": label }, text);

/** A labelled select; `options` are [value, text], and `choose` gets the chosen value. */
function choice(label, options, chosen, choose) {
  const select = element("select", { "aria-label": label, onchange: () => choose(select.value) });
  for (const [value, text] of options) select.append(element("option", { value }, text));
  select.value = String(chosen);
  return element("label", {}, `${label} `, select);
}

/** White space and control characters as signs that can be seen. */
const visible = (token) => (token === " " ? "␣" : token === "\n" ? "⏎" : token === "\t" ? "⇥" : token);

/** A number with three significant digits. */
function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const isExtreme = size !== 0 && (size < 0.001 || size >= 1e5);
  return (isExtreme ? value.toExponential(1) : String(Number(value.toPrecision(3)))).replace(/-/g, "−");
}

/** 0, 1, …, count − 1. */
const upTo = (count) => Array.from({ length: count }, (_, i) => i);

/** The smallest and the largest of some values; what is not a finite number does not count. */
function rangeOf(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [NaN, NaN];
}

/** 1 step, 5 steps. */
const counted = (count, thing) => `${count} ${thing}${count === 1 ? "" : "s"}`;

/** A canvas as large as its place on the screen, cleared; drawing is in CSS pixels. */
function fitted(canvas) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** The colour that the style sheet gives a name. */
const styled = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
