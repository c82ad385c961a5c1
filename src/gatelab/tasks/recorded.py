"""The task of a run that is a class in a file of the user's, which is not executed to open the run."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from gatelab.errors import DataError
from gatelab.tasks.prepared import Prepared
from gatelab.tasks.scaling import Scaling

if TYPE_CHECKING:
    from typing_extensions import Self

    from gatelab.tasks.examples import Parts
    from gatelab.tasks.preparation import Preparation


class Recorded(Prepared):
    """A task as a run recorded it: what its inputs and outputs mean, and a few examples. No code of it is executed."""

    model_config = ConfigDict(extra="allow")  # its options are not known here

    source = "recorded in the run directory"
    split_rule = "as in the run"
    from_disk = True

    @classmethod
    def named(cls, name: str, options: dict[str, Any]) -> Self:
        """The recorded task with this name and these options."""
        named: type[Self] = type(cls.__name__, (cls,), {"name": name, "__doc__": cls.__doc__})
        return named.make(options)

    def options(self) -> dict[str, Any]:
        """All options that were recorded."""
        return {**super().options(), **(self.model_extra or {})}

    @property
    def scored_steps(self) -> slice:
        """The steps that count in the metrics."""
        return self.preparation.scored_steps

    @property
    def target_scaling(self) -> Scaling | None:
        """The scaling of regression targets."""
        return self.preparation.target_scaling

    @cached_property
    def preparation(self) -> Preparation:
        """The preprocessing, which `reopened` sets."""
        raise self._unavailable()

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Raise an error that says how to get the data."""
        raise self._unavailable()

    def is_here(self) -> bool:
        """The data is never here."""
        return False

    def load(self) -> Parts:
        """Raise an error that says how to get the data."""
        raise self._unavailable()

    def _unavailable(self) -> DataError:
        return DataError(
            f"the data of the task {self.name!r} is not in the run directory: name the file again, and it is executed: "
            f"--task {self.name}"
        )
