"""The fused engine: one C++ kernel per cell, forward and backward pass, compiled on first use, for the CPU.

    phases.py     which products are computed together, in which order, and what is saved for the backward pass
    pointwise.py  the C++ of a pass over the units of a row
    source.py     a kernel's programs, arguments and names
    writer.py     code generation shared by both passes
    forward.py    the C++ of the forward pass
    backward.py   the C++ of the backward pass
    runtime.hpp   hand-written C++ that every kernel includes: vectors, functions, threads
    products.cpp  matrix products, compiled once for all kernels
    threads.cpp   the threads of all kernels, compiled with it, as are interface, weights, calls and streaming.cpp
    interface.py  functions of torch that C++ calls; interface.cpp: what C++ uses of Python and of torch
    files.py      files of compiled kernels: checksums, who may write them, the cache folder
    compiler.py   the compiler; a kernel compiled ahead, from the cache, or compiled now
    prebuilt.py   kernels compiled ahead: where they are, which the CPU supports
    ahead.py      compiling them
    buffers.py    a buffer pool for large tensors
    kernel.py     a compiled kernel, its functions called by name
    calls.py      a kernel's functions called with tensors, settled once for each shape; calls.cpp makes the call
    passes.py     forward and backward pass: tensors in, tensors out
    weights.py    a layer's parameters, prepared once for as long as they do not change; weights.cpp looks for changes
    function.py   the kernel as a torch.autograd.Function
    ops.py        the same as operators of torch, for its graphs
    streaming.py  one step of a stack of layers; streaming.cpp: the function that Python calls

Nothing in here is specific to a cell.
"""
