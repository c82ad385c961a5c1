// ---- Memory: how the answer depends on earlier inputs and states, by the printed backward step ---------------------

/** The size of the derivative with respect to the input of each step; of a token, against the mean of all tokens. */
function dependence(run) {
  const { x } = gradient(run), count = steps(), D = x.length / count, sizes = new Float64Array(count);
  const unit = task.kind === "numbers" && width > 1 ? runs[run].deviations : null; // columns may have different units
  for (let t = 0; t < count; t++) {
    const row = x.subarray(t * D, (t + 1) * D), mean = task.kind === "tokens" ? row.reduce((a, b) => a + b) / D : 0;
    sizes[t] = Math.sqrt(row.reduce((sum, value, i) => sum + ((value - mean) * (unit ? unit[i] : 1)) ** 2, 0));
  }
  return sizes;
}

/** The effect of each step's token on the output, against the mean of all tokens. */
function tokenEffects(run) {
  const { x } = gradient(run), V = task.vocabulary.length;
  return Array.from(situation.x, (token, t) => {
    const row = x.subarray(t * V, (t + 1) * V);
    return row[token] - row.reduce((a, b) => a + b) / V;
  });
}

/** Which output is differentiated, where there are several; the same for all runs. */
function makeOutputChoice(parent) {
  const outputs = task.classes ?? task.targets, own = outputs.map((name, k) => [k, visible(name)]);
  if (outputs.length < 2) return;
  const options = task.classes ? [["", "the predicted class"], ...own] : [["", own[0][1]], ...own.slice(1)];
  const of = choice("output:", options, "", (chosen) => change({ of: chosen === "" ? null : Number(chosen) }));
  parent.append(of);
  when("of", () => (of.querySelector("select").value = situation.of ?? ""));
}

/** The strips of a run's derivatives, and how far back the answer depends, in words. */
function makeMemory(run, parent) {
  makeOutputChoice(parent);
  const said = element("p");
  const lines = element("div", { class: "strips" });
  parent.append(said, lines);
  const bySteps = "derivative with respect to the input, by step";
  const bars = strip(lines, { label: "‖∂ output / ∂ xₜ‖", height: 56, says: bySteps });
  const maps = about(run).states.map((name) => {
    const says = `derivative with respect to the state ${name}, units by steps`;
    return [name, strip(lines, { label: `∂ output / ∂ ${name}ₜ`, height: 90, says })];
  });
  let waiting = 0, took = 0;
  const draw = () => {
    waiting = 0;
    const begin = performance.now();
    if (answeringStep(current(run)) >= steps()) return; // the cursor is on its way to a shorter input
    const sizes = dependence(run), found = gradient(run), order = orderOf(run);
    const record = recordOf(found, situation.views[run]);
    drawBars(bars, sizes);
    for (const [name, place] of maps) {
      const values = record.states[name];
      drawMap(place.canvas, mapImage(values, steps(), about(run).units, order, signedScale(values)));
    }
    said.textContent = reach(sizes, found.of, found.at, about(run).directions.length > 1);
    announce("gradient");
    took = performance.now() - begin;
  };
  when("x clamps views sort of scheme t", () => {
    // What takes longer than a frame leaves as much time for the others, and follows changes that do not end.
    if (steps() * about(run).units <= 20000) draw();
    else waiting ||= setTimeout(draw, Math.max(120, took));
  });
}

/** How far back the answer depends on the input. */
function reach(sizes, of, at, isBidirectional) {
  const name = visible((task.classes ?? task.targets)[of]);
  const output = task.classes ? `the score of ${name}` : `the predicted ${name}`;
  const begins = `At step ${at + 1}, ${output}`, total = sizes.reduce((a, b) => a + b);
  if (Number.isNaN(total)) return `${begins} has no derivative: a value in the network is not a number.`;
  if (!total) return `${begins} does not depend on the input: every derivative is 0.`;
  if (isBidirectional) {
    const peak = largestOf(sizes);
    const share = ((100 * sizes[peak]) / total).toFixed(0);
    return `${begins} depends most on the input of step ${peak + 1}, which has ${share} % of Σ ‖∂ output / ∂ xₜ‖.`;
  }
  const back = (share) => {
    let sum = 0, lag = 0;
    for (let t = at; t >= 0 && sum < share * total * (1 - 1e-12); t--, lag++) sum += sizes[t];
    return lag;
  };
  const last = (lag) => (lag === 1 ? "the last step" : `the last ${lag} steps`);
  const [half, most] = [0.5, 0.99].map((share) => last(back(share)));
  return `${begins} depends on the past: half of Σ ‖∂ output / ∂ xₜ‖ lies in ${half}, 99 % in ${most}.`;
}

/** Bars over the steps. */
function drawBars({ canvas, margin }, sizes) {
  const { context, width, height } = fitted(canvas), largest = rangeOf(sizes)[1] || 1, bar = width / sizes.length;
  context.fillStyle = styled("--accent");
  sizes.forEach((size, t) => {
    const tall = (size / largest) * (height - 4);
    context.fillRect(t * bar + Math.min(1, bar / 8), height - tall, Math.max(0.6, bar - Math.min(2, bar / 4)), tall);
  });
  const side = fitted(margin);
  side.context.font = "11px system-ui, sans-serif";
  side.context.fillStyle = styled("--faint");
  side.context.textAlign = "right";
  side.context.fillText(short(largest), side.width - 5, 12, side.width - 6);
  side.context.fillText("0", side.width - 5, side.height - 3);
}
