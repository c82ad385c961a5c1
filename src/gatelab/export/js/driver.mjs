// Reads a question per line, { xs, state, clamps, record, of, at }, and answers with what the network returns.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, name] = process.argv.slice(-2);
let network;

async function load() {
  const { create } = await import(pathToFileURL(`${folder}/${name}.mjs`));
  const { weights } = await import(pathToFileURL(`${folder}/${name}.weights.mjs`));
  return create(weights);
}

const plain = (key, value) => (ArrayBuffer.isView(value) ? Array.from(value) : key === "tape" ? undefined : value);
const typed = (state) => ({
  ...Object.fromEntries(
    Object.entries(state).map(([key, values]) => [key, Array.isArray(values) ? Float64Array.from(values) : values])),
  layers: state.layers.map((layer) =>
    Object.fromEntries(Object.entries(layer).map(([key, values]) => [key, Float64Array.from(values)]))),
});

function answered({ xs, state, clamps = [], record = false, of, at, stepwise = false }) {
  if (xs === undefined) return { about: network.about };
  const used = clamps.length ? network.clamp(clamps) : network;
  if (stepwise) {
    const now = used.begin();
    return { answers: xs.map((x) => used.step(x, now)), state: now };
  }
  const ran = used.run(xs, { record: record || of !== undefined, ...(state && { state: typed(state) }) });
  return of === undefined ? ran : { ...ran, gradient: used.gradient(ran, of, at) };
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    network ??= await load();
    answer = answered(JSON.parse(line));
  } catch (error) {
    answer = { error: String(error.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer, plain)}\n`);
}
