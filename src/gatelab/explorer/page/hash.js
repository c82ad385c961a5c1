// ---- The link: the whole situation in the hash of the page's address ------------------------------------------------

const KEPT = ["example", "t", "sort", "of", "clamps", "from", "views", "units"];

/** The situation as the text of a hash. */
function written() {
  const kept = Object.fromEntries(KEPT.map((key) => [key, situation[key]]));
  if (situation.isOwn) kept.x = Array.from(situation.x, (value) => Number(value.toPrecision(7)));
  return encodeURI(JSON.stringify(kept)).replace(/#/g, "%23");
}

/** Restore the situation from a hash; one that does not fit this page is ignored. */
function restore(hash) {
  if (hash.length < 2) return false;
  let kept;
  try {
    kept = JSON.parse(decodeURIComponent(hash.slice(1)));
  } catch {
    return false;
  }
  if (!isFitting(kept)) return false;
  pause();
  const x = kept.x ?? task.examples[kept.example].x, last = x.length / width - 1;
  change({ ...Object.fromEntries(KEPT.map((key) => [key, kept[key]])), x: Float64Array.from(x), isOwn: "x" in kept });
  change({ t: Math.max(0, Math.min(last, kept.t)), from: Math.max(0, Math.min(last, kept.from)) });
  return true;
}

/** Whether what was read from a link fits the examples, the input and the networks of this page. */
function isFitting(kept) {
  if (kept === null || typeof kept !== "object" || KEPT.some((key) => !(key in kept))) return false;
  return (
    isIndex(kept.example, task.examples.length) && Number.isInteger(kept.t) && Number.isInteger(kept.from)
    && SORTS.includes(kept.sort) && (kept.of === null || isIndex(kept.of, about(0).outputs))
    && (kept.x === undefined || isInput(kept.x))
    && Array.isArray(kept.views) && kept.views.length === runs.length && kept.views.every(isView)
    && Array.isArray(kept.units) && kept.units.length === runs.length && kept.units.every(areUnits)
    && Array.isArray(kept.clamps) && kept.clamps.every(isClamp)
  );
}

const isIndex = (value, count) => Number.isInteger(value) && value >= 0 && value < count;

/** Whether these are numbers or tokens that make whole steps; an image is as large as all others. */
function isInput(x) {
  const { length } = task.vocabulary;
  const isNumber = (value) => (task.kind === "tokens" ? isIndex(value, length) : Number.isFinite(value));
  if (!Array.isArray(x) || !x.every(isNumber) || x.length % width || x.length > LONGEST * width) return false;
  return task.kind === "image" ? x.length === task.examples[0].x.length : x.length > 0;
}

const areUnits = (units, run) => Array.isArray(units) && new Set(units).size === units.length
  && units.every((unit) => isIndex(unit, about(run).units));
const isValue = (name, run) => about(run).gates.includes(name) || about(run).states.includes(name);
const isPlace = (place, run) =>
  isIndex(place?.layer, about(run).layers) && about(run).directions.includes(place.direction);
const isView = (view, run) => isPlace(view, run) && isValue(view.front, run) && SHOWN.includes(view.show);

/** Whether a clamp can be applied to one of the networks. */
function isClamp(clamp) {
  const run = clamp?.run, to = clamp?.to;
  if (!isIndex(run, runs.length) || !isPlace(clamp, run) || !isValue(clamp.value, run)) return false;
  const isDonor = to?.input === undefined ? isIndex(to?.example, task.examples.length) : isInput(to.input);
  const isTarget = Number.isFinite(to) || ["mean", "hold"].includes(to) || isDonor;
  const isSome = clamp.units === null || (areUnits(clamp.units, run) && clamp.units.length > 0);
  return isTarget && isSome && isIndex(clamp.from, Infinity);
}

/** Keep the address up to date, so that it can be copied at any time. */
function followSituation() {
  let waiting = 0, known = location.hash;
  const write = () => {
    history.replaceState(null, "", `#${written()}`);
    known = location.hash;
  };
  when("x example clamps t sort of views units from", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => location.hash === known && write(), 150); // another one is about to be restored
  });
  addEventListener("hashchange", () => {
    known = location.hash;
    restore(known);
  });
  const said = byId("copied");
  byId("link").addEventListener("click", async () => {
    write();
    try {
      await navigator.clipboard.writeText(location.href);
      said.textContent = "Link copied.";
    } catch {
      said.textContent = "The link is in the address bar.";
    }
  });
}
