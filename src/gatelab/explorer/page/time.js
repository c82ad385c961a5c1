// ---- Time: play, pause, scrub -------------------------------------------------------------------------------------

const stillness = matchMedia("(prefers-reduced-motion: reduce)");
let playing = 0; // the frame that is waited for

/** Play from the cursor to the end, or from the beginning if it is at the end. */
function play() {
  const last = steps() - 1, first = situation.t >= last ? 0 : situation.t;
  const seconds = Math.min(6, Math.max(1.5, 0.25 * (last + 1)));
  const began = performance.now() - (1000 * seconds * first) / Math.max(1, last);
  const go = (now) => {
    const t = Math.floor(((now - began) / 1000 / seconds) * last);
    toStep(Math.max(first, Math.min(last, t)));
    playing = t < last ? requestAnimationFrame(go) : 0;
    showPlaying();
  };
  playing = requestAnimationFrame(go);
  showPlaying();
}

/** Stop playing. */
function pause() {
  if (!playing) return;
  cancelAnimationFrame(playing);
  playing = 0;
  showPlaying();
}

/** The sign on the button. */
function showPlaying() {
  const place = byId("play"), text = playing ? "Pause" : "Play";
  if (place.dataset.says === text) return;
  place.dataset.says = text;
  place.setAttribute("aria-label", text);
  place.textContent = playing ? "❚❚" : "▶";
  // A screen reader says the answer where time stops, not that of every step.
  const manner = playing ? "off" : "polite";
  for (const headline of document.querySelectorAll(".headline")) headline.setAttribute("aria-live", manner);
}

/** Move by some steps, and stop playing. */
function seek(t) {
  pause();
  toStep(t);
}

/** The bar with button and slider, and the keys. */
function controlTime() {
  const slider = byId("slider");
  byId("play").addEventListener("click", () => (playing ? pause() : play()));
  slider.addEventListener("input", () => seek(slider.valueAsNumber - 1));
  when("t x", () => {
    slider.max = steps();
    slider.value = situation.t + 1;
    const said = `${situation.t + 1} of ${counted(steps(), "step")} read`;
    slider.setAttribute("aria-valuetext", said);
    byId("step").textContent = said;
  });
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !isTyping(event.target)) {
      event.preventDefault();
      undo();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || usesKeys(event.target)) return;
    const moves = { ArrowLeft: situation.t - 1, ArrowRight: situation.t + 1, Home: 0, End: steps() - 1 };
    if (event.key in moves) seek(moves[event.key]);
    else if (event.key === " " && !event.target.closest("button, summary, [role=button]")) playing ? pause() : play();
    else return;
    event.preventDefault();
  });
}

/** Whether text is written here. */
const isTyping = (target) => Boolean(target.closest("input[type=number], textarea"));

/** Whether an element has a use of its own for arrow keys. */
const usesKeys = (target) => isTyping(target) || Boolean(target.closest("select, input, [data-keys]"));
