"""How numbers, lists and names look in text: one place for terminals, pages, tables, papers and file names."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import quote

PERCENT = ("accuracy", "precision", "recall", "f1")  # metrics that are shown in percent
BITS = ("bits_per_character", "bits_per_byte")  # the cross-entropy of text
SMALLER_IS_BETTER = ("loss", *BITS, "mse", "mae")
NAMES = {"f1": "F1", "mse": "MSE", "mae": "MAE", "best_epoch": "best epoch", "seconds_per_epoch": "s/epoch"} | {
    bits: bits.replace("_", " ") for bits in BITS
}
TITLES = {
    "bits_per_character": "bits per character", "bits_per_byte": "bits per byte",
    "accuracy": "accuracy, %", "precision": "precision, %", "recall": "recall, %", "f1": "F1, %", "loss": "loss",
    "mse": "MSE", "mae": "MAE", "best_epoch": "best epoch", "seconds_per_epoch": "s/epoch", "parameters": "parameters",
}  # fmt: skip
PLACES = {"best_epoch": 1, "seconds_per_epoch": 2}
WHITE_SPACE = {" ": "␣", "\n": "↵", "\t": "→", "\r": "←"}
LONGEST = 200  # bytes of a name: with what is put around it, 255 are the most that file systems take


def metric_name(metric: str) -> str:
    """A metric as it is called in a sentence."""
    return NAMES.get(metric, metric)


def scale(metric: str) -> int:
    """What a metric is multiplied by where it is drawn or listed."""
    return 100 if metric in PERCENT else 1


def number(metric: str, value: float) -> str:
    """A value for a table whose title has the unit."""
    if metric in PERCENT:
        return f"{100 * value:.2f}"
    if metric == "parameters":
        return f"{value:,.0f}"
    if metric in PLACES:
        return f"{value:.{PLACES[metric]}f}"
    return f"{value:.4f}" if 0.01 <= abs(value) < 1e5 or value == 0 else f"{value:.3g}"


def value(metric: str, value: float) -> str:
    """A value with its unit, for a sentence."""
    return f"{number(metric, value)} %" if metric in PERCENT else number(metric, value)


def named(metric: str, amount: float) -> str:
    """A metric and its value: accuracy 98.20 %."""
    return f"{metric_name(metric)} {value(metric, amount)}"


def difference(metric: str, value: float) -> str:
    """A difference of two values with its unit."""
    return with_minus(f"{100 * value:.2f} points" if metric in PERCENT else f"{value:.4g}")


def signed(metric: str, value: float) -> str:
    """A difference with its sign, for a table or an axis whose title has the unit."""
    return with_minus(f"{100 * value:+.2f}" if metric in PERCENT else f"{value:+.3g}")


def with_minus(number: str) -> str:
    """The same number with a typographic minus; a zero has no sign."""
    if not any(digit in number for digit in "123456789"):
        return number.lstrip("+-")
    return f"−{number[1:]}" if number.startswith("-") else number


def p_number(p: float) -> str:
    """A p value for a table."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def p_value(p: float) -> str:
    """A p value for a sentence: p = 0.012, or p < 0.001."""
    return f"p = {p_number(p)}".replace("= <", "<")


def mean_and_sd(metric: str, mean: float, sd: float | None, plus_minus: str = "±") -> str:
    """Mean ± standard deviation with as many places; what cannot vary has none."""
    text = number(metric, mean)
    if metric == "parameters" or sd is None:
        return text
    places = len(text.partition(".")[2])
    spread = number(metric, sd) if "e" in text else f"{scale(metric) * sd:.{places}f}"
    return f"{text} {plus_minus} {spread}"


def percent(share: float) -> str:
    """A probability: 90 %, 97.5 %."""
    return f"{100 * share:.10g} %"


def counted(count: int, thing: str) -> str:
    """1 seed, 5 seeds."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def listed(words: list[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def ranges(numbers: list[int]) -> str:
    """Increasing numbers as text: 1, 3 to 5 and 9."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    parts = [[str(one) for one in run] if len(run) < 3 else [f"{run[0]} to {run[-1]}"] for run in found]
    return listed([text for part in parts for text in part])


def visible(token: str) -> str:
    """A token or class with symbols for white space, and dots for what cannot be printed."""
    if len(token) == 1:
        return WHITE_SPACE.get(token, token if token.isprintable() else "·")
    return "".join(sign if sign.isprintable() else "·" for sign in token)


def duration(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def file_name(name: str) -> str:
    """A model's name as a part of a file's name, without commas, folders or anything a shell would interpret."""
    safe = re.sub(r"[^\w.+=-]", lambda sign: quote(sign[0], safe="", errors="replace"), name.replace(",", "__"))
    if len(safe.encode()) <= LONGEST:
        return safe
    return f"{safe[: LONGEST // 8]}-{hashlib.sha256(safe.encode()).hexdigest()[:16]}"
