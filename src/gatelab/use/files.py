"""Predictions for people's own files, of any kind that can be trained on, with or without labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from gatelab.errors import DataError
from gatelab.tasks import own, readers, stamps, tables
from gatelab.tasks.files import TABLES
from gatelab.tasks.preparation import Preparation
from gatelab.use import inputs
from gatelab.use.inputs import Sequences
from gatelab.use.trained import Trained


@dataclass(frozen=True)
class Data:
    """What a file holds: sequences with their names, and the right answers if it has them."""

    sequences: Sequences
    names: list[str]
    labels: list[str] | np.ndarray | None = None  # classes by name, or numbers


@dataclass(frozen=True)
class Predictions:
    """A table of predictions, and how good they are where that can be known."""

    titles: list[str]
    rows: list[list[Any]]
    scores: dict[str, float] = field(default_factory=dict)
    note: str = ""


def predict(trained: Trained, path: Path, proba: bool = False) -> Predictions:
    """An answer for each sequence of a file or folder; of a series, for each of its steps."""
    if proba and trained.classes is None:
        raise ValueError("--proba is for classes, and this model answers with numbers: leave it out")
    if trained.preparation.forecasts:
        return _of_series(trained, path)
    data = read(path, trained.preparation)
    inputs.refuse_gaps(data.sequences, trained.preparation)
    output = trained.output(data.sequences.values, data.sequences.lengths)
    if trained.preparation.per_step:
        data, output = _step_by_step(data, output)
    return _table(trained, data, output, proba)


def read(path: Path, preparation: Preparation) -> Data:
    """The sequences of a file or folder."""
    if path.is_dir():
        return _folder(path, preparation)
    if not path.is_file():
        raise DataError(
            f"there is no file or folder {path}: expected a table, an .npy or .npz, or a folder of sequences"
        )
    if path.suffix.lower() == ".npz":
        return _npz(path, preparation)
    if path.suffix.lower() in (*TABLES, ".npy"):
        sequences, _ = readers.read_sequences([path], _columns(preparation))
        return Data(_checked(path, sequences, preparation), [path.name])
    raise DataError(f"{path} ends in {path.suffix!r}: expected {', '.join(TABLES)}, .npy, .npz, or a folder")


def _columns(preparation: Preparation) -> tuple[str, ...]:
    """The columns of training, where they have names."""
    counted = tuple(str(i + 1) for i in range(preparation.input_size))
    return () if preparation.columns in ((), counted) else preparation.columns


def _checked(path: Path, given: Any, preparation: Preparation, lengths: Any = None) -> Sequences:
    try:
        return inputs.read(given, preparation, lengths)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def _npz(path: Path, preparation: Preparation) -> Data:
    arrays = readers.read_npz(path)
    if "X" not in arrays:
        raise DataError(
            f"{path} has the arrays {', '.join(arrays) or 'none'}: expected X, and y and lengths if there are any"
        )
    X = arrays["X"]
    if X.ndim < 2 or not len(X):
        raise DataError(f"{path}: X has the shape {X.shape}: expected sequences, (N, T, D)")
    lengths = own.npz_lengths(path, arrays, X)
    sequences = _checked(path, X, preparation, lengths)
    if sequences.single:  # of shape (N, T) it would be (T, D) elsewhere; in a file there are always several
        shape = f"expected ({len(X)}, T, {preparation.input_size})"
        raise DataError(f"{path}: X has the shape {X.shape}: {shape}")
    return Data(sequences, [str(i) for i in range(len(X))], _npz_labels(path, arrays.get("y"), sequences, preparation))


def _npz_labels(path: Path, y: np.ndarray | None, X: Sequences, preparation: Preparation) -> Any:
    """The right answers: classes by name, or numbers (N, K) or (N, T, K)."""
    if y is None:
        return None
    N, T, K = *X.values.shape[:2], preparation.output_size
    per_step, classes = preparation.per_step, preparation.classes is not None
    shapes: list[tuple[int, ...]] = [(N, T) if per_step else (N,)] if classes or K == 1 else []
    shapes += [] if classes else [(N, T, K) if per_step else (N, K)]
    if y.shape not in shapes or (not classes and (y.dtype.kind not in "iuf" or not np.isfinite(y).all())):
        expected = " or ".join(map(str, shapes))
        what = "classes" if classes else "finite numbers"
        raise DataError(f"{path}: y is {y.dtype} of shape {y.shape}: expected {what} of shape {expected}, or no y")
    if not classes:
        return y.astype(np.float64).reshape(N, *((T, K) if per_step else (K,)))
    names = [c.decode(errors="replace") if isinstance(c, bytes) else str(c) for c in y.ravel()]
    return [names[i * T : (i + 1) * T] for i in range(N)] if per_step else names


def _folder(path: Path, preparation: Preparation) -> Data:
    """A folder of sequences, or of folders whose names are the classes."""
    folders = sorted(f for f in path.iterdir() if f.is_dir() and not f.name.startswith("."))
    if files := readers.sequence_files(path):
        labels = None
    else:
        pairs = [(folder.name, file) for folder in folders for file in readers.sequence_files(folder)]
        files, labels = [file for _, file in pairs], [name for name, _ in pairs]
    if not files:
        raise DataError(f"{path} has no sequences ({', '.join(readers.SEQUENCES)}), nor folders of them")
    sequences, _ = readers.read_sequences(files, _columns(preparation))
    names = [str(file.relative_to(path)) for file in files]
    if preparation.classes is None or preparation.per_step:
        labels = None  # the folders mean something else
    return Data(_checked(path, sequences, preparation), names, labels)


def _step_by_step(data: Data, output: np.ndarray) -> tuple[Data, np.ndarray]:
    """Answers at every step, each a row of its own."""
    N, T = output.shape[:2]
    ends = np.full(N, T) if data.sequences.lengths is None else data.sequences.lengths
    inside = np.arange(T) < ends[:, None]
    names = [f"{name}, step {step}" for name, end in zip(data.names, ends, strict=True) for step in range(end)]
    labels = data.labels
    if isinstance(labels, list):
        labels = [label for row, end in zip(labels, ends, strict=True) for label in row[:end]]
    elif labels is not None:
        labels = labels[inside]
    return Data(data.sequences, names, labels), output[inside]


def _table(trained: Trained, data: Data, output: np.ndarray, proba: bool) -> Predictions:
    if trained.preparation.classes is None:
        return _table_of_numbers(data, trained.preparation.decode(output, np.empty(0)))
    classes, labels = trained.preparation.classes, data.labels
    said = [classes[place] for place in output.argmax(-1)]
    shares = softmax(output.astype(np.float64), -1)
    titles = ["sequence", "predicted", *([f"p({name})" for name in classes] if proba else ["p"])]
    rows = [[*row, *(p if proba else [p.max()])] for *row, p in zip(data.names, said, shares, strict=True)]
    if labels is None:
        return Predictions(titles, rows)
    right = [str(label) for label in labels]
    strange = sorted(set(right) - set(classes))
    note = f"labels that the model does not know count as wrong: {', '.join(strange[:5])}" if strange else ""
    rows = [[*row, label] for row, label in zip(rows, right, strict=True)]
    return Predictions([*titles, "true"], rows, _shares(right, said), note)


def _table_of_numbers(data: Data, values: np.ndarray) -> Predictions:
    count = values.shape[-1]
    columns = ["predicted"] if count == 1 else [f"predicted {i + 1}" for i in range(count)]
    rows = [[name, *row] for name, row in zip(data.names, values, strict=True)]
    if not isinstance(data.labels, np.ndarray):
        return Predictions(["sequence", *columns], rows)
    rows = [[*row, *right] for row, right in zip(rows, data.labels, strict=True)]
    titles = ["sequence", *columns, *(column.replace("predicted", "true") for column in columns)]
    return Predictions(titles, rows, _errors(values, data.labels))


def _shares(right: list[str], said: list[str]) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    precision, recall, f1, _ = precision_recall_fscore_support(right, said, average="macro", zero_division=0)
    return {
        "accuracy": float(accuracy_score(right, said)),
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
    }


def _errors(said: np.ndarray, right: np.ndarray) -> dict[str, float]:
    error = said - right
    return {"mse": float(np.square(error).mean()), "mae": float(np.abs(error).mean())}


def _of_series(trained: Trained, path: Path) -> Predictions:
    """At each step of a series what was predicted for it, from a window that ends one step before."""
    if path.suffix.lower() not in TABLES or not path.is_file():
        raise DataError(f"{path} is no table: expected a series ({', '.join(TABLES)}), as the model was trained on")
    prepared = trained.preparation
    table = tables.read_table(path, prepared.header)
    values = table.pick(prepared.columns)
    if len(values) < 2:
        raise DataError(f"{path} has {len(values)} line: expected two at least, one to read and one to predict")
    K = prepared.output_size
    said, right = prepared.decode(_next_values(trained, values[:-1]), values[:-1]), values[1:, :K]
    names = [str(line) for line in table.lines[1:]]
    title = "line"
    if table.stamps is not None and len(table.stamps) == len(values):
        names, title = stamps.shown(table.stamps)[1:], "time"
    columns = prepared.columns[:K]
    rows = [[name, *a, *b] for name, a, b in zip(names, said, right, strict=True)]
    scores = _errors(said, right) | {"mae of the persistence baseline": float(np.abs(right - values[:-1, :K]).mean())}
    return Predictions([title, *(f"predicted {c}" for c in columns), *columns], rows, scores)


def _next_values(trained: Trained, values: np.ndarray) -> np.ndarray:
    """(S, D) → (S, K): the model's output after each step, from as many steps before it as a window has."""
    window = trained.preparation.steps
    first: np.ndarray = trained.output(values[None, :window])[0]  # of the first window every step
    if len(values) <= window:
        return first
    rest = np.lib.stride_tricks.sliding_window_view(values[1:], window, 0).transpose(0, 2, 1)  # (S − window, window, D)
    found = [trained.output(rest[start : start + 4096])[:, -1] for start in range(0, len(rest), 4096)]
    return np.concatenate([first, *found])
