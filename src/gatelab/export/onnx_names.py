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
    preparation = network.preparation
    about = {
        "cell": network.cell.name,
        "equations": network.cell.text(),
        "carried": json.dumps(_carried(network)),
    }
    if network.classes is not None:
        about["classes"] = json.dumps(network.classes, ensure_ascii=False)
    if preparation is not None and preparation.columns:
        about["columns"] = json.dumps(preparation.columns, ensure_ascii=False)
    if preparation is not None and preparation.vocabulary:
        about["vocabulary"] = json.dumps(preparation.vocabulary, ensure_ascii=False)
    return about


def _carried(network: Network) -> dict[str, dict[str, str]]:
    """Every carried input: the output that it is in the next call, and what it is."""
    extra = {
        "total": "sum of the outputs so far",
        "before": "the input of the step before",
        "steps": "number of steps so far",
    }
    meanings = {network.extra(name): meaning for name, meaning in extra.items()}
    return {
        name: {"next": following, "meaning": meanings.get(name, f"state {name} of each layer, (L, B, H)")}
        for name, following in next_names(network).items()
    }
