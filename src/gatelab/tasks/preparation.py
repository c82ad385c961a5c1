"""All that lies between raw input and a model, and between its output and an answer: plain data that a run keeps."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from gatelab.errors import DataError
from gatelab.tasks.chance import stream
from gatelab.tasks.examples import Differences, Encoding, Floats, OneHot, Pixels
from gatelab.tasks.series import Scaling, differenced

Names = tuple[str, ...]


class Numbers(BaseModel):
    """What is subtracted from each column, and what it is divided by then."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, scaling: Scaling) -> Numbers:
        return cls(mean=tuple(scaling.mean.tolist()), deviation=tuple(scaling.deviation.tolist()))

    def scaling(self) -> Scaling:
        return Scaling(np.array(self.mean), np.array(self.deviation))

    @model_validator(mode="after")
    def _can_be_undone(self) -> Numbers:
        if len(self.mean) != len(self.deviation) or not all(value > 0 for value in self.deviation):
            raise ValueError("expected as many deviations as means, all above 0")
        return self


class Preparation(BaseModel):
    """How raw sequences become what a model reads, and what its output means."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["numbers", "image", "tokens"]
    input_size: int = Field(ge=1)  # D
    steps: int = Field(ge=1)  # T of training: the longest sequence, or the window of a series
    header: bool | None = None  # of a CSV file: whether its first line names the columns, if that was said
    columns: Names = ()  # what the D numbers of a step are called; those that are forecast come first
    scaling: Numbers | None = None  # of numbers by column, of images one for all
    vocabulary: Names = ()  # of tokens
    side: int | None = Field(None, ge=1)  # of images
    order: Literal["rows", "pixels", "permuted"] = "rows"
    noise_pad: int = Field(0, ge=0)  # steps of noise after an image
    per_step: bool = False
    forecasts: bool = False  # whether the answer at a step is what comes next
    classes: Names | None = None
    label_type: Literal["text", "integer", "boolean"] = "text"  # of the classes, as the data had them
    output_size: int = Field(ge=1)
    target_scaling: Numbers | None = None
    differenced: bool = False  # of a series: the columns to forecast are changes from the step before
    scored_from: int | None = None  # where every step has an answer: the steps by which it is judged
    scored_to: int | None = None

    @classmethod
    def read(cls, document: Any, source: str) -> Preparation:
        """From a file, or an error that says what is wrong with it."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            wrong = error.errors()[0]
            where = ".".join(map(str, wrong["loc"]))
            raise DataError(f"{source} cannot be read: {where}: {wrong['msg']}") from None

    @model_validator(mode="after")
    def _fits(self) -> Preparation:
        sizes = {"columns": len(self.columns) or self.input_size, "vocabulary": len(self.vocabulary) or self.input_size}
        if self.scaling is not None and self.kind == "numbers":
            sizes["scaling"] = len(self.scaling.mean)
        if wrong := [name for name, size in sizes.items() if size != self.input_size]:
            raise ValueError(f"{wrong[0]} does not fit input_size {self.input_size}")
        if self.classes is not None and len(self.classes) != self.output_size:
            raise ValueError(f"{len(self.classes)} classes do not fit output_size {self.output_size}")
        if self.target_scaling is not None and len(self.target_scaling.mean) != self.output_size:
            raise ValueError(f"target_scaling does not fit output_size {self.output_size}")
        if self.differenced and not (self.forecasts and self.target_scaling is not None):
            raise ValueError("only a series that is forecast can be differenced")
        if (self.kind == "image") != (self.side is not None) or (self.kind == "tokens") != bool(self.vocabulary):
            raise ValueError("an image has a side, tokens have a vocabulary, and nothing else has")
        return self

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @property
    def encoding(self) -> Encoding:
        """What turns stored rows into floats, the same as in training."""
        if self.kind == "tokens":
            return OneHot(self.input_size)
        if self.kind == "image" and self.scaling is not None:
            return Pixels(self.scaling.mean[0], self.scaling.deviation[0])
        return Differences(self.no_change) if self.differenced else Floats()

    @property
    def no_change(self) -> tuple[float, ...]:
        """A change of 0 in each differenced column, as the scaling has it."""
        assert self.target_scaling is not None
        zeros = self.target_scaling.scaling().apply(np.zeros(self.output_size))
        return tuple(zeros.tolist())

    def encode(self, values: np.ndarray) -> Tensor:
        """Raw sequences as the model reads them: numbers (N, T, D), or tokens (N, T)."""
        if self.kind == "numbers":
            values = differenced(values, self.output_size) if self.differenced else values
            scaled = values.astype(np.float32) if self.scaling is None else self.scaling.scaling().apply(values)
            return torch.from_numpy(np.ascontiguousarray(scaled))
        encoded = self.encoding(torch.from_numpy(np.ascontiguousarray(values)), torch.arange(len(values)))
        return torch.cat([encoded, self._noise(len(values))], 1) if self.noise_pad else encoded

    def _noise(self, count: int) -> Tensor:
        """The same for all new images: the noise of training belongs to the images of training."""
        drawn = stream(0, "noise of new images").standard_normal((1, self.noise_pad, self.input_size))
        return torch.from_numpy(drawn.astype(np.float32)).expand(count, -1, -1)

    def decode(self, output: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """A model's output (…, K) in the units of the data; `inputs` (…, D) are the raw values that it followed."""
        if self.target_scaling is None:
            return output.astype(np.float64)
        values = self.target_scaling.scaling().undo(output.astype(np.float64))
        return values + inputs[..., : self.output_size] if self.differenced else values

    @property
    def labels(self) -> np.ndarray | None:
        """The classes, as the data had them."""
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
        return slice(self.scored_from, self.scored_to)
