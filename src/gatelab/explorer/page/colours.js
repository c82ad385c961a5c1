// ---- Colours of maps: a sequential and a diverging scale, both safe for colour-blind readers ------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");

// From dark violet through green to yellow, of even steps in lightness: more is lighter.
const SEQUENTIAL = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
// Blue is negative, orange positive; the middle is the ground of the page.
const DIVERGING = {
  light: ["#053061", "#2166ac", "#4393c3", "#92c5de", "#f4f4f2", "#fdc086", "#f08a3c", "#c85a12", "#7f3000"],
  dark: ["#b8dcf5", "#6fb3e0", "#3783bd", "#1f4f7a", "#181c22", "#7a3a10", "#c2611c", "#f0924a", "#ffd2a6"],
};

/** 256 colours between the given ones, as numbers for image data (little-endian RGBA). */
function ramp(stops) {
  const parsed = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const place = (i / 255) * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
    const [r, g, b] = parsed[low].map((from, c) => Math.round(from + (parsed[low + 1][c] - from) * (place - low)));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

const RAMPS = {
  sequential: ramp(SEQUENTIAL),
  light: ramp(DIVERGING.light),
  dark: ramp(DIVERGING.dark),
};

/** A scale from 0 to 1 for gates that are between them. */
const unitScale = { low: 0, high: 1, colours: () => RAMPS.sequential };

/** A scale around 0 that holds all these values. */
function signedScale(...arrays) {
  let limit = 0;
  for (const values of arrays)
    for (const value of values) if (Math.abs(value) > limit && Number.isFinite(value)) limit = Math.abs(value);
  limit = limit || 1;
  return { low: -limit, high: limit, colours: () => RAMPS[dark.matches ? "dark" : "light"] };
}

/** The index of a value's colour. */
function shade(scale, value) {
  return Math.max(0, Math.min(255, Math.round(((value - scale.low) / (scale.high - scale.low)) * 255)));
}

/** The colour of a value for a style. */
function css(scale, value) {
  const colour = scale.colours()[shade(scale, value)];
  return `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
}

/** Ink that can be read on the colour of a value. */
function inkOn(scale, value) {
  const colour = scale.colours()[shade(scale, value)];
  const light = 0.3 * (colour & 255) + 0.59 * ((colour >> 8) & 255) + 0.11 * ((colour >> 16) & 255);
  return light > 140 ? "#101418" : "#ffffff";
}

const NO_NUMBER = 0xff8a8a8a; // grey, which neither scale has

/** An image of values[t * rows + j], time to the right; `order` has the row of each line, from the top. */
function mapImage(values, steps, rows, order, scale) {
  const image = new ImageData(steps, order.length), pixels = new Uint32Array(image.data.buffer);
  const colours = scale.colours(), factor = 255 / (scale.high - scale.low);
  order.forEach((row, line) => {
    for (let t = 0; t < steps; t++) {
      const place = (values[t * rows + row] - scale.low) * factor;
      const colour = colours[place > 0 ? (place < 255 ? (place + 0.5) | 0 : 255) : 0];
      pixels[line * steps + t] = Number.isNaN(place) ? NO_NUMBER : colour;
    }
  });
  const canvas = element("canvas", { width: steps, height: order.length });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Draw an image over a whole canvas: sharp if it is enlarged, averaged if there are more values than pixels. */
function drawMap(canvas, image) {
  const { context, width, height } = fitted(canvas);
  context.imageSmoothingEnabled = image.width > canvas.width || image.height > canvas.height;
  context.drawImage(image, 0, 0, width, height);
  return { context, width, height };
}
