"""What an ONNX file calls its inputs and outputs, and what it says about itself."""

from __future__ import annotations

import json

from gatelab.export.network import Network


def input_name(network: Network) -> str:
    """The name of the sequences among the inputs: x, unless a state is called so."""
    return _free("x", set(network.carried))


def answer_name(network: Network) -> str:
    """The name of the answer: scores of classes, values, or the output of the layers."""
    name = "scores" if network.classes is not None else "output" if network.head is None else "values"
    return _free(name, {input_name(network), *network.carried})


def next_names(network: Network) -> dict[str, str]:
    """The names of the outputs that are the next call's inputs: h → h_next."""
    taken, names = {input_name(network), answer_name(network), *network.carried}, {}
    for name in network.carried:
        names[name] = _free(f"{name}_next", taken)
        taken.add(names[name])
    return names


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def metadata(network: Network) -> dict[str, str]:
    """What the file says about the network beside the graph."""
    about = {**network.about, "carried": _carried(network)}
    return {
        name: each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for name, each in about.items()
    }


def _carried(network: Network) -> dict[str, dict[str, str]]:
    """Every carried input: the output that it is in the next call, and what it is."""
    meanings = {network.extra(name): network.meaning(name) for name in network.extras}
    return {
        name: {"next": following, "meaning": meanings.get(name, f"state {name} of each layer, (L, B, H)")}
        for name, following in next_names(network).items()
    }
