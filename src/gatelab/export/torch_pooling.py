"""Pooling in the file of an export to PyTorch: from `values`, the outputs (B, T, F), to what the head reads."""

from __future__ import annotations

from gatelab.export.network import Network
from gatelab.export.torch_lines import quoted


def whole(network: Network) -> tuple[list[str], str]:
    """Pooling over whole sequences: statements, and the expression of the features."""
    H = network.hidden_size
    if network.read == "attention":
        return ["weights = torch.softmax(values @ self.query, 1)  # (B, T)"], "(weights.unsqueeze(2) * values).sum(1)"
    last = f"torch.cat([values[:, -1, :{H}], values[:, 0, {H}:]], 1)" if network.bidirectional else "values[:, -1]"
    mean, largest = "values.mean(1)", "values.amax(1)"
    both = f"torch.cat([{mean}, {largest}], 1)"
    return [], {"last": last, "mean": mean, "max": largest, "mean+max": both, "steps": "values"}[network.read]


def continued(network: Network) -> tuple[list[str], dict[str, str], str]:
    """Pooling that continues a state: statements, what they add to the state, and the expression of the features."""
    old = {name: f"state[{quoted(network.extra(name))}]" for name in network.extras}
    lines, new = [], {}
    if "steps" in old:
        lines.append(f"steps = {old['steps']} + x.shape[1]")
        new["steps"] = "steps"
    if network.read == "attention":
        lines += [
            "scores = values @ self.query  # (B, T)",
            *_larger("score", "scores.amax(1, keepdim=True)", old["score"], f"{old['weight']} > 0"),
            "weights = torch.exp(scores - score)  # relative to the largest one",
            f"earlier = torch.exp(torch.clamp({old['score']} - score, max=0.0))",
            f"weight = {old['weight']} * earlier + weights.sum(1, keepdim=True)",
            f"total = {old['total']} * earlier + (weights.unsqueeze(2) * values).sum(1)",
        ]
        return lines, {**new, "total": "total", "weight": "weight", "score": "score"}, "total / weight"
    if "total" in old:
        lines.append(f"total = {old['total']} + values.sum(1)")
        new["total"] = "total"
    if "largest" in old:
        lines += _larger("largest", "values.amax(1)", old["largest"], f"{old['steps']} > 0")
        new["largest"] = "largest"
    both = "torch.cat([total / steps, largest], 1)"
    reads = {"last": "values[:, -1]", "mean": "total / steps", "max": "largest", "mean+max": both, "steps": "values"}
    return lines, new, reads[network.read]


def _larger(name: str, here: str, before: str, is_continued: str) -> list[str]:
    """The larger of a value of this piece and an earlier one, if there is one."""
    return [
        f"{name} = {here}",
        f"{name} = torch.where({is_continued}, torch.maximum({before}, {name}), {name})",
    ]
