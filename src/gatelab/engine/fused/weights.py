"""The parameters of a layer as its kernel takes them, prepared once for as long as they do not change."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from ctypes import POINTER, Structure, c_int64, c_long, c_ssize_t, c_void_p, py_object
from typing import Any

import torch
from torch import Tensor

from gatelab.engine.fused import passes
from gatelab.engine.fused.expected import PLAIN, has_memory, laid_out
from gatelab.engine.fused.interface import Torch, torch_functions
from gatelab.engine.fused.kernel import Kernel
from gatelab.engine.parameters import CellParameters
from gatelab.errors import GatelabError
from gatelab.lang.graph import Weight

SAME, CHANGED, OTHERS = range(3)  # as in weights.cpp


class Parameter(Structure):
    """A parameter, where its module keeps it, and how it was when something was prepared from it; or a module that
    holds some, and where that is kept (weights.cpp).
    """

    _fields_ = (
        *((name, py_object) for name in ("owner", "name", "object")),
        ("position", c_ssize_t),
        *((name, c_void_p) for name in ("implementation", "place")),
        *((name, c_int64) for name in ("numel", "version")),
    )


class Sampled(Structure):
    """Values of parameters, and the fingerprint of a sample of them when something was prepared (runtime.hpp)."""

    _fields_ = (
        ("expected", ctypes.c_uint64),
        ("count", c_long),
        ("tensors", POINTER(c_void_p)),
        ("sizes", POINTER(c_long)),
    )


class _Watched(Structure):
    _fields_ = (
        ("torch", POINTER(Torch)),
        ("count", c_int64),
        ("parameter", POINTER(Parameter)),
        ("sampled", POINTER(Sampled)),
    )


class ParameterWatch:
    """Whether parameters have changed: torch counts changes, unless somebody changes `p.data`; a sample of the values
    shows these.
    """

    def __init__(
        self, compiled: Kernel, functions: Torch, parameters: Sequence[Parameter], sources: Sequence[Tensor]
    ) -> None:
        self.parameters = (Parameter * len(parameters))(*parameters)
        places = (c_void_p * len(sources))(*(source.data_ptr() for source in sources))
        sizes = (c_long * len(sources))(*(source.numel() for source in sources))
        self.sampled = Sampled(0, len(sources), places, sizes)
        pointers = ctypes.pointer(functions), len(parameters), self.parameters, ctypes.pointer(self.sampled)
        self._watched = _Watched(*pointers)
        self._kept = parameters, sources, places, sizes, functions
        self._compiled, self._address = compiled, ctypes.addressof(self._watched)
        self.remember()

    @classmethod
    def of(cls, compiled: Kernel, parameters: CellParameters) -> ParameterWatch | None:
        """None if changes cannot be noticed: of inference tensors, and of tensors that are computed or copied."""
        functions, sources, owners = torch_functions(), parameters.sources(), parameters.owners()
        if functions is None or not all(map(_is_countable, sources)):
            return None
        held = entries_of(parameters._modules)
        for owner, source in zip(owners, sources, strict=True):
            if owner is None:
                return None
            names = list(owner[0])
            position = names.index(owner[1])
            place = owner[0], names[position], source, position
            held.append(Parameter(*place, source._cdata, source.data_ptr(), source.numel()))
        return cls(compiled, functions, held, sources)

    def look(self) -> int:
        """SAME, CHANGED (the same tensors with other values) or OTHERS (other tensors, or in other places)."""
        return self._compiled.look(self._address)  # type: ignore[no-any-return]

    def remember(self) -> None:
        """Compare with the present values from now on."""
        self._compiled.remember(self._address)

    def snapshot(self) -> tuple[list[Parameter], Sampled]:
        """The parameters as they are remembered now."""
        return [_copied(parameter) for parameter in self.parameters], _copied(self.sampled)


def entries_of(holder: dict[str, Any], *names: str) -> list[Parameter]:
    """Modules where a module has them, or other objects in a dictionary: these, or all."""
    entries = enumerate(holder.items())
    return [Parameter(holder, name, entry, k) for k, (name, entry) in entries if not names or name in names]


def _is_countable(source: Tensor) -> bool:
    """Whether torch counts its changes, and a kernel can read it where it is."""
    if type(source) not in PLAIN or not source.is_cpu or source.is_inference():
        return False
    lies_as_read = source.is_contiguous() and not source.is_neg()
    return source.is_leaf and lies_as_read and source.dtype is torch.float32 and has_memory(source)


def _copied(structure: Any) -> Any:
    return type(structure)(*(getattr(structure, name) for name, _ in structure._fields_))


class KernelWeights:
    """Matrices, vectors and scalars of a kernel, in that order, matrix expressions evaluated, and what the forward pass
    needs of them. That is never changed, only replaced.
    """

    def __init__(self, parameters: CellParameters, compiled: Kernel) -> None:
        self.compiled, self.options = compiled, dict(parameters.options)
        self.D, self.H = parameters.input_size, parameters.hidden_size
        # Neither evaluated nor copied: the kernel reads the parameters themselves.
        self.are_parameters = all(isinstance(matrix, Weight) for matrix in parameters.matrices)
        # Otherwise they belong to the graph of one call.
        is_lasting = self.are_parameters or not torch.is_grad_enabled()
        self.watch = ParameterWatch.of(compiled, parameters) if is_lasting else None  # before anything is read
        self._lock = threading.Lock()  # what is watched and what was prepared belong together
        is_inference = self.are_parameters and torch.is_inference_mode_enabled()
        with torch.inference_mode(False) if is_inference else nullcontext():  # training may follow with these
            self.tensors = [laid_out(tensor) for tensor in tensors_of(parameters)]
        self._check_shapes(parameters)
        self.prepared = passes.prepare(compiled, self.tensors, self.D, self.H)

    def current(self, compiled: Kernel, parameters: CellParameters) -> Tensor | None:
        """What was prepared, again if values have changed; None if these are the weights of other parameters."""
        if self.watch is None or self.compiled is not compiled or self.options != parameters.options:
            return None
        with self._lock:
            finding = self.watch.look()
            if finding == OTHERS or (not self.are_parameters and (finding == CHANGED or torch.is_grad_enabled())):
                return None
            if finding == CHANGED:
                self.watch.remember()
                self.prepared = passes.prepare(self.compiled, self.tensors, self.D, self.H)
            return self.prepared

    def snapshot(self) -> tuple[Tensor, list[Parameter], Sampled]:
        """What was prepared, and the parameters as they were then."""
        assert self.watch is not None, "changes of these parameters are not noticed"
        with self._lock:
            return self.prepared, *self.watch.snapshot()

    def _check_shapes(self, parameters: CellParameters) -> None:
        """The kernel relies on them."""
        expected = self.compiled.source.parameter_shapes(self.D, self.H)
        for tensor, shape in zip(self.tensors, expected, strict=True):
            if tensor.shape != shape:
                raise GatelabError(
                    f"a parameter of cell {parameters.cell.name!r} has shape {tuple(tensor.shape)}: expected {shape}, "
                    f"since the layer has input_size={self.D} and hidden_size={self.H}"
                )


_known: weakref.WeakKeyDictionary[CellParameters, KernelWeights] = weakref.WeakKeyDictionary()


def weights_of(parameters: CellParameters, compiled: Kernel) -> tuple[KernelWeights, Tensor]:
    """The weights of a layer in one direction, and what was prepared from their present values."""
    weights = _known.get(parameters)
    prepared = None if weights is None else weights.current(compiled, parameters)
    if weights is None or prepared is None:
        weights = KernelWeights(parameters, compiled)
        prepared = weights.prepared
        if weights.watch is not None:
            _known[parameters] = weights
    return weights, prepared


def tensors_of(parameters: CellParameters) -> list[Tensor]:
    """The matrices, vectors and scalars of a layer's kernel."""
    is_evaluated = not all(isinstance(matrix, Weight) for matrix in parameters.matrices)
    for source in () if torch.compiler.is_compiling() else parameters.sources():
        is_read = is_evaluated or not source.is_contiguous()  # here; others are, where a kernel reads them
        if is_read and type(source) in PLAIN and source.is_cpu and not has_memory(source):
            raise GatelabError(
                f"a parameter of cell {parameters.cell.name!r} of shape {tuple(source.shape)} has no memory: expected "
                "values (was its storage freed?)"
            )
    tensors = [parameters.effective(matrix) for matrix in parameters.matrices]
    tensors += parameters.b.values()
    tensors += [torch.as_tensor(option, dtype=torch.float32) for option in parameters.scalars().values()]
    if any(t.dtype != torch.float32 for t in tensors):
        dtypes = ", ".join(sorted({str(t.dtype) for t in tensors} | {"torch.float32"}))
        raise GatelabError(
            f"the layer's parameters and input have different dtypes ({dtypes}): expected torch.float32 for all"
        )
    return tensors
