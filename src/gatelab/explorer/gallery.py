"""A gallery: small runs of several tasks, an explorer of each, and a page that lists them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatelab.disk import write_text
from gatelab.explorer.write_page import filled, write_explorer
from gatelab.formatting import named
from gatelab.training import ModelSpec, OptimizationSpec, Run, RunSpec, TrainingSpec, train
from gatelab.training.run import EXPLORER

RUNS = "runs"  # the folder of the runs in the gallery's


@dataclass(frozen=True)
class Exhibit:
    """A run of the gallery; each trains for a few seconds."""

    name: str
    title: str
    words: str
    task: str
    cell: str = "gru"
    hidden_size: int = 24
    epochs: int = 8
    learning_rate: float = 0.01

    def spec(self) -> RunSpec:
        """How it is trained."""
        return RunSpec(
            task=self.task,
            model=ModelSpec(cell=self.cell, hidden_size=self.hidden_size),
            optimization=OptimizationSpec(learning_rate=self.learning_rate),
            training=TrainingSpec(num_epochs=self.epochs, batch_size=64),
        )


EXHIBITS = (
    Exhibit("digits_rows", "Digits by rows", "Draw a digit; the network reads it in 8 rows.", "digits", epochs=10),
    Exhibit(
        "digits_pixels",
        "Digits by pixels",
        "The same digits in 64 steps, one pixel each.",
        "digits:order=pixels",
        hidden_size=32,
        epochs=20,
    ),
    Exhibit(
        "agreement",
        "Subject-verb agreement",
        "Type a sentence; does it continue with was or were? Clamp a unit, and it flips.",
        "agreement:size=4000",
        hidden_size=16,
    ),
    Exhibit("recall", "Delayed recall", "Remember the first symbol until the cue.", "recall:delay=12", hidden_size=16),
    Exhibit("sine", "Noisy sine", "Drag the points of a series; the next value is predicted.", "sine", hidden_size=16),
)


def write_gallery(folder: Path) -> Path:
    """Train what is not trained yet, write all pages, and return the path of the first."""
    for exhibit in EXHIBITS:
        train(exhibit.spec(), folder / RUNS / exhibit.name)
        write_explorer([folder / RUNS / exhibit.name], folder / exhibit.name / EXPLORER)
    shown = [
        {
            "address": f"{exhibit.name}/{EXPLORER}",
            "title": exhibit.title,
            "words": exhibit.words,
            "facts": _facts(exhibit, Run(folder / RUNS / exhibit.name)),
        }
        for exhibit in EXHIBITS
    ]
    write_text(folder / "index.html", filled("gallery.html", exhibits=shown))
    return folder / "index.html"


def _facts(exhibit: Exhibit, run: Run) -> str:
    test = run.manifest().test
    name = "accuracy" if "accuracy" in test else "mse"
    return f"{exhibit.cell}, {exhibit.hidden_size} units, test {named(name, test[name])}"
