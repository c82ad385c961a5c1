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

template <int R, int N>
INLINE void product_tile(float* C, long ldc, const float* start, long ldstart, const Term* terms, int count, long row, long c0) {
  V c[R][N];
#pragma GCC unroll 8
  for (int i = 0; i < R; i++)
#pragma GCC unroll 3
    for (int v = 0; v < N; v++) c[i][v] = load(start + (row + i) * ldstart + c0 + v * VL);
  for (int s = 0; s < count; s++) {
    const long lda = terms[s].lda, K = terms[s].K;
    const float *a = terms[s].A + row * lda, *b = terms[s].packed + c0 * K;
    for (long k = 0; k < K; k++, b += N * VL) {
      V w[N];
#pragma GCC unroll 3
      for (int v = 0; v < N; v++) w[v] = load(b + v * VL);
#pragma GCC unroll 8
      for (int i = 0; i < R; i++) {
        V x = all(a[i * lda + k]);
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) c[i][v] += x * w[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; i++)
#pragma GCC unroll 3
    for (int v = 0; v < N; v++) store(C + (row + i) * ldc + c0 + v * VL, c[i][v]);
}

template <int N>
INLINE void product_panel(float* C, long ldc, const float* start, long ldstart, const Term* terms, int count, long rows, long c0) {
  long row = 0;
  for (; row + MR <= rows; row += MR) product_tile<MR, N>(C, ldc, start, ldstart, terms, count, row, c0);
  if (MR > 4)
    for (; row + 4 <= rows; row += 4) product_tile<4, N>(C, ldc, start, ldstart, terms, count, row, c0);
  for (; row + 2 <= rows; row += 2) product_tile<2, N>(C, ldc, start, ldstart, terms, count, row, c0);
  for (; row < rows; row++) product_tile<1, N>(C, ldc, start, ldstart, terms, count, row, c0);
}

// C = start + the sum of all terms, `rows` x `columns` (whole vectors). With ldstart = 0, start is one row for all.
// Panel by panel: its weights stay in L1 while all rows are processed. A team splits the panels.
void product(float* C, long ldc, const float* start, long ldstart, const Term* terms, int count, long rows, long columns,
             int share, int shares) {
  const long width = NV * VL, whole = columns / width * width, rest = columns - whole;
  for (long c0 = share * width; c0 < whole; c0 += shares * width) product_panel<NV>(C, ldc, start, ldstart, terms, count, rows, c0);
  if (share != shares - 1) return;
  if (rest == 2 * VL) product_panel<2>(C, ldc, start, ldstart, terms, count, rows, whole);
  if (rest == VL) product_panel<1>(C, ldc, start, ldstart, terms, count, rows, whole);
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
      for (int v = 0; v < N; v++) w[v] = load(g + v * VL);
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
void outer(float* C, long ldc, const Segment* segments, int count, long lda, long ldg, long K, long columns) {
  long c0 = 0;
  for (; c0 + NV * VL <= columns; c0 += NV * VL) outer_panel<NV>(C, ldc, segments, count, lda, ldg, K, c0);
  if (columns - c0 == 2 * VL) outer_panel<2>(C, ldc, segments, count, lda, ldg, K, c0);
  if (columns - c0 == VL) outer_panel<1>(C, ldc, segments, count, lda, ldg, K, c0);
}

// out = the sum over threads of `sums`, `floats` each; every thread adds its range.
void add_up(float* out, const float* sums, long floats, int id, int threads) {
  long blocks = floats / VL, last = blocks * (id + 1) / threads;
  for (long i = blocks * id / threads; i < last; i++) {
    V v = load(sums + i * VL);
    for (int k = 1; k < threads; k++) v += load(sums + k * floats + i * VL);
    store(out + i * VL, v);
  }
}

// Build properties, read by `gatelab doctor`.
extern "C" const int lanes = VL;
#if defined(__SSE__) || defined(__aarch64__)
extern "C" const int flushes = 1;
#else
extern "C" const int flushes = 0;
#endif

#if defined(_OPENMP)
extern "C" const int openmp = 1;
#else
extern "C" const int openmp = 0;
#endif
