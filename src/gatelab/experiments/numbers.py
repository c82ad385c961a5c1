"""What files of results are made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Numbers(BaseModel):
    """Plain numbers that are written to a file and read back strictly."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
