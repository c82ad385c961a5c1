"""Predictions for user files of any kind that can be trained on, with or without targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from gatelab import floats
from gatelab.data import series_tables, sources, timestamps, wide_tables
from gatelab.data.formats import TABLES, read_table
from gatelab.data.formats.sequence_files import read_npz, read_sequence, sequence_of
from gatelab.data.learnable import class_order, label_texts
from gatelab.data.reading import Reading
from gatelab.data.sequences import Sequences
from gatelab.data.table import Table
from gatelab.errors import DataError, GatelabError, first_of
from gatelab.tasks.preparation import Preparation
from gatelab.use import inputs, text_files
from gatelab.use.trained_model import TrainedModel


@dataclass(frozen=True)
class PredictionTable:
    """A table of predictions, and metrics if targets are known."""

    titles: list[str]
    rows: list[list[Any]]
    scores: dict[str, float] = field(default_factory=dict)
    note: str = ""


def predict(trained: TrainedModel, path: Path, proba: bool = False) -> PredictionTable:
    """Predict for each sequence of a file or folder, or for each step of a series."""
    if proba and trained.classes is None:
        raise GatelabError("--proba is for classification, but this model predicts numbers: leave it out")
    if trained.preparation.text is not None:
        if proba:
            raise GatelabError("--proba is not for text, which has a row per character: leave it out")
        rows, scores = text_files.score(trained, path)
        return PredictionTable(["place", "true", "predicted", "p(true)"], rows, scores)
    if trained.preparation.forecasts:
        return _predict_series(trained, path)
    data = read(path, trained.preparation)
    try:
        inputs.check_finite(data, trained.preparation)
    except GatelabError as error:
        raise DataError(f"{path}: {error}") from None
    output = trained.output(data.values, data.lengths)
    answered = _by_step(data, output) if trained.preparation.per_step else Answered(data.names, data.targets, output)
    return _table(trained, answered, proba)


class Answered(NamedTuple):
    """What a prediction is about, its true value if that is known, and the output of the network."""

    names: Sequence[str]
    targets: np.ndarray | None
    output: np.ndarray


def read(path: Path, preparation: Preparation) -> Sequences:
    """Read the sequences of a file or folder the way the training data was read. Targets, if there are any, are names
    of classes or numbers.
    """
    if path.suffix.lower() == ".npz" and preparation.kind == "image":
        return _images(path, preparation)
    reading = reading_of(preparation)
    columns = _columns(preparation)
    table = None
    if path.suffix.lower() == ".npy" and path.is_file():
        sequence, _ = read_sequence(path, columns, reading.fill)
        return replace(_checked(str(path), [sequence], preparation), names=[path.name])
    if path.suffix.lower() in TABLES and path.is_file():
        table = read_table(path, preparation.header)
        layout = _layout(table, preparation)
        if layout is None:
            sequence = sequence_of(table, columns, reading.fill)
            return replace(_checked(str(path), [sequence], preparation), names=[path.name])
        reading = reading.resolved(layout=layout)
    is_tokens = preparation.kind == "tokens"
    if is_tokens and reading.layout == "long":
        columns = preparation.reading.columns if preparation.reading else ()
    if table is None:
        found = sources.read(path, reading, columns, is_tokens, False, preparation.classes)
    else:
        found = sources.from_table(table, reading, columns, is_tokens, False, preparation.classes)
    X, lengths = (found.rows(), None) if is_tokens else (found.values, found.lengths)
    checked = _checked(found.source, X, preparation, lengths)
    return replace(checked, names=found.names, targets=_targets(found, checked, preparation))


def reading_of(preparation: Preparation) -> Reading:
    """How files were read in training; the split of training does not matter for new files."""
    reading = preparation.reading or Reading()
    return reading.resolved(split="none", group=None, header=preparation.header)


def _layout(table: Table, preparation: Preparation) -> str | None:
    """The layout of a table with several sequences; None for one with the steps of a single sequence."""
    reading = preparation.reading or Reading()
    if reading.layout == "long":
        features = reading.columns or preparation.columns
        if reading.id not in table.names and set(table.names) != set(features):
            raise DataError(
                f"{table.path} has no column {reading.id!r}, which tells sequences apart as in training; its columns: "
                f"{first_of(table.names)}. A file with {first_of(features)} only is read as one sequence"
            )
        return "long" if reading.id in table.names else None
    univariate = preparation.kind == "numbers" and preparation.input_size == 1
    is_archive = wide_tables.looks_like_ucr(table) and wide_tables.is_clearly_ucr(table)
    return "wide" if reading.layout == "wide" or (univariate and is_archive) else None


def _columns(preparation: Preparation) -> tuple[str, ...]:
    """The columns of training, if they have names."""
    numbered = tuple(str(i + 1) for i in range(preparation.input_size))
    return () if preparation.columns in ((), numbered) else preparation.columns


def _checked(source: str, X: Any, preparation: Preparation, lengths: Any = None) -> Sequences:
    try:
        return inputs.read(X, preparation, lengths)
    except ValueError as error:
        raise DataError(f"{source}: {error}") from None


def _images(path: Path, preparation: Preparation) -> Sequences:
    arrays = read_npz(path)
    if "X" not in arrays:
        raise DataError(f"{path} has the arrays {first_of(arrays) or 'none'}: expected X, and optionally y")
    X = arrays["X"]
    images = _checked(str(path), X, preparation)
    if images.single:
        raise DataError(f"{path}: X has the shape {X.shape}: expected several images, (N, …)")
    found = replace(images, source=str(path), targets=arrays.get("y"))
    return replace(images, names=[str(i) for i in range(len(X))], targets=_targets(found, images, preparation))


def _targets(found: Sequences, X: Sequences, preparation: Preparation) -> np.ndarray | None:
    """The targets: names of classes, or numbers (N, K) or (N, T, K); None if the file has none."""
    y, path = found.targets, found.source
    if y is None or (found.classes is not None and preparation.classes is None):  # subfolders that are not classes
        return None
    N, T, K = *X.values.shape[:2], preparation.output_size
    per_step, classes = preparation.per_step, preparation.classes is not None
    if per_step and y.shape == (N,) and found.are_labels:
        return None
    shapes: list[tuple[int, ...]] = [(N, T) if per_step else (N,)] if classes or K == 1 else []
    shapes += [] if classes else [(N, T, K) if per_step else (N, K)]
    if y.shape not in shapes or (not classes and (y.dtype.kind not in "iuf" or not np.isfinite(y).all())):
        expected = " or ".join(map(str, shapes))
        kind = "labels" if classes else "finite numbers"
        raise DataError(f"{path}: y is {y.dtype} of shape {y.shape}: expected {kind} of shape {expected}, or no y")
    if not classes:
        return floats.floats(y, f"{path}: y").reshape(N, *((T, K) if per_step else (K,)))
    labels = y.ravel()
    if labels.dtype.kind == "f" and (labels % 1 == 0).all():
        labels = labels.astype(np.int64)  # classes that were written as floats
    names = np.array(label_texts(labels))
    if found.classes is not None:
        known, order = class_order(path, found.classes, labels)
        names = np.array(known)[order]
    return names.reshape(y.shape)


def _by_step(data: Sequences, output: np.ndarray) -> Answered:
    """One row per step."""
    names = [f"{name}, step {step}" for name, end in zip(data.names, data.ends, strict=True) for step in range(end)]
    inside = data.inside
    return Answered(names, None if data.targets is None else data.targets[inside], output[inside])


def _table(trained: TrainedModel, data: Answered, proba: bool) -> PredictionTable:
    output, classes = data.output, trained.preparation.classes
    if classes is None:
        return _regression_table(data, trained.preparation.decode(output, np.empty(0)))
    predicted = [classes[index] for index in output.argmax(-1)]
    probabilities = softmax(output.astype(np.float64), -1)
    titles = ["sequence", "predicted", *([f"p({name})" for name in classes] if proba else ["p"])]
    by_row = zip(data.names, predicted, probabilities, strict=True)
    rows = [[*row, *(p if proba else [p.max()])] for *row, p in by_row]
    if data.targets is None:
        return PredictionTable(titles, rows)
    true = [str(label) for label in data.targets]
    unknown = sorted(set(true) - set(classes))
    note = f"labels unknown to the model count as errors: {', '.join(unknown[:5])}" if unknown else ""
    rows = [[*row, label] for row, label in zip(rows, true, strict=True)]
    return PredictionTable([*titles, "true"], rows, _classification_metrics(true, predicted), note)


def _regression_table(data: Answered, values: np.ndarray) -> PredictionTable:
    count = values.shape[-1]
    suffixes = [""] if count == 1 else [f" {i + 1}" for i in range(count)]
    titles = ["sequence", *(f"predicted{suffix}" for suffix in suffixes)]
    rows = [[name, *row] for name, row in zip(data.names, values, strict=True)]
    if data.targets is None:
        return PredictionTable(titles, rows)
    rows = [[*row, *true] for row, true in zip(rows, data.targets, strict=True)]
    titles += [f"true{suffix}" for suffix in suffixes]
    return PredictionTable(titles, rows, _regression_metrics(values, data.targets))


def _classification_metrics(true: list[str], predicted: list[str]) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    precision, recall, f1, _ = precision_recall_fscore_support(true, predicted, average="macro", zero_division=0)
    return {
        "accuracy": float(accuracy_score(true, predicted)),
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
    }


def _regression_metrics(predicted: np.ndarray, true: np.ndarray) -> dict[str, float]:
    error = predicted - true
    return {"mse": float(np.square(error).mean()), "mae": float(np.abs(error).mean())}


def _predict_series(trained: TrainedModel, path: Path) -> PredictionTable:
    """Predict each step of a series from the window that ends one step before."""
    if path.suffix.lower() not in TABLES or not path.is_file():
        raise DataError(f"{path} is not a table: expected a series ({', '.join(TABLES)}), as in training")
    prepared = trained.preparation
    series = series_tables.read(path, prepared.columns, reading_of(prepared))
    values = series.values
    if len(values) < 2:
        raise DataError(f"{path} has {len(values)} row: expected at least two, one to read and one to predict")
    K = prepared.output_size
    predicted, true = prepared.decode(_next_values(trained, values[:-1]), values[:-1]), values[1:, :K]
    names = [] if series.lines is None else [str(line) for line in series.lines[1:]]
    title = "line"
    if series.stamps is not None and len(series.stamps) == len(values):
        names, title = timestamps.format_times(series.stamps)[1:], "time"
    columns = prepared.columns[:K]
    rows = [[name, *a, *b] for name, a, b in zip(names, predicted, true, strict=True)]
    persistence = float(np.abs(true - values[:-1, :K]).mean())
    scores = _regression_metrics(predicted, true) | {"mae of the persistence baseline": persistence}
    return PredictionTable([title, *(f"predicted {c}" for c in columns), *columns], rows, scores)


def _next_values(trained: TrainedModel, values: np.ndarray) -> np.ndarray:
    """The model's output after each step, (S, D) → (S, K): from a window of the training length, or from the
    start if the model was trained with its state carried along.
    """
    if trained.is_stream:
        return trained.stream_output(values)
    window = trained.preparation.steps
    first: np.ndarray = trained.output(values[None, :window])[0]  # every step of the first window
    if len(values) <= window:
        return first
    rest = np.lib.stride_tricks.sliding_window_view(values[1:], window, 0).transpose(0, 2, 1)  # (S − window, window, D)
    last = [trained.output(rest[start : start + 4096])[:, -1] for start in range(0, len(rest), 4096)]
    return np.concatenate([first, *last])
