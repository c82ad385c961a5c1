// ---- Arithmetic: the operations of the equations, and products of matrices and vectors -------------------------------

const sigmoid = (v) => 1 / (1 + Math.exp(-v));
const relu = (v) => (v < 0 ? 0 : v);
const softplus = (v) => Math.max(v, 0) + Math.log1p(Math.exp(-Math.abs(v)));
const step = (v) => (v > 0 ? 1 : 0);
const clamp = (v, low, high) => (v < low ? low : v > high ? high : v);
const power = (v, n) => v ** n;
// Derivatives: of maximum(a, b) with respect to a, and of clamp.
const share = (a, b) => (a > b ? 1 : a < b ? 0 : 0.5);
const within = (v, low, high) => (v < low || v > high ? 0 : 1);

/** Add a product to `sums` from `first` on: eight rows at a time, whose sums do not wait for each other. */
function multiply(sums, first, product, values, at) {
  const { weights, inputs, outputs, isSparse } = product;
  if (isSparse) return multiplySparse(sums, first, product, values, at);
  const end = at + inputs;
  let i = first, w = 0;
  for (const last = first + outputs - 8; i <= last; i += 8) {
    let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
    for (let k = at; k < end; k++, w += 8) {
      const v = values[k];
      a += weights[w] * v;
      b += weights[w + 1] * v;
      c += weights[w + 2] * v;
      d += weights[w + 3] * v;
      e += weights[w + 4] * v;
      f += weights[w + 5] * v;
      g += weights[w + 6] * v;
      h += weights[w + 7] * v;
    }
    sums[i] += a;
    sums[i + 1] += b;
    sums[i + 2] += c;
    sums[i + 3] += d;
    sums[i + 4] += e;
    sums[i + 5] += f;
    sums[i + 6] += g;
    sums[i + 7] += h;
  }
  for (const last = first + outputs; i < last; i++) {
    let a = 0;
    for (let k = at; k < end; k++, w++) a += weights[w] * values[k];
    sums[i] += a;
  }
}

/** The same, column by column: for one-hot vectors. */
function multiplySparse(sums, first, { weights, inputs, outputs }, values, at) {
  for (let k = 0; k < inputs; k++) {
    const v = values[at + k], column = k * outputs;
    if (v !== 0) for (let i = 0; i < outputs; i++) sums[first + i] += weights[column + i] * v;
  }
}

/** Matrices with the same number of columns, one below the other, in the order in which `multiply` reads them. */
function packed(columns, matrices, isSparse = false) {
  const rows = joined(matrices), outputs = rows.length / columns, blocked = outputs - (outputs % 8);
  if (isSparse) return { weights: transposed(rows, columns), inputs: columns, outputs, isSparse };
  const weights = new Float32Array(rows.length);
  for (let i = 0; i < outputs; i++)
    for (let k = 0; k < columns; k++)
      weights[i < blocked ? ((i >> 3) * columns + k) * 8 + (i & 7) : i * columns + k] = rows[i * columns + k];
  return { weights, inputs: columns, outputs, isSparse };
}

/** Arrays, one after the other. */
function joined(arrays) {
  const all = new Float32Array(arrays.reduce((total, each) => total + each.length, 0));
  let at = 0;
  for (const each of arrays) {
    all.set(each, at);
    at += each.length;
  }
  return all;
}

/** The transpose of a matrix with this number of columns. */
function transposed(matrix, columns) {
  const rows = matrix.length / columns, turned = new Float32Array(matrix.length);
  for (let i = 0; i < rows; i++) for (let k = 0; k < columns; k++) turned[k * rows + i] = matrix[i * columns + k];
  return turned;
}

/** What sums begin with: for each of them the total of some vectors, which may be none. */
function summed(units, vectors) {
  const sums = new Float64Array(vectors.length * units);
  vectors.forEach((each, i) => {
    for (const vector of each) for (let j = 0; j < units; j++) sums[i * units + j] += vector[j];
  });
  return sums;
}
