"""What it costs that two threads write alternating parts of one array: `python benchmarks/neighbours.py`.

A core prefetches beyond the part that its thread writes, and takes from the other core what that is about to write. How
much this costs depends on where the cores are: a value passes between two that share a cache in 30 ns, between others
in 150 ns or more. On a virtual machine that changes while a program runs, so every turn says which it was.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections import defaultdict

import native

from gatelab.engine.fused import compiler

NEAR = 60  # nanoseconds between cores that share a cache, at most
FLOATS = 1 << 20  # of the array
PARTS = (1, 4, 16, 64, 256)  # kilobytes that one thread writes before the other's follow
SOURCE = """
#include <atomic>
#include <chrono>
#include <thread>
typedef float V __attribute__((vector_size(64), aligned(4)));
static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Work>
static double timed(Work work) {  // seconds of the first of two threads, from when both are there
  std::atomic<int> there{0};
  double seconds = 0;
  auto run = [&](int id) {
    for (there++; there < 2;) {}
    const double begin = now();
    work(id);
    if (id == 0) seconds = now() - begin;
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return seconds;
}

extern "C" double pass_on(long times) {  // seconds until the other core has a value
  std::atomic<long> ball{0};
  return timed([&](int id) {
    for (long k = 0; k < times; k++) {
      while (ball.load() != 2 * k + id) {}
      ball.store(2 * k + id + 1);
    }
  }) / (2 * times);
}

extern "C" double write_all(float* array, long floats, long part, bool alternating, long times) {
  return timed([&](int id) {
    for (long round = 0; round < times; round++)
      for (long k = 0; k < floats / 2 / part; k++) {
        float* const from = array + (alternating ? (2 * k + id) * part : id * floats / 2 + k * part);
        for (long i = 0; i < part; i += 16) *(V*)(from + i) = V{} + (float)(k + round);
      }
  }) / times;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    library, array = native.compiled(SOURCE), (ctypes.c_float * FLOATS)()
    library.pass_on.restype = library.write_all.restype = ctypes.c_double
    times: dict[bool, dict[tuple[int, bool], list[float]]] = defaultdict(lambda: defaultdict(list))
    latencies: dict[bool, list[float]] = defaultdict(list)
    started = time.perf_counter()
    while time.perf_counter() - started < options.seconds:
        before = library.pass_on(500) * 1e9
        turn = {
            (part, alternating): library.write_all(array, FLOATS, part << 8, alternating, 5) * 1e6
            for part in PARTS
            for alternating in (True, False)
        }
        after = library.pass_on(500) * 1e9
        if (is_near := before < NEAR) == (after < NEAR):
            latencies[is_near].append(before)
            for key, microseconds in turn.items():
                times[is_near][key].append(microseconds)
    print(f"{compiler.cpu_name()}: {FLOATS * 4 >> 20} MB, written by two threads, medians")
    for is_near, measured in times.items():
        turns = len(latencies[is_near])
        print(f"cores {statistics.median(latencies[is_near]):.0f} ns apart ({turns} turns)")
        for part in PARTS:
            alternating, apart = (statistics.median(measured[part, which]) for which in (True, False))
            print(f"  in parts of {part:3} kB  alternating {alternating:5.0f} µs  apart {apart:5.0f} µs")


if __name__ == "__main__":
    main()
