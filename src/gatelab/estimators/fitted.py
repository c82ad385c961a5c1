"""A finished run, kept in memory: the files of its directory, and the model that they describe."""

from __future__ import annotations

import tempfile
from functools import cached_property
from pathlib import Path

from gatelab.disk import read_regular, whole_file
from gatelab.errors import GatelabError
from gatelab.training import Run
from gatelab.training.process import refuse_foreign
from gatelab.training.run import FILES
from gatelab.use.trained import TrainedModel


class FittedRun:
    """The files of a run directory by name. Pickled, it is these bytes alone: no open files, no paths, no code."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    @classmethod
    def read(cls, path: Path) -> FittedRun:
        """Read a run directory; links that lead out of it are refused."""
        run = Run(path)
        fitted = cls({name: read_regular(run.file(name)) for name in FILES if (path / name).is_file()})
        fitted.model = TrainedModel(path).double()
        return fitted

    def write(self, path: Path) -> None:
        """Write the run directory, which has to be new or empty."""
        if Run(path).exists():
            raise GatelabError(f"{path} holds a run already: expected a new or an empty directory")
        refuse_foreign(path)
        for name, content in self.files.items():
            with whole_file(path / name) as file:
                file.write(content)

    @cached_property
    def model(self) -> TrainedModel:
        """The model. It computes in double precision: a prediction must not depend on what else is predicted."""
        with tempfile.TemporaryDirectory(prefix="gatelab-run-") as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content)
            return TrainedModel(folder).double()

    def __getstate__(self) -> dict[str, dict[str, bytes]]:
        return {"files": self.files}
