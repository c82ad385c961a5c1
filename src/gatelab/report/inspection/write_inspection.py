"""The files of an inspection: the figures, and the page that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gatelab import style
from gatelab.analysis import Inspection
from gatelab.disk import write_text
from gatelab.errors import GatelabError
from gatelab.report.inspection import agreement, gates, memory, predictions
from gatelab.report.links import INSPECTION_PAGE, explorer_of
from gatelab.report.sections import PageSection, page
from gatelab.report.words import inspection as words
from gatelab.training.run import INSPECTION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = {
    "gates.png": "Every gate and state over time",
    "units.png": "Single units over time",
    "gate_values.png": "Distribution of the values of each gate",
    "sentence.png": "Gate and state of the units that encode number, word by word",
    "clamping.png": "Share of sentences whose verb flips",
    "memory.png": "State sensitivity by lag, and implied time constants",
    "eigenvalues.png": "Eigenvalues of the one-step Jacobian",
    "gradients.png": "Gradient norm by step",
    "predictions.png": "Test examples with predictions",
    "errors.png": "The worst errors",
    "confusion.png": "Confusion matrix",
    "numbers.png": "Predicted against true",
}


def write_inspection(inspection: Inspection, directory: Path) -> Path:
    """Pictures and page into a folder. Returns the page's path."""
    existing = [name for name in FILES if (directory / name).exists()]
    is_ours = (directory / INSPECTION_PAGE).is_file() or directory == inspection.subject.run.path / INSPECTION
    if existing and not is_ours:
        raise GatelabError(f"{directory} holds {existing[0]} and no inspection: choose another folder with --out")
    drawn = {name: figure for name, figure in _figures(inspection).items() if figure is not None}
    # Which marks the folder as an inspection.
    write_text(directory / INSPECTION_PAGE, "This inspection was not finished.\n")
    for name in FILES:
        (directory / name).unlink(missing_ok=True)  # of an earlier inspection, which may have had others
    for name, figure in drawn.items():
        style.save(figure, directory / name)
    run, cell = inspection.subject.run, inspection.subject.cell
    layers = inspection.subject.recurrent.num_layers
    where = f"layer {inspection.subject.layer} (of 0 to {layers - 1}), " if layers > 1 else ""
    status = run.manifest().status
    unfinished = "" if status == "done" else f" The run is not finished ({status})."
    facts = (
        f"gatelab inspect; {'/'.join(run.path.resolve().parts[-2:])}: weights of epoch {run.best_epoch()}, "
        f"{where}{inspection.subject.recurrent.hidden_size} units; single example: test example {inspection.sample}."
        f"{unfinished} {inspection.subject.note}"
    )
    title = f"Inside {cell.name} on {inspection.subject.task.short_name}"
    sections, explorers = list(_sections(inspection, drawn)), explorer_of(run.path, directory)
    write_text(directory / INSPECTION_PAGE, page(title, facts.strip(), sections, drawn, directory, explorers))
    return directory / INSPECTION_PAGE


def _figures(inspection: Inspection) -> dict[str, Figure | None]:
    sentences = inspection.agreement is not None
    return {
        "gates.png": gates.heat_maps(inspection),
        "units.png": gates.unit_lines(inspection),
        "gate_values.png": gates.values(inspection),
        "sentence.png": agreement.sentence(inspection) if sentences else None,
        "clamping.png": agreement.clamping(inspection) if sentences else None,
        "memory.png": memory.decay(inspection),
        "eigenvalues.png": memory.eigenvalues(inspection),
        "gradients.png": memory.gradients(inspection),
        "predictions.png": predictions.gallery(inspection),
        "errors.png": predictions.worst(inspection),
        "confusion.png": predictions.confusion(inspection),
        "numbers.png": predictions.predicted_against_true(inspection),
    }


def _sections(inspection: Inspection, drawn: dict[str, Figure]) -> list[PageSection]:
    def pictures(*names: str) -> dict[str, str]:
        return {name: FILES[name] for name in names if name in drawn}

    table = words.gate_table(inspection) if inspection.gates else []
    sections = [
        PageSection(
            "Gates over time",
            words.gates(inspection),
            pictures("gates.png", "units.png", "gate_values.png"),
            table,
            GATES,
        ),
        PageSection("State sensitivity", words.memory(inspection), pictures("memory.png"), note=MEMORY),
        PageSection("One-step Jacobian", words.spectrum(inspection), pictures("eigenvalues.png")),
        PageSection("Gradients", words.gradients(inspection), pictures("gradients.png"), note=GRADIENTS),
        PageSection(
            "Predictions",
            words.predictions(inspection),
            pictures("predictions.png", "errors.png", "confusion.png", "numbers.png"),
            note=PREDICTIONS,
        ),
    ]
    if inspection.agreement is not None:
        sections.insert(
            1,
            PageSection(
                "Subject-verb agreement", words.agreement(inspection), pictures("sentence.png", "clamping.png")
            ),
        )
    return sections


GATES = (
    "Every vector that the equations name is shown as a gate, the candidate too. Roles: a gate that keeps retains the "
    "old state at 1, one that writes overwrites it at 1, one that adds lets new content in at 1. Units are sorted from "
    "slow (top) to fast. Closed and open: the share of values within 0.05 of 0 and of 1. A unit is dead if the "
    "standard deviation of its state is below 1 % of the largest. The table and the histograms are over many test "
    "examples, the other figures show one."
)
MEMORY = (
    "State sensitivity is ‖∂s(T)/∂s(T−k)‖ / √n (Frobenius norm), where s is the full state of the layer (h and c of an "
    "LSTM): 1 at every lag for a state that is only retained. The implied time constant of a unit is −1 / ln of the "
    "mean share of its state that the gate retains per step."
)
GRADIENTS = (
    "L is the loss of one example; the derivative is total, through every later state. Where lengths differ, sequences "
    "are aligned at their last steps. h and c of an LSTM are shown separately; c at the last step reaches the loss "
    "only through h. Means are over a few validation examples."
)
PREDICTIONS = (
    "First examples of the test set, then the worst errors, sorted by the predicted probability of the wrong class or "
    "by the size of the error."
)
