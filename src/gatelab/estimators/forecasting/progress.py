"""What a forecaster is doing while it is fitted or tested, for whoever shows it; by default nobody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Listener = Callable[[Literal["training", "forecasting"], str, int, int], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener | None) -> Iterator[None]:
    """Within it, `listener` hears what is done (training or forecasting), of what, how much, and how much there is."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(kind: Literal["training", "forecasting"], what: str, done: int, total: int) -> None:
    """Say that so much of something is done."""
    if (listener := _listener.get()) is not None:
        listener(kind, what, done, total)
