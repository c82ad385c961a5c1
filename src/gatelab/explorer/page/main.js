// ---- The page ----------------------------------------------------------------------------------------------------

/** What the page shows now, as plain numbers; it changes nothing. For tests, and for the curious in the console. */
function values() {
  const arrays = (named) => Object.fromEntries(Object.entries(named).map(([name, all]) => [name, Array.from(all)]));
  const plain = (ran) => ({
    answer: Array.from(ran.answer), answers: ran.answers ? Array.from(ran.answers) : null,
    layers: ran.layers.map(({ layer, direction, gates, states }) =>
      ({ layer, direction, values: arrays({ ...gates, ...states }) })),
  });
  return {
    ...structuredClone({ ...situation, x: Array.from(situation.x) }),
    runs: runs.map((_, run) => ({
      untouched: plain(untouched(run)), current: plain(current(run)), order: orderOf(run),
      gradient: { x: Array.from(gradient(run).x), of: gradient(run).of, at: gradient(run).at },
    })),
  };
}

situation.views = runs.map((_, run) => firstView(run));
situation.units = runs.map(() => []);
situation.sort = runs.some((_, run) => constantsOf(run, situation.views[run])) ? "constant" : "unit";
situation.t = steps() - 1;
const isRestored = restore(location.hash);

makeExamples(byId("examples"));
({ image: makeImage, tokens: makeTokens, numbers: makeSeries })[task.kind](byId("editor"));
if (task.kind === "numbers") makeNumbers(byId("editor"));
runs.forEach((_, run) => makeRun(run));
controlTime();
followSituation();
when("x t", moveCursors);
byId("undo").addEventListener("click", undo);
when("past", () => (byId("undo").disabled = !past.length));
dark.addEventListener("change", () => announce("scheme"));
let resizing = 0;
new ResizeObserver(() => {
  cancelAnimationFrame(resizing);
  resizing = requestAnimationFrame(() => announce("scheme", "units", "t"));
}).observe(document.body);
announce(...Object.keys(situation), "past", "scheme");
render();
if (!isRestored && !stillness.matches) play();
window.explorer = Object.freeze({ values });
