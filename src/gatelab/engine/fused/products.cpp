// The part of every kernel that does not depend on the cell: packing, two small matrix products, and a sum over threads.
#include "runtime.hpp"

// A register tile is MR rows of NV vectors: as many accumulators as fit in registers beside the operands.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int MR = 8, NV = 3;
#else
constexpr int MR = 4, NV = 3;
#endif

// Packs count matrices M (H x K each) side by side: packed column c is row c % Hp of matrix c / Hp. Thread `id` of
// `threads` packs every `threads`-th panel.
void pack_columns(float* packed, const float* const* M, long count, long H, long Hp, long K, int id, int threads) {
  long columns = count * Hp, width = NV * VL;
  for (long c0 = id * width; c0 < columns; c0 += threads * width) {
    long w = columns - c0 < width ? columns - c0 : width;
    float* panel = packed + c0 * K;
    for (long k0 = 0; k0 < K; k0 += 64)  // in blocks that fit in L1: columns are written with a stride
      for (long c = 0; c < w; c++) {
        long unit = (c0 + c) % Hp, last = k0 + 64 < K ? k0 + 64 : K;
        const float* row = M[(c0 + c) / Hp] + unit * K;
        for (long k = k0; k < last; k++) panel[k * w + c] = unit < H ? row[k] : 0.0f;
      }
  }
}

// Packs the columns of one matrix M (K x N) in order, padded to Np columns.
void pack_rows(float* packed, const float* M, long K, long N, long Np, int id, int threads) {
  long width = NV * VL;
  for (long c0 = id * width; c0 < Np; c0 += threads * width) {
    long w = Np - c0 < width ? Np - c0 : width, real = N - c0 < 0 ? 0 : N - c0 < w ? N - c0 : w;
    float* panel = packed + c0 * K;
    for (long k = 0; k < K; k++) {
      if (real > 0) memcpy(panel + k * w, M + k * N + c0, real * 4);
      for (long c = real; c < w; c++) panel[k * w + c] = 0.0f;
    }
  }
}

// A part of a panel: its first column, that of the panel, and the width of the panel.
struct Place {
  long column, panel, width;
};

// P neighbouring panels at once: with few rows one panel has too few sums to keep the multipliers busy. Each sum is
// formed in the same order whatever R, N and P are.
template <int R, int N, int P>
INLINE void product_tile(float* C, long ldc, const float* start, long ldstart, const Term* terms, int count, long row,
                         Place place) {
  const long c0 = place.column, width = place.width;
  V c[R][P][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; i++)
#pragma GCC unroll 4
    for (int q = 0; q < P; q++)
#pragma GCC unroll 3
      for (int v = 0; v < N; v++) c[i][q][v] = load(start + (row + i) * ldstart + c0 + (q * N + v) * VL);
  for (int s = 0; s < count; s++) {
    const long lda = terms[s].lda, K = terms[s].K;
    const float *a = terms[s].A + row * lda, *b = terms[s].packed + place.panel * K + c0 - place.panel;
    for (long k = 0; k < K; k++, b += width) {
      V w[P][N];
#pragma GCC unroll 4
      for (int q = 0; q < P; q++)
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) w[q][v] = R > 1 ? load_once(b + q * K * N * VL + v * VL) : load(b + q * K * N * VL + v * VL);
#pragma GCC unroll 8
      for (int i = 0; i < R; i++) {
        V x = all(a[i * lda + k]);
#pragma GCC unroll 4
        for (int q = 0; q < P; q++)
#pragma GCC unroll 3
          for (int v = 0; v < N; v++) c[i][q][v] += x * w[q][v];
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; i++)
#pragma GCC unroll 4
    for (int q = 0; q < P; q++)
#pragma GCC unroll 3
      for (int v = 0; v < N; v++) store(C + (row + i) * ldc + c0 + (q * N + v) * VL, c[i][q][v]);
}

template <int N>
INLINE void product_panel(float* C, long ldc, const float* start, long ldstart, const Term* terms, int count, long rows,
                          Place place) {
  if (N == NV) place.width = NV * VL;  // known to the compiler
  long row = 0;
  for (; row + MR <= rows; row += MR) product_tile<MR, N, 1>(C, ldc, start, ldstart, terms, count, row, place);
  if (MR > 4)
    for (; row + 4 <= rows; row += 4) product_tile<4, N, 1>(C, ldc, start, ldstart, terms, count, row, place);
  for (; row + 2 <= rows; row += 2) product_tile<2, N, 1>(C, ldc, start, ldstart, terms, count, row, place);
  for (; row < rows; row++) product_tile<1, N, 1>(C, ldc, start, ldstart, terms, count, row, place);
}

// The columns of one range: the end of a panel, whole panels, the beginning of another panel.
static void product_range(float* C, long ldc, const float* start, long ldstart, const Term* terms, int count, long rows,
                          long columns, long first, long last, bool backwards) {
  const long width = NV * VL, up = (first + width - 1) / width * width, from = up < last ? up : last;
  const long down = last / width * width, to = down > from ? down : from, panels = (to - from) / width;
  const long at_once = rows == 1 ? MR / 2 : rows == 2 ? MR / 4 : 1, groups = at_once > 1 ? panels / at_once : 0;
  const long begins = from > first, singles = panels - groups * at_once, parts = begins + groups + singles + (last > to);
  for (long k = 0; k < parts; k++) {
    const long part = (backwards ? parts - 1 - k : k) - begins;
    if (part >= 0 && part < groups + singles) {
      const long c0 = from + (part < groups ? part * at_once : groups * at_once + part - groups) * width;
      const Place place{c0, c0, width};
      if (part >= groups) product_panel<NV>(C, ldc, start, ldstart, terms, count, rows, place);
      else if (rows == 1) product_tile<1, NV, MR / 2>(C, ldc, start, ldstart, terms, count, 0, place);
      else product_tile<2, NV, MR / 4>(C, ldc, start, ldstart, terms, count, 0, place);
    } else {
      const long c0 = part < 0 ? first : to, end = part < 0 ? from : last, panel = c0 / width * width;
      const Place place{c0, panel, columns - panel < width ? columns - panel : width};
      if (end - c0 == 2 * VL) product_panel<2>(C, ldc, start, ldstart, terms, count, rows, place);
      else product_panel<1>(C, ldc, start, ldstart, terms, count, rows, place);
    }
  }
}

// C = start + the sum of all terms. With ldstart = 0, start is one row for all. Panel by panel: its weights stay in L1
// while all rows are processed. `backwards`: from the last panel to the first one.
void product(float* C, long ldc, const float* start, long ldstart, const Term* terms, int count, long rows, Columns columns,
             bool backwards) {
  for (long k = 0, ranges = columns.ranges(); k < ranges; k++) {
    const long range = backwards ? ranges - 1 - k : k;
    product_range(C, ldc, start, ldstart, terms, count, rows, columns.count, columns.first_of(range), columns.last_of(range),
                  backwards);
  }
}

template <int R, int N>
INLINE void outer_tile(float* C, long ldc, const Segment* segments, int count, long lda, long ldg, long k0, long c0) {
  V c[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; i++)
#pragma GCC unroll 3
    for (int v = 0; v < N; v++) c[i][v] = V{};
  for (int s = 0; s < count; s++) {
    const float *a = segments[s].A + k0, *g = segments[s].G + c0;
    for (long m = 0; m < segments[s].rows; m++, a += lda, g += ldg) {
      V w[N];
#pragma GCC unroll 3
      for (int v = 0; v < N; v++) w[v] = load_once(g + v * VL);
#pragma GCC unroll 8
      for (int i = 0; i < R; i++) {
        V x = all(a[i]);
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) c[i][v] += x * w[v];
      }
    }
  }
  // Each chunk is summed from zero and then added: smaller rounding errors than one long sum.
#pragma GCC unroll 8
  for (int i = 0; i < R; i++)
#pragma GCC unroll 3
    for (int v = 0; v < N; v++) add_to(C + (k0 + i) * ldc + c0 + v * VL, c[i][v]);
}

template <int N>
INLINE void outer_panel(float* C, long ldc, const Segment* segments, int count, long lda, long ldg, long K, long c0) {
  long k = 0;
  for (; k + MR <= K; k += MR) outer_tile<MR, N>(C, ldc, segments, count, lda, ldg, k, c0);
  if (MR > 4)
    for (; k + 4 <= K; k += 4) outer_tile<4, N>(C, ldc, segments, count, lda, ldg, k, c0);
  for (; k + 2 <= K; k += 2) outer_tile<2, N>(C, ldc, segments, count, lda, ldg, k, c0);
  for (; k < K; k++) outer_tile<1, N>(C, ldc, segments, count, lda, ldg, k, c0);
}

// C (K x columns) += the sum over all rows of (row of A) x (row of G): a transposed weight gradient.
void outer(float* C, long ldc, const Segment* segments, int count, long lda, long ldg, long K, Columns columns) {
  for (long range = 0; range < columns.ranges(); range++) {
    long c = columns.first_of(range);
    const long last = columns.last_of(range);
    for (; c + NV * VL <= last; c += NV * VL) outer_panel<NV>(C, ldc, segments, count, lda, ldg, K, c);
    if (last - c == 2 * VL) outer_panel<2>(C, ldc, segments, count, lda, ldg, K, c);
    if (last - c == VL) outer_panel<1>(C, ldc, segments, count, lda, ldg, K, c);
  }
}

// A weight gradient (H x K) as its parameter has it: the transposed sum over `count` threads of `sums`, which are
// `stride` floats apart and have rows of `ld`. `more`: added to what is there. Every thread makes its range of rows.
void collect(float* out, const float* sums, long stride, int count, long ld, long H, long K, bool more, int id, int threads) {
  constexpr long UNITS = 16, LONGEST = 64;  // of a block that is added up in vectors, and then transposed in L1
  float block[LONGEST][UNITS];
  const long blocks = (H + UNITS - 1) / UNITS, last = blocks * (id + 1) / threads * UNITS;
  for (long u0 = blocks * id / threads * UNITS; u0 < last; u0 += UNITS)
    for (long k0 = 0; k0 < K; k0 += LONGEST) {
      const long units = H - u0 < UNITS ? H - u0 : UNITS, length = K - k0 < LONGEST ? K - k0 : LONGEST;
      for (long k = 0; k < length; k++)
        for (long j = 0; j < UNITS; j += VL) {
          const float* from = sums + (k0 + k) * ld + u0 + j;
          V sum = load(from);
          for (int t = 1; t < count; t++) sum += load(from + t * stride);
          store(block[k] + j, sum);
        }
      for (long u = 0; u < units; u++) {
        float* const row = out + (u0 + u) * K + k0;
        if (more)
          for (long k = 0; k < length; k++) row[k] += block[k][u];
        else
          for (long k = 0; k < length; k++) row[k] = block[k][u];
      }
    }
}

extern "C" uint64_t fingerprint(const Sampled* parameters) {
  constexpr long SAMPLES = 4;  // of each tensor; 16 took a tenth of a small step
  uint64_t hash = 0, factor = 0x9E3779B97F4A7C15u;
  for (long i = 0; i < parameters->count; i++) {
    const float* values = parameters->tensors[i];
    const long size = parameters->sizes[i], distance = size / SAMPLES + 1;
    for (long k = distance / 2; k < size; k += distance, factor += 0x632BE59BD9B4E018u) {  // sums do not wait for sums
      uint32_t bits;
      memcpy(&bits, values + k, 4);
      hash += (bits + 1) * factor;
    }
  }
  return hash;
}

// Build properties, read by `gatelab doctor`.
extern "C" const int lanes = VL;
extern "C" const long tape_header = TAPE_HEADER;
#if defined(__SSE__) || defined(__aarch64__)
extern "C" const int flushes = 1;
#else
extern "C" const int flushes = 0;
#endif
