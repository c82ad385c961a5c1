// Included by every generated kernel: SIMD vectors, their functions, threads, and what products.cpp has.
//
// Letters: VL lanes in a vector, B rows (sequences) in a batch, T steps, D inputs, H units, Hp units rounded up to whole
// vectors. Matrices are row-major; `ld` is the leading dimension. The kernel's own arrays have rows of Hp, so that no
// loop needs a remainder; the values in padding lanes are never read.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define INLINE static inline __attribute__((always_inline))

// ---- vectors -------------------------------------------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int VL = 16;
#elif defined(__AVX__)
constexpr int VL = 8;
#else
constexpr int VL = 4;
#endif
typedef float V __attribute__((vector_size(VL * 4)));
typedef float Vu __attribute__((vector_size(VL * 4), aligned(4)));
typedef int32_t Vi __attribute__((vector_size(VL * 4)));

INLINE V load(const float* p) { return *(const Vu*)p; }
INLINE void store(float* p, V v) { *(Vu*)p = v; }
INLINE void add_to(float* p, V v) { store(p, load(p) + v); }
INLINE V all(float x) { return x - V{}; }

// The vector at p, in a register: GCC would rather read it again for every use, and then loads limit a product.
INLINE V load_once(const float* p) {
  V v = load(p);
#if defined(__x86_64__)
  __asm__("" : "+v"(v));
#elif defined(__aarch64__)
  __asm__("" : "+w"(v));
#endif
  return v;
}

// Zeroes the lanes from `count` on: sums over units must not include the padding.
INLINE V only(V v, long count) {
  if (count >= VL) return v;
  for (long i = count < 0 ? 0 : count; i < VL; i++) v[i] = 0;
  return v;
}

// ---- functions of vectors, accurate to a few ulp; NaN propagates -----------------------------------------------------

// 1 / v for v of ordinary size. The hardware estimate and one Newton step take a third of the time of a division.
// Builtins that GCC and clang have in common: reading immintrin.h would take longer than all of this file.
INLINE V reciprocal(V v) {
#if defined(__AVX512F__)
  V r = __builtin_ia32_rcp14ps512_mask(v, v, (unsigned short)-1);
#elif defined(__AVX__)
  V r = __builtin_ia32_rcpps256(v);
#else
  return 1.0f / v;
#endif
#if defined(__AVX__)
  return r + r * (1.0f - v * r);
#endif
}

// factor v = k ln 2 + f, |f| <= ln 2 / 2: returns 2^k, and in `fraction` e^f - 1 without cancellation. A cell waits for one
// function of another: so the polynomial is evaluated in pairs, where fewer operations wait for each other.
INLINE V exp_split(V v, V& fraction, const float factor = 1.0f) {
  const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which then sits in the low bits
  V k = v * (factor * 1.44269504088896341f) + shift;
  V scale = (V)((Vi)k << 23);
  k -= shift;
  V f = factor * v - k * 0.693359375f;  // ln 2 in two parts, the first exact in few bits
  f = f - k * -2.12194440e-4f;
  V square = f * f;
  V p = (1.9875691500e-4f * f + 1.3981999507e-3f) * square + (8.3334519073e-3f * f + 4.1665795894e-2f);
  p = p * square + (1.6666665459e-1f * f + 5.0000001201e-1f);
  fraction = p * square + f;
  return (V)((Vi)scale + 0x3f800000);
}

// NaN propagates. (The instructions return their second operand then; GCC would take two for each.)
INLINE V clamped(V v, float low, float high) {
#if defined(__AVX__)
  __asm__("vmaxps %0, %1, %0" : "+v"(v) : "v"(all(low)));
  __asm__("vminps %0, %1, %0" : "+v"(v) : "v"(all(high)));
  return v;
#else
  v = v < low ? all(low) : v;
  return v > high ? all(high) : v;
#endif
}

INLINE V exp(V v) {
  V e, scale = exp_split(clamped(v, -87.3f, 88.0f), e);
  V y = scale * e + scale;
  y = v > 88.7228f ? all(__builtin_inff()) : v > 88.0f ? y * exp_split(v - 88.0f, e) * (1.0f + e) : y;
  return v < -87.3f ? V{} : y;
}

// Clamped at ±87, to 1.6e-38 or 1, so that the argument of the reciprocal stays finite.
INLINE V sigmoid(V v) {
  V e, scale = exp_split(clamped(v, -87.0f, 87.0f), e, -1.0f);
  return reciprocal(1.0f + (scale * e + scale));
}

INLINE V tanh(V v) {
  V e, scale = exp_split(clamped(v, -15.0f, 15.0f), e, 2.0f);
  V m = scale * e + (scale - 1.0f);  // e^2v - 1
  return m * reciprocal(m + 2.0f);
}

INLINE V relu(V v) { return v < 0.0f ? V{} : v; }
INLINE V absolute(V v) { return (V)((Vi)v & 0x7fffffff); }
INLINE V sign(V v) { return v > 0.0f ? all(1.0f) : v < 0.0f ? all(-1.0f) : v; }
INLINE V step(V v) { return v > 0.0f ? all(1.0f) : V{}; }
INLINE V maximum(V a, V b) { return a != a ? a : a > b ? a : b; }  // NaN propagates from either side
INLINE V minimum(V a, V b) { return a != a ? a : a < b ? a : b; }
INLINE V share(V a, V b) { return a > b ? all(1.0f) : a < b ? V{} : all(0.5f); }
INLINE V clamp(V v, V low, V high) { return v < low ? low : v > high ? high : v; }
INLINE V within(V v, V low, V high) { return v < low ? V{} : v > high ? V{} : all(1.0f); }
INLINE V greater(V a, V b) { return a > b ? all(1.0f) : V{}; }
INLINE V greater_equal(V a, V b) { return a >= b ? all(1.0f) : V{}; }
INLINE V where(V condition, V a, V b) { return condition != 0.0f ? a : b; }
INLINE V sqrt(V v) {
  for (int i = 0; i < VL; i++) v[i] = __builtin_sqrtf(v[i]);
  return v;
}
INLINE V floor(V v) {
  for (int i = 0; i < VL; i++) v[i] = __builtin_floorf(v[i]);
  return v;
}

// v = m 2^k with m near 1, then a polynomial in m - 1 (as in the Cephes library).
INLINE V log(V v) {
  Vi bits = (Vi)v, k = (bits - 0x3f3504f3) >> 23;  // m in [1/√2, √2)
  V m = (V)(bits - (k << 23)) - 1.0f, e = __builtin_convertvector(k, V), square = m * m;
  V p = all(7.0376836292e-2f);
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  V y = p * m * square - 2.12194440e-4f * e - 0.5f * square + m + 0.693359375f * e;
  y = v == __builtin_inff() ? v : y;
  return v > 0.0f ? y : v == 0.0f ? all(-__builtin_inff()) : all(__builtin_nanf(""));
}

// max(v, 0) + log(1 + e^-|v|), where the rounding of the sum is corrected
INLINE V softplus(V v) {
  V e = exp(-absolute(v)), sum = 1.0f + e;
  return relu(v) + (log(sum) - ((sum - 1.0f) - e) / sum);
}

// Rarely used functions call the C library for each lane.
INLINE V sin(V v) {
  for (int i = 0; i < VL; i++) v[i] = __builtin_sinf(v[i]);
  return v;
}
INLINE V cos(V v) {
  for (int i = 0; i < VL; i++) v[i] = __builtin_cosf(v[i]);
  return v;
}
INLINE V power(V v, int n) {
  V y = all(1.0f), square = v;
  for (unsigned left = n < 0 ? -n : n; left; left >>= 1, square *= square)
    if (left & 1) y *= square;
  return n < 0 ? 1.0f / y : y;
}

// The same functions for scalars.
#define FOR_SCALARS(function) \
  INLINE float function(float v) { return function(all(v))[0]; }
FOR_SCALARS(exp)
FOR_SCALARS(sigmoid)
FOR_SCALARS(tanh)
FOR_SCALARS(relu)
FOR_SCALARS(absolute)
FOR_SCALARS(sign)
FOR_SCALARS(step)
FOR_SCALARS(sqrt)
FOR_SCALARS(floor)
FOR_SCALARS(log)
FOR_SCALARS(softplus)
FOR_SCALARS(sin)
FOR_SCALARS(cos)
#define FOR_PAIRS(function) \
  INLINE float function(float a, float b) { return function(all(a), all(b))[0]; }
FOR_PAIRS(maximum)
FOR_PAIRS(minimum)
FOR_PAIRS(share)
FOR_PAIRS(greater)
FOR_PAIRS(greater_equal)
#define FOR_TRIPLES(function) \
  INLINE float function(float a, float b, float c) { return function(all(a), all(b), all(c))[0]; }
FOR_TRIPLES(clamp)
FOR_TRIPLES(within)
FOR_TRIPLES(where)
INLINE float power(float v, int n) { return power(all(v), n)[0]; }
INLINE float total(V v) {
  float sum = 0;
  for (int i = 0; i < VL; i++) sum += v[i];
  return sum;
}

// ---- memory --------------------------------------------------------------------------------------------------------

// Fresh memory costs page faults, so workspace is reused between calls: one arena for each thread that calls kernels.
struct Arena {
  char* memory = nullptr;
  size_t size = 0;
  ~Arena() { free(memory); }
  // Returns `floats` uninitialized floats, aligned to a cache line, or null if there is no memory. Called once per
  // kernel call, for the arrays of all threads together.
  float* get(size_t floats) {
    size_t bytes = (floats * 4 + 127) / 64 * 64;
    if (bytes > size) {
      free(memory);
      memory = (char*)aligned_alloc(64, bytes);
      size = memory ? bytes : 0;
    }
    return (float*)memory;
  }
};
static thread_local Arena arena;

// Bump allocator: hands out consecutive pieces of memory. From a null pointer it only counts.
struct Allocator {
  float* memory;
  size_t used = 0;
  float* take(size_t floats) {
    float* piece = memory + used;
    used += (floats + 15) / 16 * 16;
    return piece;
  }
};

// Floats between arrays of different threads: a core prefetches what follows, which another one may be about to write.
constexpr long APART = 256;

// Rows whose size is a power of two map to the same few cache sets: an odd number of cache lines avoids that.
INLINE long spread(long floats) { return (floats / 16) % 2 ? floats : floats + 16; }

// ---- denormal numbers -----------------------------------------------------------------------------------------------

// Vanishing gradients become denormal, which makes every operation tens of times slower. Flushes them to zero in each
// thread while the kernel runs, and restores the control register afterwards.
struct FlushDenormals {
#if defined(__SSE__)
  unsigned before = __builtin_ia32_stmxcsr();
  FlushDenormals() { __builtin_ia32_ldmxcsr(before | 0x8040); }
  ~FlushDenormals() { __builtin_ia32_ldmxcsr(before); }
#elif defined(__aarch64__)
  uint64_t before;
  FlushDenormals() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" ::"r"(before | (1ull << 24)));
  }
  ~FlushDenormals() { __asm__ volatile("msr fpcr, %0" ::"r"(before)); }
#endif
};

// ---- threads (threads.cpp) --------------------------------------------------------------------------------------------

typedef void Share(void* context, int share);

// Whether shares wait for each other, so that each needs a thread of its own; where that is optional, the caller can do
// without, and is told to where the machine is busy.
enum class Meeting { NONE, OPTIONAL, NEEDED };

// Runs all shares, each once; false if nothing was run, for want of threads.
bool run_shares(int shares, Meeting meeting, Share* run, void* context);

template <class Work>
INLINE bool in_parallel(int shares, Meeting meeting, const Work& work) {
  if (shares > 1)
    return run_shares(shares, meeting, [](void* context, int share) { (*(const Work*)context)(share); }, (void*)&work);
  work(0);  // a step of a stream takes hardly longer than the search for threads
  return true;
}

// The rows of a batch are independent, so each thread processes a slab of rows through the whole sequence, without
// synchronization inside a step. Where there are too few rows to divide, the threads may work as a team instead: each
// processes its share of columns and units for all rows, and they wait for each other around products. That pays if the
// weights are too large for one core's cache, or if the loop over time has no products (`threads_for` in passes.py).
struct Barrier {
  int arrived = 0, round = 0;
};

struct Slab {
  int id, threads;
  long first, last;  // rows
  int share, shares;  // index and number of shares of columns and units; 0 of 1 outside a team
  Barrier* barrier;
  long rows() const { return last - first; }
  long first_unit(long Hp) const { return Hp / VL * share / shares * VL; }
  long last_unit(long Hp) const { return Hp / VL * (share + 1) / shares * VL; }
};

// Rows are divided in blocks of this size: a product of fewer rows takes nearly as long. `evenly`: there is no product in the
// loop over time, and those outside of it have the rows of several steps.
INLINE long block_rows(long B, int threads, bool evenly) { return evenly ? 1 : B >= 8 * threads ? 8 : 4; }

INLINE Slab slab_of(int id, int threads, long B, bool team, long block, Barrier* barrier) {
  if (team) return {id, threads, 0, B, id, threads, barrier};
  long blocks = (B + block - 1) / block;
  long first = blocks * id / threads * block, last = blocks * (id + 1) / threads * block;
  return {id, threads, first < B ? first : B, last < B ? last : B, 0, 1, barrier};
}

// The tape is divided into parts: all steps of one thread's rows, then all steps of the next one's. In the order of time, rows of
// several threads would alternate, and each thread's core would prefetch what another is about to write (ARCHITECTURE.md): that
// doubles the time of a forward pass where cores do not share a cache. The first number on the tape is that of the parts.
constexpr long TAPE_HEADER = 16;  // floats, as in passes.py; its arrays begin at a cache line then

INLINE long parts_of(const float* tape, long B) {
  const long parts = *tape + 0.5f;
  return parts < 1 ? 1 : parts > B ? B : parts;  // it may have been changed: no crash
}

struct Part {
  long before, rows, inside;  // rows of earlier parts, its own, and those of its own that precede the slab
  // The slab's first row at step t, in an array of `steps` steps.
  long row(long t, long steps) const { return before * steps + t * rows + inside; }
};

INLINE Part part_of(const Slab& slab, long parts, long B) {
  return parts > 1 ? Part{slab.first, slab.rows(), 0} : Part{0, B, slab.first};
}

INLINE long most_rows(int threads, long B, bool team, long block) {
  long most = 0;
  for (int id = 0; id < threads; id++) {
    long rows = slab_of(id, threads, B, team, block, nullptr).rows();
    most = rows > most ? rows : most;
  }
  return most;
}

// ---- products (products.cpp, compiled once for all kernels) -----------------------------------------------------------

// One term of a sum of products: rows of A (ld `lda`, K long) times packed columns.
struct Term {
  const float* A;
  long lda, K;
  const float* packed;
};

// A part of a weight gradient: `rows` rows of A (K long) and of G.
struct Segment {
  const float *A, *G;
  long rows;
};

// Columns are packed in panels of NV vectors, K rows each, so that a tile reads contiguous memory.
INLINE size_t packed_size(long K, long columns) { return (size_t)K * columns; }

void pack_columns(float* packed, const float* const* M, long count, long H, long Hp, long K, int id, int threads);
void pack_rows(float* packed, const float* M, long K, long N, long Np, int id, int threads);
// Columns that a thread computes, whole vectors: of each group of `width` columns those from `first` to `last`.
struct Columns {
  long count, width, first, last;
  bool are_all() const { return first == 0 && last == width; }
  long ranges() const { return first == last ? 0 : are_all() ? 1 : count / width; }
  long first_of(long range) const { return range * width + first; }
  long last_of(long range) const { return are_all() ? count : range * width + last; }
};

// Those of a thread's units, for several gates. What it computes of its units then depends on no other thread.
INLINE Columns columns_of(const Slab& slab, long gates, long Hp) {
  return {gates * Hp, Hp, slab.first_unit(Hp), slab.last_unit(Hp)};
}

// An even share of columns that are not units.
INLINE Columns columns_of_share(long count, int share, int shares) {
  const long vectors = count / VL;
  return {count, count, vectors * share / shares * VL, vectors * (share + 1) / shares * VL};
}

void product(float* C, long ldc, const float* start, long ldstart, const Term* terms, int count, long rows, Columns columns,
             bool backwards = false);
void outer(float* C, long ldc, const Segment* segments, int count, long lda, long ldg, long K, Columns columns);
void collect(float* out, const float* sums, long stride, int count, long ld, long H, long K, bool more, int id, int threads);

// The next range of columns of adjoints whose weight gradient is wanted, from column `last` on.
INLINE bool next_wanted(const uint8_t* wanted, long columns, long& first, long& last) {
  for (first = last; wanted && first < columns && !wanted[first]; first++) {}
  for (last = first; wanted && last < columns && wanted[last]; last++) {}
  return last > first;
}

INLINE bool any(const uint8_t* flags, long count) {
  for (long i = 0; i < count; i++)
    if (flags[i]) return true;
  return false;
}

// All threads wait for each other.
void meet(const Slab& slab);

// The same for teams; nothing otherwise.
INLINE void synchronize(const Slab& slab) {
  if (slab.shares > 1) meet(slab);
}

INLINE void zero(float* p, long floats) { memset(p, 0, floats * 4); }
INLINE void copy(float* to, const float* from, long floats) { memcpy(to, from, floats * 4); }

// A thread's units of a row; null stands for a row of zeros.
INLINE void copy_units(float* to, const float* from, long first, long units) {
  from ? copy(to + first, from + first, units) : zero(to + first, units);
}

// A row of H floats that may be read in whole vectors; `scratch` has zeros beyond H.
INLINE const float* whole_row(const float* row, float* scratch, long H, long Hp) {
  if (H == Hp) return row;
  copy(scratch, row, H);
  return scratch;
}

// ---- changes of the parameters ----------------------------------------------------------------------------------------

// Parameters from which something was prepared, and the fingerprint they had then.
struct Sampled {
  uint64_t expected;
  long count;
  const float* const* tensors;
  const long* sizes;
};

// Of four numbers of each tensor: notices changes behind torch's back (`p.data.copy_`), which it does not count.
extern "C" uint64_t fingerprint(const Sampled* parameters);

// One step of a stream: what every kernel has as its function `step`. `fixed`: prepared weights, then masks.
typedef int Step(void* const* fixed, long* sizes, const float* x, float* output, const float* const* starts,
                 float* const* finals);

// ---- several steps at once --------------------------------------------------------------------------------------------

// The number of steps whose input products are computed together: 64 rows make a product efficient, and fit in cache.
// If every step has products of its own, few rows are slow anyway, and from 8 on nothing is gained.
INLINE long steps_at_once(long rows, long T, bool loops_products) {
  long steps = loops_products && rows >= 8 ? 1 : 64 / rows;
  return steps < 1 ? 1 : steps < T ? steps : T;
}

// Rows of several steps at a common distance, as the operand of one product.
struct Rows {
  const float* first;
  long ld;
};

// The rows of `steps` steps: where they are, if their distance is the same throughout, otherwise copied to `gathered`.
// `step` and `ld` are the distances of steps and of rows, K floats each. A team shares the copying.
INLINE Rows rows_of(const float* from, long step, long ld, long rows, long steps, long K, float* gathered,
                    const Slab& slab) {
  if (steps == 1 || step == rows * ld) return {from, ld};
  if (rows == 1) return {from, step};
  for (long s = slab.share; s < steps; s += slab.shares)
    for (long i = 0; i < rows; i++) copy(gathered + (s * rows + i) * K, from + s * step + i * ld, K);
  synchronize(slab);
  return {gathered, K};
}

// The same for weight gradients, which need no copy: one segment if the distance is the same, otherwise one per step.
INLINE int segments_of(Segment* segments, long& ld, const float* from, long step, const float* G, long ldg, long rows,
                       long steps) {
  if (rows == 1 && steps > 1) ld = step;
  if (rows == 1 || step == rows * ld) {
    segments[0] = {from, G, rows * steps};
    return 1;
  }
  for (long s = 0; s < steps; s++) segments[s] = {from + s * step, G + s * rows * ldg, rows};
  return steps;
}

// Adds up the sums of `count` threads, H floats each, `stride` apart; with `all_units` also over these.
INLINE void add_up(float* out, const float* sums, long stride, int count, long H, bool all_units) {
  float whole = 0;
  for (long j = 0; j < H; j++) {
    float sum = 0;
    for (int k = 0; k < count; k++) sum += sums[k * stride + j];
    if (!all_units) out[j] = sum;
    whole += sum;
  }
  if (all_units) *out = whole;
}
