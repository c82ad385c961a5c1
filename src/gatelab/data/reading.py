"""How a file of the user's own is read: the options that a run keeps, to read new files the same way."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Fill = Literal["interpolate", "previous", "none"]
Aggregate = Literal["mean", "first", "last", "sum"]
Layout = Literal["auto", "series", "long", "wide"]


LabelType = Literal["text", "integer", "boolean"]  # of the labels in the data


class Reading(BaseModel):
    """The meaning of the columns of a table or the arrays of an .npz, and the treatment of gaps."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: Layout = "auto"
    header: bool | None = None
    id: str | None = None
    time: str | None = None  # a column, several joined by "+", or "none"
    label: str | None = None
    split: str | None = None
    group: str | None = None
    fill: Fill | None = None
    aggregate: Aggregate | None = None
    tokens: Literal["text", "integer"] | None = None  # None: the steps are numbers
    columns: tuple[str, ...] = ()  # of tokens in a table: their column

    def resolved(self, **found: object) -> Reading:
        """The same with what was found in the file."""
        return self.model_copy(update=found)
