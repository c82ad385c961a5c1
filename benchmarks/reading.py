"""How long it takes to read the weights of a layer once, on one thread: no step can take less."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import native
import torch

from gatelab import Recurrent

# Twelve sums, so that none waits for another. Every second time backwards: that finds a part in the cache.
SOURCE = """
typedef float V __attribute__((vector_size(64), aligned(4)));
extern "C" float read_all(const float* from, long floats, long times) {
  V sums[12] = {};
  const long blocks = floats / 192;
  for (long k = 0; k < times * blocks; k++) {
    const long round = k / blocks, at = k % blocks;
    const float* const block = from + (round % 2 ? blocks - 1 - at : at) * 192;
    for (int i = 0; i < 12; i++) sums[i] += *(const V*)(block + 16 * i);
  }
  for (int i = 1; i < 12; i++) sums[0] += sums[i];
  return sums[0][0];
}
"""


def reader(layer: Recurrent, times: int) -> Callable[[], torch.Tensor]:
    """A function that reads as many floats as the layer has, this many times."""
    read_all = native.compiled(SOURCE).read_all
    read_all.argtypes, read_all.restype = (ctypes.c_void_p, ctypes.c_long, ctypes.c_long), ctypes.c_float
    floats = sum(parameter.numel() for parameter in layer.parameters())
    weights = torch.rand(floats)
    return lambda: torch.tensor(read_all(weights.data_ptr(), floats, times))
