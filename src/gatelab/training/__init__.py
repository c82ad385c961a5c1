"""Training: one loop that a person can read, that can be interrupted anywhere and resumes bit for bit."""

from gatelab.training.evaluation import evaluate
from gatelab.training.loop import train_in_memory
from gatelab.training.recorder import Outcome, train
from gatelab.training.run import Run
from gatelab.training.spec import ModelSpec, OptimizationSpec, RunSpec, TrainingSpec
from gatelab.training.trained import Trained

__all__ = [
    "ModelSpec",
    "OptimizationSpec",
    "Outcome",
    "Run",
    "RunSpec",
    "Trained",
    "TrainingSpec",
    "evaluate",
    "train",
    "train_in_memory",
]  # fmt: skip
