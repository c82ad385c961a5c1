"""What can be exported: a model or layer, a run, a fitted estimator, or a network that was exported to JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from torch import nn

from gatelab.export.json_file import read
from gatelab.export.network import Network, network_of_model
from gatelab.tasks.preparation import Preparation
from gatelab.training import Run


@runtime_checkable
class TrainedLike(Protocol):
    """A model of `gatelab.load`, whose package is none that this one imports."""

    module: nn.Module
    preparation: Preparation
    source: Any  # a run, or a training in memory


class Fitted(Protocol):
    """A fitted classifier or regressor of gatelab.sklearn; `run_.model` is its trained model."""

    run_: Any


Exportable = nn.Module | Run | TrainedLike | Fitted | Network | Path | str  # a path is a run directory, or a JSON file


def loaded(source: Exportable, name: str | None = None) -> tuple[Network, nn.Module | None]:
    """The network, and the model it is of, loaded once: a run that is training may replace its weights at any time."""
    if isinstance(source, (str, Path)):
        source = read(source) if Path(source).suffix == ".json" else Run(source)
    if isinstance(source, Network):
        return source if name is None else source.named(name), None
    if isinstance(source, Run):
        model = source.model()
        return network_of_model(model, name or source.path.resolve().name, source.preparation), model
    if isinstance(source, nn.Module):
        return network_of_model(source, name or "network"), source
    fitted: Any = getattr(source, "run_", None)  # of an estimator
    trained = source if fitted is None else fitted.model
    if not isinstance(trained, TrainedLike):
        return network_of_model(cast(nn.Module, source)), None  # says what is expected
    own_name = trained.source.path.resolve().name if isinstance(trained.source, Run) else "network"
    return network_of_model(trained.module, name or own_name, trained.preparation), trained.module


def network_of(source: Exportable, name: str | None = None) -> Network:
    """The network of a model, a layer, a run directory (with the weights of its best epoch), a fitted estimator or a
    JSON file.
    """
    return loaded(source, name)[0]
