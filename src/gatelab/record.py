"""Records: what a file of plain data holds, as one frozen type that writes it and reads it back strictly."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from gatelab.errors import DataError, first_problem

if TYPE_CHECKING:
    from typing_extensions import Self

# What reading records can end in: one that was tampered with may be whole, and make no sense.
UNUSABLE = (
    OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError, MemoryError, RuntimeError,
)  # fmt: skip


class Record(BaseModel):
    """A file of plain data, or a part of one. Unknown keys, missing values and values of another type are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_by_name=True)

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def read(cls, content: dict[str, Any], source: object) -> Self:
        """The record that was written as this; an error that names its source and what is wrong there."""
        try:
            return cls.model_validate_json(json.dumps(content))  # JSON has lists where the record has tuples
        except ValidationError as error:
            raise DataError(f"{source} cannot be read: {first_problem(error)}") from None

    def replaced(self, **changes: Any) -> Self:
        """The same with some values replaced; they are validated."""
        return type(self).model_validate({**self.fields(), **changes})

    def fields(self) -> dict[str, Any]:
        """Its values by name."""
        return {name: getattr(self, name) for name in type(self).model_fields}
