"""The parameters of a layer as its kernel takes them, prepared once for as long as they do not change."""

from __future__ import annotations

import ctypes
import weakref
from operator import attrgetter, is_

import torch
from torch import Tensor

from gatelab.engine.fused import passes
from gatelab.engine.fused.kernel import Kernel, Sampled
from gatelab.engine.parameters import CellParameters
from gatelab.errors import GatelabError
from gatelab.lang.graph import Weight

version, place = attrgetter("_version"), Tensor.data_ptr


class Prepared:
    """What the forward pass needs of the parameters, and how they were when it was computed."""

    def __init__(self, weights: Weights) -> None:
        self.sources, self._fingerprint = weights.sources, weights.compiled.fingerprint
        self.sampled: Sampled | None = None
        if weights.are_tracked:
            self.versions, self.places = list(map(version, self.sources)), list(map(place, self.sources))
            self.sampled = Sampled.of(self.sources)
            self.sampled.expected = self._fingerprint(ctypes.addressof(self.sampled))
        self.memory = passes.prepare(weights.compiled, "forward", weights.tensors, weights.D, weights.H)

    def is_current(self) -> bool:
        """Whether the parameters are as they were. Torch counts changes, unless somebody changes `p.data`; a sample of
        the values shows these.
        """
        sources = self.sources
        if self.sampled is None or list(map(version, sources)) != self.versions:
            return False
        if list(map(place, sources)) != self.places or not all(map(Tensor.is_contiguous, sources)):
            return False  # (`p.data = p.data.t()` is in the same place)
        return bool(self._fingerprint(ctypes.addressof(self.sampled)) == self.sampled.expected)


class Weights:
    """Matrices, vectors and scalars of a kernel, in that order; matrix expressions are evaluated."""

    def __init__(self, parameters: CellParameters, compiled: Kernel, sources: list[Tensor]) -> None:
        self.compiled, self.sources = compiled, sources
        self.tensors = [tensor.contiguous() for tensor in tensors_of(parameters)]
        self.D, self.H, self.options = parameters.input_size, parameters.hidden_size, dict(parameters.options)
        self.count = sum(tensor.numel() for tensor in self.tensors)
        contiguous = all(source.is_contiguous() for source in sources)
        # Neither evaluated nor copied: the kernel reads the parameters themselves.
        self.are_parameters = contiguous and all(isinstance(matrix, Weight) for matrix in parameters.matrices)
        self.are_tracked = contiguous and not any(source.is_inference() for source in sources)
        self._prepared: Prepared | None = None

    def fit(self, compiled: Kernel, parameters: CellParameters, sources: list[Tensor]) -> bool:
        """Whether these are the weights of such parameters, whose values may have changed."""
        is_same = self.compiled is compiled and self.options == parameters.options
        if not (is_same and len(sources) == len(self.sources) and all(map(is_, sources, self.sources))):
            return False
        if self.are_parameters:
            return all(source.dtype is torch.float32 and source.is_contiguous() for source in sources)
        return self._prepared is not None and not torch.is_grad_enabled() and self._prepared.is_current()

    def prepared(self) -> Prepared:
        """What the forward pass needs of them."""
        if self._prepared is None or not self._prepared.is_current():
            self._prepared = Prepared(self)
        return self._prepared


_known: weakref.WeakKeyDictionary[CellParameters, Weights] = weakref.WeakKeyDictionary()


def weights_of(parameters: CellParameters, compiled: Kernel) -> Weights:
    """The weights of a layer in one direction."""
    sources = parameters.sources()
    weights = _known.get(parameters)
    if weights is None or not weights.fit(compiled, parameters, sources):
        weights = Weights(parameters, compiled, sources)
        # Otherwise they belong to the graph of one call.
        if (weights.are_parameters or not torch.is_grad_enabled()) and all(source.is_leaf for source in sources):
            _known[parameters] = weights
    return weights


def tensors_of(parameters: CellParameters) -> list[Tensor]:
    """The matrices, vectors and scalars of a layer's kernel."""
    tensors = [parameters.effective(matrix) for matrix in parameters.matrices]
    tensors += parameters.b.values()
    tensors += [torch.as_tensor(option, dtype=torch.float32) for option in parameters.scalars().values()]
    if any(t.dtype != torch.float32 for t in tensors):
        dtypes = ", ".join(sorted({str(t.dtype) for t in tensors} | {"torch.float32"}))
        raise GatelabError(
            f"the layer's parameters and input have different dtypes ({dtypes}): expected torch.float32 for all"
        )
    return tensors
