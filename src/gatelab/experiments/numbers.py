"""What files of results are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

# What reading a run can end in: one that was tampered with may be whole, and make no sense.
UNUSABLE = (
    OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, MemoryError, RuntimeError,
)  # fmt: skip


class Numbers(BaseModel):
    """Plain numbers that are written to a file and read back strictly."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
