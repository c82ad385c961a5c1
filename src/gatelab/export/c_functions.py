"""The functions that generated C calls, each in the fewest lines; a file gets those that it uses.

Sigmoid, tanh and exp are polynomials without branches, so that compilers turn loops over units into vector
instructions; they are exact to about 1e-7.
"""

from __future__ import annotations

from collections.abc import Iterable

# Operation → the function that computes it: of math.h, or below.
NAMES = {
    "sigmoid": "sigmoid",
    "tanh": "hyperbolic_tangent",
    "exp": "exponential",
    "relu": "relu",
    "softplus": "softplus",
    "log": "logf",
    "sqrt": "sqrtf",
    "sin": "sinf",
    "cos": "cosf",
    "abs": "fabsf",
    "floor": "floorf",
    "step": "step",
    "maximum": "maximum",
    "minimum": "minimum",
    "clamp": "clamp",
    "power": "power",
}

_NEEDS = {
    "sigmoid": ("exp_parts",),
    "hyperbolic_tangent": ("exp_parts",),
    "exponential": ("exp_parts",),
    "softplus": ("exp_parts", "exponential"),
}

_TEXTS = {
    "exp_parts": """\
/* e^v = scale * (1 + fraction), for v from -87 to 88. */
static inline float exp_parts(float v, float *fraction)
{
    union { float f; uint32_t i; } bits;
    float k, f, p;
    bits.f = v * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: adding it rounds, and leaves the integer in the low bits */
#ifdef __FAST_MATH__
    k = (float)(int32_t)(bits.i - 0x4b400000u);
#else
    union { float f; uint32_t i; } turned;
    turned.i = bits.i ^ 0x80000000u; /* the sign by its bit: subtracting what was added could be optimized away */
    k = -(turned.f + 12582912.0f);
#endif
    f = v - k * 0.693359375f; /* ln 2 in two parts, the first exact in few bits */
    f = f + k * 2.12194440e-4f;
    p = 1.9875691500e-4f;
    p = p * f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    *fraction = p * f * f + f;
    bits.i = (bits.i << 23) + 0x3f800000u;
    return bits.f;
}
""",
    "sigmoid": """\
static inline float sigmoid(float v)
{
    float fraction, scale;
    v = v < -87.0f ? -87.0f : v;
    v = v > 87.0f ? 87.0f : v;
    scale = exp_parts(-v, &fraction);
    return 1.0f / (1.0f + (scale * fraction + scale));
}
""",
    "hyperbolic_tangent": """\
static inline float hyperbolic_tangent(float v)
{
    float fraction, scale, minus_one;
    v = v < -15.0f ? -15.0f : v;
    v = v > 15.0f ? 15.0f : v;
    scale = exp_parts(2.0f * v, &fraction);
    minus_one = scale * fraction + (scale - 1.0f); /* e^2v - 1, without cancellation */
    return minus_one / (minus_one + 2.0f);
}
""",
    "exponential": """\
static inline float exponential(float v)
{
    float fraction, scale;
    const float low = v < -87.0f ? -87.0f : v, inside = low > 88.0f ? 88.0f : low;
    scale = exp_parts(inside, &fraction);
    return v < -87.0f ? 0.0f : v > 88.0f ? expf(v) : scale * fraction + scale;
}
""",
    "relu": "static inline float relu(float v) { return v < 0.0f ? 0.0f : v; }\n",
    "softplus": """\
static inline float softplus(float v)
{
    return (v > 0.0f ? v : 0.0f) + log1pf(exponential(-fabsf(v)));
}
""",
    "step": "static inline float step(float v) { return v > 0.0f ? 1.0f : 0.0f; }\n",
    "maximum": "static inline float maximum(float a, float b) { return a > b || a != a ? a : b; }\n",
    "minimum": "static inline float minimum(float a, float b) { return a < b || a != a ? a : b; }\n",
    "clamp": """\
static inline float clamp(float v, float low, float high) { return v < low ? low : v > high ? high : v; }
""",
    "power": """\
static inline float power(float v, int n)
{
    float y = 1.0f;
    int left;
    for (left = n < 0 ? -n : n; left > 0; left--)
        y *= v;
    return n < 0 ? 1.0f / y : y;
}
""",
}

MULTIPLY = """\
/* sums[i] += weights[k][i] * values[k]. Four values at a time, so that the sums are loaded and stored less often. */
static void multiply(float *restrict sums, const float *restrict weights, const float *restrict values, int count,
                     int n)
{
    int k = 0, i;
    for (; k + 4 <= count; k += 4, weights += 4 * n) {
        const float a = values[k], b = values[k + 1], c = values[k + 2], d = values[k + 3];
        const float *restrict wa = weights, *restrict wb = wa + n, *restrict wc = wb + n, *restrict wd = wc + n;
        for (i = 0; i < n; i++)
            sums[i] += a * wa[i] + b * wb[i] + c * wc[i] + d * wd[i];
    }
    for (; k < count; k++, weights += n) {
        const float a = values[k];
        for (i = 0; i < n; i++)
            sums[i] += a * weights[i];
    }
}
"""

MULTIPLY_INT8 = """\
/* sums[i] += scales[i] * weights[k][i] * values[k], with weights from -127 to 127. */
static void multiply(float *restrict sums, const int8_t *restrict weights, const float *restrict scales,
                     const float *restrict values, int count, int n)
{
    float parts[LARGEST_PRODUCT];
    int k, i;
    for (i = 0; i < n; i++)
        parts[i] = 0.0f;
    for (k = 0; k < count; k++, weights += n) {
        const float a = values[k];
        for (i = 0; i < n; i++)
            parts[i] += a * (float)weights[i];
    }
    for (i = 0; i < n; i++)
        sums[i] += scales[i] * parts[i];
}
"""


def functions(operations: Iterable[str]) -> str:
    """The text of the functions that these operations need."""
    wanted = {NAMES[operation] for operation in operations if operation in NAMES}
    wanted |= {needed for name in list(wanted) for needed in _NEEDS.get(name, ())}
    return "\n".join(text for name, text in _TEXTS.items() if name in wanted)
