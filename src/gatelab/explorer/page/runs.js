// ---- Runs: the panel of each network -----------------------------------------------------------------------------------

/** The layers and directions of a network, and what they are called. */
function layersOf(run) {
  const { layers, directions } = about(run), names = { fwd: "forward", bwd: "backward" };
  return Array.from({ length: layers }, (_, layer) => directions.map((direction) => ({
    layer, direction,
    name: [layers > 1 ? `layer ${layer}` : "", directions.length > 1 ? names[direction] : ""].filter(Boolean).join(", "),
  }))).flat();
}

/** What is shown of a network at first: its last layer, and the first state or the gate that decides what is kept. */
function firstView(run) {
  const { layers, gates, states, roles } = about(run);
  return { layer: layers - 1, direction: "fwd", front: gates.find((gate) => gate in roles) ?? states[0], show: "clamped" };
}

/** How units are sorted; the same for all runs. */
function makeSorting(parent) {
  const names = { unit: "number", constant: "time constant", influence: "influence on the answer" };
  const hasConstants = runs.some((_, run) => constantsOf(run, situation.views[run]));
  const keys = SORTS.filter((key) => key !== "constant" || hasConstants);
  const sort = choice("sort units by", keys.map((key) => [key, names[key]]), situation.sort, (chosen) => change({ sort: chosen }));
  parent.append(sort);
  when("sort", () => (sort.querySelector("select").value = situation.sort));
}

/** Build the panel of a run. */
function makeRun(run) {
  const panel = byId(`run-${run}`), part = (name) => panel.querySelector(`.${name}`);
  const places = layersOf(run);
  makeAnswer(run, part("answer"));
  const input = strip(part("inputs"), { label: task.kind === "tokens" ? "input; orange words raise the output, blue ones lower it" : "input", height: task.kind === "tokens" ? 76 : task.kind === "image" ? Math.max(18, Math.min(90, 9 * width)) : 70, says: "the input over time" });
  when("x scheme", () => {
    if (task.kind === "image") drawImageStrip(input);
    else if (task.kind === "numbers") drawLines(input, inputLines(), steps());
  });
  if (task.kind === "tokens") when("gradient scheme", () => drawTokenStrip(input, run));
  makeOutput(run, part("outputs"));
  if (places.length > 1) {
    const index = () => places.findIndex(({ layer, direction }) => layer === situation.views[run].layer && direction === situation.views[run].direction);
    const label = choice("show", places.map(({ name }, i) => [i, name]), index(), (chosen) => {
      const { layer, direction } = places[Number(chosen)];
      change({ views: situation.views.map((view, i) => (i === run ? { ...view, layer, direction } : view)) });
    });
    part("tools").append(label);
    when("views", () => (label.querySelector("select").value = index()));
  }
  makeSorting(part("tools"));
  makeShown(run, part("tools"));
  const maps = makeMaps(run, part("maps"));
  makeLegend(run, part("equations"), maps);
  makeClamps(run, part("intervene"));
  makeMemory(run, part("memory"));
}
