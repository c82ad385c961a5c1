"""estimator.json in a run directory: the parameters of an estimator, and the learned state that a run does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from sklearn.base import BaseEstimator

from gatelab import sealed
from gatelab.errors import DataError
from gatelab.lang import Cell
from gatelab.training import Run
from gatelab.training.run import ESTIMATOR, no_run

SCHEMA = 1


class Learned(BaseModel):
    """What is learned beside the run."""

    model_config = ConfigDict(extra="forbid", strict=True)

    n_features_in_: int = Field(ge=1)
    fitted_on_columns_: bool  # whether X was 2-d
    feature_names_in_: list[str] | None = None
    label_type_: str | None = None  # of classes
    is_single_output_: bool | None = None  # of numbers


Estimator = TypeVar("Estimator", bound=BaseEstimator)


def write(estimator: BaseEstimator, folder: Path) -> None:
    """Write the file into a run directory."""
    parameters = {name: _plain(name, value) for name, value in estimator.get_params(deep=False).items()}
    learned = {name for name in Learned.model_fields if hasattr(estimator, name)}
    state = {name: _plain(name, getattr(estimator, name)) for name in learned}
    content = {"schema": SCHEMA, "estimator": type(estimator).__name__, "parameters": parameters, "state": state}
    sealed.write_json(folder / ESTIMATOR, content)


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON has it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if name == "class_weight" and isinstance(value, dict):  # JSON has no keys but text
        return [[_plain("", label), _plain("", weight)] for label, weight in value.items()]
    if isinstance(value, Cell):
        return None  # the run has its equations
    if name == "random_state" and not isinstance(value, (int, type(None))):
        return None
    return value


def read(path: Path, kind: type[Estimator]) -> Estimator:
    """The estimator with its parameters and the state that is not in the run."""
    run = Run(path)
    if not run.exists() or not run.file(ESTIMATOR).is_file():
        expected = f"a directory written by {kind.__name__}.save"
        if not run.exists():
            raise no_run(path, expected)
        raise DataError(f"{path} is a run of `gatelab train`, which gatelab.load reads; expected {expected}")
    content = sealed.read_json(run.file(ESTIMATOR))
    if content.get("schema") != SCHEMA or content.get("estimator") != kind.__name__:
        raise DataError(f"{path} holds a {content.get('estimator')}: expected a {kind.__name__}; use the former's load")
    try:
        parameters, state = content["parameters"], content["state"]
        if isinstance(parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(parameters["class_weight"])
        if parameters["cell"] is None:
            parameters["cell"] = run.cell.cell
        estimator: Estimator = kind(**parameters)
        learned = Learned.model_validate(state).model_dump(exclude_none=True)
        if "feature_names_in_" in learned:
            learned["feature_names_in_"] = np.array(learned["feature_names_in_"], dtype=object)
        vars(estimator).update(learned)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise sealed.damaged(path / ESTIMATOR, error) from error
    return estimator
