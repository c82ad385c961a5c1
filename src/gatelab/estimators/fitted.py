"""A finished run, kept in memory: the files of its directory, and the model that they describe."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gatelab.disk import read_regular, whole_file, whole_folder
from gatelab.training import Run
from gatelab.training.run import BEST, ESTIMATOR, FILES, MANIFEST, MODEL
from gatelab.use.trained import TrainedModel


@dataclass
class RunFiles:
    """The files of a run directory by name. Pickled, it is these bytes alone: no open files, no paths, no code."""

    files: dict[str, bytes]

    @cached_property
    def model(self) -> TrainedModel:
        """The model, loaded on first use."""
        with tempfile.TemporaryDirectory(prefix="gatelab-run-") as folder:
            self.write_into(Path(folder), sync=False)
            return self._loaded(Path(folder))

    def _loaded(self, path: Path) -> TrainedModel:
        return TrainedModel(path)

    def write_into(self, folder: Path, sync: bool = True) -> None:
        """Write the files into a directory."""
        for name, content in self.files.items():
            with whole_file(folder / name, sync=sync) as file:
                file.write(content)

    def __getstate__(self) -> dict[str, dict[str, bytes]]:
        return {"files": self.files}


class FittedRun(RunFiles):
    """The run of a classifier or regressor."""

    @classmethod
    def read(cls, path: Path) -> FittedRun:
        """Read a run directory; links that lead out of it are refused."""
        run = Run(path)
        fitted = cls({name: read_regular(run.file(name)) for name in FILES if (path / name).is_file()})
        fitted.model = fitted._loaded(path)
        return fitted

    def _loaded(self, path: Path) -> TrainedModel:
        """It computes in double precision: a prediction must not depend on what else is predicted."""
        return TrainedModel(path).double()

    def write(self, path: Path) -> None:
        """Write the run directory, which has to be new or empty, complete or not at all."""
        with whole_folder(path, MANIFEST, (ESTIMATOR, MODEL, BEST)) as made:
            self.write_into(made)
