// ---- Runs: the panel of each network ------------------------------------------------------------------------------

/** The layers and directions of a network, and what they are called. */
function layersOf(run) {
  const { layers, directions } = about(run), names = { fwd: "forward", bwd: "backward" };
  return upTo(layers).flatMap((layer) => directions.map((direction) => {
    const parts = [layers > 1 ? `layer ${layer}` : "", directions.length > 1 ? names[direction] : ""];
    return { layer, direction, name: parts.filter(Boolean).join(", ") };
  }));
}

/** What is shown of a network at first: its last layer, and the first state or the gate that decides what is kept. */
function firstView(run) {
  const { layers, gates, states, roles } = about(run);
  const front = gates.find((gate) => gate in roles) ?? states[0];
  return { layer: layers - 1, direction: "fwd", front, show: "clamped" };
}

/** How units are sorted; the same for all runs. */
function makeSorting(parent) {
  const names = { unit: "number", constant: "time constant", influence: "influence on the answer" };
  const hasConstants = runs.some((_, run) => constantsOf(run, situation.views[run]));
  const options = SORTS.filter((key) => key !== "constant" || hasConstants).map((key) => [key, names[key]]);
  const sort = choice("sort units by", options, situation.sort, (chosen) => change({ sort: chosen }));
  parent.append(sort);
  when("sort", () => (sort.querySelector("select").value = situation.sort));
}

/** Build the panel of a run. */
function makeRun(run) {
  const panel = byId(`run-${run}`), part = (name) => panel.querySelector(`.${name}`);
  const places = layersOf(run);
  makeAnswer(run, part("answer"));
  const label = task.kind === "tokens" ? "input; orange raises the output, blue lowers it" : "input";
  const height = { tokens: 76, image: Math.max(18, Math.min(90, 9 * width)), numbers: 70 }[task.kind];
  const input = strip(part("inputs"), { label, height, says: "the input over time" });
  when("x scheme", () => {
    if (task.kind === "image") drawImageStrip(input);
    else if (task.kind === "numbers") drawLines(input, inputLines(), steps());
  });
  if (task.kind === "tokens") when("gradient scheme", () => drawTokenStrip(input, run));
  makeOutput(run, part("outputs"));
  if (places.length > 1) {
    const index = () => places.findIndex((place) => isSame(place, situation.views[run]));
    const chosen = choice("show", places.map(({ name }, i) => [i, name]), index(), (number) => {
      const { layer, direction } = places[Number(number)];
      look(run, { layer, direction });
    });
    part("tools").append(chosen);
    when("views", () => (chosen.querySelector("select").value = index()));
  }
  makeSorting(part("tools"));
  makeShown(run, part("tools"));
  const maps = makeMaps(run, part("maps"));
  makeLegend(run, part("equations"), maps, input);
  makeClamps(run, part("intervene"));
  makeMemory(run, part("memory"));
}
