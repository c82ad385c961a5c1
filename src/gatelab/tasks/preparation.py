"""Preprocessing of raw sequences and decoding of the model's output, as plain data that a run keeps."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from gatelab.data.reading import LabelType, Reading
from gatelab.errors import DataError, GatelabError
from gatelab.record import Record
from gatelab.tasks.examples import Differences, Encoding, Floats, Pixels, TokenIndices
from gatelab.tasks.sampling import stream
from gatelab.tasks.scaling import Scaling
from gatelab.tasks.series import differenced

Names = tuple[str, ...]


class Preparation(Record):
    """How raw sequences are encoded for a model, and how its output is decoded."""

    kind: Literal["numbers", "image", "tokens"]
    input_size: int = Field(ge=1)  # D
    steps: int = Field(ge=1)  # T in training: the longest sequence, or the window of a series
    header: bool | None = None  # of a CSV file: the option `header` of the task
    columns: Names = ()  # names of the D features; in a forecast, target columns come first
    scaling: Scaling | None = None  # per column of numbers; one for all pixels of images
    vocabulary: Names = ()  # of tokens
    text: Literal["characters", "bytes"] | None = None  # what the tokens of a text are
    side: int | None = Field(None, ge=1)  # of images
    order: Literal["rows", "pixels", "permuted"] = "rows"
    noise_pad: int = Field(0, ge=0)  # steps of noise appended to an image
    per_step: bool = False
    forecasts: bool = False  # whether the target at a step is the next value
    classes: Names | None = None
    label_type: LabelType = "text"
    output_size: int = Field(ge=1)
    target_scaling: Scaling | None = None
    differenced: bool = False  # of a series: target columns are changes from the previous step
    scored_from: int | None = None  # with a target at every step: the steps that count in the metrics
    scored_to: int | None = None
    reading: Reading | None = None  # of user data: how files are read, if not by default

    @model_validator(mode="after")
    def _consistent(self) -> Preparation:
        sizes = {"columns": len(self.columns) or self.input_size, "vocabulary": len(self.vocabulary) or self.input_size}
        if self.scaling is not None and self.kind == "numbers":
            sizes["scaling"] = len(self.scaling.mean)
        if mismatched := [name for name, size in sizes.items() if size != self.input_size]:
            raise GatelabError(f"{mismatched[0]} does not fit input_size {self.input_size}")
        if self.classes is not None and len(self.classes) != self.output_size:
            raise GatelabError(f"{len(self.classes)} classes do not fit output_size {self.output_size}")
        if self.target_scaling is not None and len(self.target_scaling.mean) != self.output_size:
            raise GatelabError(f"target_scaling does not fit output_size {self.output_size}")
        if self.differenced and not (self.forecasts and self.target_scaling is not None):
            raise GatelabError("differenced is for forecasts of a series only")
        if self.text is not None and self.kind != "tokens":
            raise GatelabError("text is for tokens only")
        if (self.kind == "image") != (self.side is not None) or (self.kind == "tokens") != bool(self.vocabulary):
            raise GatelabError("expected side for images only, and vocabulary for tokens only")
        return self

    def document(self) -> dict[str, Any]:
        """The preparation as JSON."""
        return self.model_dump(mode="json", exclude={"reading"} if self.reading is None else None)

    @property
    def encoding(self) -> Encoding:
        """The encoding of stored sequences, as in training."""
        if self.kind == "tokens":
            return TokenIndices()
        if self.kind == "image" and self.scaling is not None:
            return Pixels(self.scaling)
        return Differences(self.no_change) if self.differenced else Floats()

    @property
    def no_change(self) -> tuple[float, ...]:
        """The scaled value of a change of 0, for each differenced column."""
        assert self.target_scaling is not None
        zeros = self.target_scaling.apply(np.zeros(self.output_size))
        return tuple(zeros.tolist())

    def encode(self, values: np.ndarray) -> Tensor:
        """Encode raw sequences, numbers (N, T, D) or tokens (N, T), as the model's input."""
        if self.kind == "numbers":
            values = differenced(values, self.output_size) if self.differenced else values
            scaled = values.astype(np.float32) if self.scaling is None else self.scaling.apply(values)
            return torch.from_numpy(np.ascontiguousarray(scaled))
        encoded = self.encoding(torch.from_numpy(np.ascontiguousarray(values)), torch.arange(len(values)))
        return torch.cat([encoded, self._noise(len(values))], 1) if self.noise_pad else encoded

    def _noise(self, count: int) -> Tensor:
        """The noise after new images, the same for all: the noise of training belongs to the training images."""
        noise = stream(0, "noise of new images").standard_normal((1, self.noise_pad, self.input_size))
        return torch.from_numpy(noise.astype(np.float32)).expand(count, -1, -1)

    def decode(self, output: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Convert the output (…, K) to the units of the data; `inputs` (…, D) are the raw values at the same steps."""
        if self.target_scaling is None:
            return output.astype(np.float64)
        values = self.target_scaling.undo(output.astype(np.float64))
        return values + inputs[..., : self.output_size] if self.differenced else values

    @property
    def labels(self) -> np.ndarray | None:
        """The class labels, in the type of the data; None for regression."""
        if self.classes is None or self.label_type == "text":
            return None if self.classes is None else np.array(self.classes)
        try:
            if self.label_type == "boolean":
                return np.array([{"False": False, "True": True}[name] for name in self.classes])
            return np.array([int(name) for name in self.classes])
        except (KeyError, ValueError, OverflowError):
            raise DataError(f"the classes {', '.join(self.classes[:5])} are not of type {self.label_type}") from None

    @property
    def scored_steps(self) -> slice:
        """The steps that count in the metrics."""
        return slice(self.scored_from, self.scored_to)
