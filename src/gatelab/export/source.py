"""What can be exported: a model or layer, a run directory, or a network that was exported to JSON."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from gatelab.export.json_file import read
from gatelab.export.network import Network, network_of_model
from gatelab.training import Run

Exportable = nn.Module | Run | Network | Path | str  # a path is a run directory, or a JSON file


def loaded(source: Exportable, name: str | None = None) -> tuple[Network, nn.Module | None]:
    """The network, and the model it is of, loaded once: a run that is training may replace its weights at any time."""
    if isinstance(source, (str, Path)):
        source = read(source) if Path(source).suffix == ".json" else Run(source)
    if isinstance(source, Network):
        return source if name is None else source.named(name), None
    if isinstance(source, Run):
        model = source.model()
        return network_of_model(model, name or source.path.resolve().name, source.preparation), model
    return network_of_model(source, name or "network"), source


def network_of(source: Exportable, name: str | None = None) -> Network:
    """The network of a model, a layer, a run directory (with the weights of its best epoch) or a JSON file."""
    return loaded(source, name)[0]
