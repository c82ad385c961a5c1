// ---- Image: a canvas to draw on, with the pixels that are read at the cursor's step ---------------------------------

/** The place of each pixel in the input. */
function placesOf({ order, side }) {
  const places = upTo(side * side);
  if (order) order.forEach((pixel, place) => (places[pixel] = place));
  return places;
}

/** The editor of images. Those in colour are only shown. */
function makeImage(parent) {
  const { side, channels, perStep, white } = task.image, places = placesOf(task.image), canDraw = channels === 1;
  const canvas = element("canvas", { class: "image", role: "img", tabindex: 0, "data-keys": canDraw,
    "aria-label": canDraw ? "the image; draw with a pointer, or move with arrow keys and press Space" : "the image" });
  parent.append(element("div", { class: "square" }, canvas));
  const image = element("canvas", { width: side, height: side });
  const derivatives = element("input", { type: "checkbox", onchange: () => announce("gradient") });
  const note = element("p", { class: "note", role: "status" }, "Draw on it, with mouse or finger.");
  let key = null; // the pixel that keys are at

  const draw = () => {
    const data = new ImageData(side, side), pixels = data.data, { x } = situation;
    const shown = derivatives.checked ? gradient(0).x.subarray(0, places.length * channels) : null;
    const scale = shown && signedScale(shown);
    places.forEach((place, pixel) => {
      for (let c = 0; c < 3; c++)
        pixels[4 * pixel + c] = (255 * x[place * channels + Math.min(c, channels - 1)]) / white;
      if (shown) {
        let sum = 0;
        for (let c = 0; c < channels; c++) sum += shown[place * channels + c];
        const colour = scale.colours()[shade(scale, sum)];
        for (let c = 0; c < 3; c++) pixels[4 * pixel + c] = (colour >> (8 * c)) & 255;
      }
      pixels[4 * pixel + 3] = 255;
    });
    image.getContext("2d").putImageData(data, 0, 0);
    const { context, width } = drawMap(canvas, image), cell = width / side;
    context.strokeStyle = styled("--accent");
    context.lineWidth = 2;
    if (situation.t * perStep < places.length) {
      const pixel = task.image.order ? task.image.order[situation.t * perStep] : situation.t * perStep;
      context.strokeRect((pixel % side) * cell + 1, Math.floor(pixel / side) * cell + 1, cell * perStep - 2, cell - 2);
    }
    if (key !== null && document.activeElement === canvas) {
      context.strokeStyle = styled("--orange");
      context.strokeRect((key % side) * cell + 2, Math.floor(key / side) * cell + 2, cell - 4, cell - 4);
    }
  };
  when("x t gradient scheme", draw);

  const tools = element("div", { class: "row" });
  parent.append(tools);
  if (canDraw) {
    const isErasing = () => eraser.getAttribute("aria-pressed") === "true";
    const eraser = button("Erase", () => eraser.setAttribute("aria-pressed", !isErasing()));
    eraser.setAttribute("aria-pressed", "false");
    tools.append(button("Clear", () => {
      remember();
      const x = situation.x.slice();
      x.fill(0, 0, places.length);
      setInput(x);
      change({ t: steps() - 1 });
    }), eraser);
    drawable(canvas, side, places, white, isErasing);
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -side, ArrowDown: side };
      const middle = (side * side + side) / 2;
      if (event.key in moves)
        key = key === null ? middle : Math.max(0, Math.min(side * side - 1, key + moves[event.key]));
      else if (event.key === " " && key !== null) {
        remember();
        const x = situation.x.slice();
        x[places[key]] = x[places[key]] > white / 2 ? 0 : white;
        setInput(x);
      } else return;
      event.preventDefault();
      const pixel = `row ${Math.floor(key / side) + 1}, column ${(key % side) + 1}`;
      note.textContent = `${pixel}: ${short(situation.x[places[key]])} of ${white}`;
      announce("gradient");
    });
  }
  const whose = runs.length > 1 ? " of the first network" : "";
  tools.append(element("label", {}, derivatives, ` ∂ output / ∂ pixel${whose}`));
  if (canDraw) parent.append(note);
}

/** Drawing with a soft brush along the path of the pointer. */
function drawable(canvas, side, places, white, isErasing) {
  const radius = Math.max(1.2, side / 16);
  let last = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * side, ((event.clientY - box.top) / box.height) * side];
  };
  const stroke = ([fromX, fromY], [toX, toY]) => {
    const x = situation.x.slice(), parts = Math.max(1, Math.ceil(Math.hypot(toX - fromX, toY - fromY) * 3));
    for (let i = 0; i <= parts; i++) {
      const px = fromX + ((toX - fromX) * i) / parts, py = fromY + ((toY - fromY) * i) / parts;
      for (let row = Math.max(0, Math.floor(py - radius)); row <= Math.min(side - 1, py + radius); row++)
        for (let column = Math.max(0, Math.floor(px - radius)); column <= Math.min(side - 1, px + radius); column++) {
          const far = Math.hypot(column + 0.5 - px, row + 0.5 - py), place = places[row * side + column];
          const ink = Math.max(0, Math.min(1, 1.6 * (1 - far / radius)));
          x[place] = isErasing() ? Math.round(x[place] * (1 - ink)) : Math.max(x[place], Math.round(white * ink));
        }
    }
    setInput(x);
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pause();
    canvas.setPointerCapture(event.pointerId);
    remember();
    change({ t: steps() - 1 });
    last = at(event);
    stroke(last, last);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    const now = at(event);
    stroke(last, now);
    last = now;
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (last = null));
}

/** The input strip of images: the pixels of each step below each other. */
function drawImageStrip({ canvas }) {
  const { white, order } = task.image, ink = { low: 0, high: white, colours: () => GREYS };
  drawMap(canvas, mapImage(situation.x, steps(), width, upTo(width), ink));
  if (order) canvas.title = "pixels in the order in which they are read";
}

const GREYS = ramp(["#000000", "#ffffff"]);
