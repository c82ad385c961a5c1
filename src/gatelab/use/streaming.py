"""A trained model on a stream, one step at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from gatelab.errors import GatelabError, unknown
from gatelab.tasks.preparation import Preparation

if TYPE_CHECKING:
    from gatelab.use.trained_model import TrainedModel


class StreamState(NamedTuple):
    """What is carried from step to step."""

    model: Any  # the model's own state
    values: np.ndarray  # (B, D) or (B,), the last step as it was given


@torch.no_grad()
def step(trained: TrainedModel, x: Any, state: StreamState | None) -> tuple[Any, StreamState]:
    """The prediction at one step, and the state for the next one."""
    prepared = trained.preparation
    values, single = (_tokens if prepared.kind == "tokens" else _numbers)(x, prepared)
    if state is not None and len(state.values) != len(values):
        raise GatelabError(
            f"x has {len(values)} sequences, and the state belongs to {len(state.values)}: go on with as many, or "
            "begin without a state"
        )
    encoded = _encoded(prepared, values, None if state is None else state.values)
    output, after = trained.module.step(encoded, None if state is None else state.model)
    scores, labels = output.numpy(), trained.classes
    predicted = prepared.decode(scores, values) if labels is None else labels[scores.argmax(-1)]
    return predicted[0] if single else predicted, StreamState(after, values)


def _encoded(prepared: Preparation, values: np.ndarray, before: np.ndarray | None) -> torch.Tensor:
    """The model's input; differences need the step before."""
    if prepared.differenced and before is not None:
        return prepared.encode(np.stack([before, values], 1))[:, 1].contiguous()
    without_noise = prepared.model_copy(update={"noise_pad": 0}) if prepared.noise_pad else prepared
    return without_noise.encode(values[:, None])[:, 0].contiguous()


def _numbers(x: Any, prepared: Preparation) -> tuple[np.ndarray, bool]:
    D = prepared.input_size
    try:
        values = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
        values = values if prepared.kind == "image" else values.astype(np.float64)
    except (TypeError, ValueError):
        raise GatelabError(f"x is {str(x)[:80]}: expected the {D} numbers of one step") from None
    if values.ndim == 0 and D == 1:
        values = values[None]
    if values.ndim not in (1, 2) or values.shape[-1] != D or not len(values):
        order = f" ({', '.join(prepared.columns)})" if prepared.columns else ""
        raise GatelabError(f"x has the shape {values.shape}: expected one step, ({D},){order}, or (B, {D})")
    if not np.isfinite(values).all():
        raise GatelabError("x has values that are not finite: expected numbers")
    return (values[None], True) if values.ndim == 1 else (values, False)


def _tokens(x: Any, prepared: Preparation) -> tuple[np.ndarray, bool]:
    names = [x] if isinstance(x, str) else x
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(name, str) for name in names):
        raise GatelabError(f"x is {str(x)[:80]!r}: expected one token of the vocabulary, or a list of them")
    for name in names:
        if name not in prepared.vocabulary:
            raise unknown("token", name, prepared.vocabulary)
    return np.array([prepared.vocabulary.index(name) for name in names]), isinstance(x, str)
