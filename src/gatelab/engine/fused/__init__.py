"""The fused engine: a cell becomes one C++ file, forwards and backwards, compiled on first use and run on the CPU.

    plan.py       which products are done together, what waits for what, what is kept for the way back
    pointwise.py  the C++ of a pass over the units of a row
    source.py     the names, arguments and pieces that both ways share
    forward.py    the C++ of the way forwards
    backward.py   the C++ of the way back
    runtime.hpp   what every kernel stands on: vectors, functions, products, written by hand
    build.py      the compiler and the cache of kernels on disk
    memory.py     large arrays that are used again
    function.py   the kernel as a differentiable function of torch

There is no code for any particular cell in here.
"""
