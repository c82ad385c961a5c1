"""Text from a model of text: its own predictions, fed back one token at a time."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from scipy.special import softmax

from gatelab.errors import GatelabError
from gatelab.models import StepPredictor
from gatelab.tasks.sampling import stream
from gatelab.tasks.text import encode
from gatelab.training.process import denormals_flushed

if TYPE_CHECKING:
    from gatelab.engine.recurrent import State
    from gatelab.use.trained_model import TrainedModel

LONGEST = 10_000_000  # characters of a sample; a mistyped length would fill the terminal or the disk for days
STARTS = ("\n", " ")  # what a text begins after, if nothing else is given


def sample(
    trained: TrainedModel, length: int = 500, *, temperature: float = 0.8, prompt: str = "", seed: int = 0
) -> Iterator[str]:
    """Yield `length` characters (or the text of as many bytes) that continue the prompt.

    Probabilities are those of the model to the power of 1 / temperature: 1 samples from the model, lower values prefer
    what is likely, 0 always takes the likeliest.
    """
    prepared = trained.preparation
    if prepared.text is None:
        raise GatelabError(
            f"{trained.run.path} is a model of the task {trained.run.spec().task.name!r}: expected one of the task "
            "'text'; use gatelab predict, or gatelab forecast for a series"
        )
    if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= LONGEST:
        raise GatelabError(f"length is {length!r}: expected an integer from 1 to {LONGEST:,}")
    if not 0 <= temperature < math.inf:
        raise GatelabError(f"temperature is {temperature!r}: expected a number of at least 0")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise GatelabError(f"seed is {seed!r}: expected an integer of at least 0")
    start = prompt or next((start for start in STARTS if start in prepared.vocabulary), "")
    tokens = encode(start, prepared.vocabulary, prepared.text) if start else np.zeros(1, np.int64)
    return _generated(trained, tokens, length, temperature, stream(seed, "sample"))


def _generated(
    trained: TrainedModel, tokens: np.ndarray, length: int, temperature: float, random: np.random.RandomState
) -> Iterator[str]:
    model, prepared = cast(StepPredictor, trained.module), trained.preparation
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # a character may be several bytes
    x, state = torch.from_numpy(tokens)[None], cast("State | None", None)
    for _ in range(length):
        with torch.no_grad(), denormals_flushed():
            scores, state = model.process(x, None) if state is None else model.step(x, state)
        token = _draw(scores.flatten(0, -2)[-1].double().numpy(), temperature, random)
        name = prepared.vocabulary[token]
        yield name if prepared.text == "characters" else decoder.decode(_byte(name))
        x = torch.tensor([token])
    if rest := decoder.decode(b"", final=True):
        yield rest


def _draw(scores: np.ndarray, temperature: float, random: np.random.RandomState) -> int:
    """A random token; the uniform number is drawn in any case, so that temperatures can be compared."""
    place = random.uniform()
    if temperature == 0:
        return int(scores.argmax())
    with np.errstate(over="ignore"):  # tiny temperatures take the likeliest token
        shares = softmax(np.clip((scores - scores.max()) / temperature, -1e300, 0))
    drawn = int(np.searchsorted(np.cumsum(shares), place))
    return min(drawn, len(shares) - 1)  # the shares may add up to a little less than 1


def _byte(name: str) -> bytes:
    return name.encode() if len(name) == 1 else bytes([int(name[2:], 16)])
