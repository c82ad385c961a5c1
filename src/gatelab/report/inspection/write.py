"""All files of an inspection: the pictures, and the page that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gatelab import style
from gatelab.analysis import Inspection
from gatelab.disk import write_text
from gatelab.report.inspection import agreement, answers, gates, memory, words
from gatelab.report.sections import Section, page
from gatelab.training.run import INSPECTION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "inspect.html"
FILES = {
    "gates.png": "Every gate and state over time",
    "units.png": "Single units over time",
    "gate_values.png": "How the values of each gate are spread",
    "sentence.png": "Gate and state of the units that carry number, word by word",
    "clamping.png": "Share of sentences whose verb flips",
    "memory.png": "Decay of derivatives, and time constants",
    "eigenvalues.png": "Eigenvalues of one step",
    "gradients.png": "Length of the gradient by step",
    "answers.png": "Test examples with their answers",
    "mistakes.png": "The worst mistakes",
    "confusion.png": "What was taken for what",
    "numbers.png": "Answered against true",
}


def write_inspection(found: Inspection, directory: Path) -> Path:
    """Pictures and page into a folder. Returns the page's path."""
    there = [name for name in FILES if (directory / name).exists()]
    is_ours = (directory / PAGE).is_file() or directory == found.subject.run.path / INSPECTION
    if there and not is_ours:
        raise ValueError(f"{directory} holds {there[0]} and no inspection: choose another folder with --out")
    drawn = {name: figure for name, figure in _figures(found).items() if figure is not None}
    write_text(directory / PAGE, "This inspection was not finished.\n")  # and is known as ours from now on
    for name in FILES:
        (directory / name).unlink(missing_ok=True)  # of an earlier look, that may have had others
    for name, figure in drawn.items():
        style.save(figure, directory / name)
    run, cell = found.subject.run, found.subject.cell
    layers = found.subject.recurrent.num_layers
    where = f"layer {found.subject.layer} (of 0 to {layers - 1}), " if layers > 1 else ""
    status = run.manifest()["status"]
    unfinished = "" if status == "done" else f" The run is not finished ({status})."
    facts = (
        f"gatelab inspect; {'/'.join(run.path.resolve().parts[-2:])}: weights of epoch {run.best_epoch()}, "
        f"{where}"
        f"{found.subject.recurrent.hidden_size} units; test example {found.sample} where one is shown.{unfinished} "
        f"{found.subject.note}"
    )
    title = f"Inside {cell.name} on {found.subject.task.name}"
    write_text(directory / PAGE, page(title, facts.strip(), list(_sections(found, drawn)), directory))
    return directory / PAGE


def _figures(found: Inspection) -> dict[str, Figure | None]:
    sentences = found.agreement is not None
    return {
        "gates.png": gates.heat_maps(found),
        "units.png": gates.unit_lines(found),
        "gate_values.png": gates.values(found),
        "sentence.png": agreement.sentence(found) if sentences else None,
        "clamping.png": agreement.clamping(found) if sentences else None,
        "memory.png": memory.decay(found),
        "eigenvalues.png": memory.eigenvalues(found),
        "gradients.png": memory.gradients(found),
        "answers.png": answers.gallery(found),
        "mistakes.png": answers.mistakes(found),
        "confusion.png": answers.confusion(found),
        "numbers.png": answers.agreement_of_numbers(found),
    }


def _sections(found: Inspection, drawn: dict[str, Figure]) -> list[Section]:
    def pictures(*names: str) -> dict[str, str]:
        return {name: FILES[name] for name in names if name in drawn}

    table = words.gate_table(found) if found.gates else []
    made = [
        Section(
            "Gates over time", words.gates(found), pictures("gates.png", "units.png", "gate_values.png"), table, GATES
        ),
        Section("Memory", words.memory(found), pictures("memory.png"), note=MEMORY),
        Section("One step", words.spectrum(found), pictures("eigenvalues.png")),
        Section("Gradients", words.gradients(found), pictures("gradients.png"), note=GRADIENTS),
        Section(
            "What the model says",
            words.answers(found),
            pictures("answers.png", "mistakes.png", "confusion.png", "numbers.png"),
            note=ANSWERS,
        ),
    ]
    if found.agreement is not None:
        made.insert(1, Section("Subject and verb", agreement.story(found), pictures("sentence.png", "clamping.png")))
    return made


GATES = (
    "Every vector that the equations name is a gate here, the candidate too. A gate that keeps holds on to the old "
    "state at 1, one that writes overwrites it at 1, one that adds lets the new in. Units are sorted from slow (top) "
    "to quick. Shut and open: the share of values within 0.05 of 0 and of 1. A unit is dead if its state varies less "
    "than 1 % as much as the liveliest unit's. The table and the histograms are over many test examples, the "
    "rest is one."
)
MEMORY = (
    "s is the full state of the layer (h and c of an LSTM); the norm is the Frobenius norm over √n, so that a state "
    "that is only kept has 1 at every lag. A time constant is −1 / ln of the mean share that a unit keeps of its "
    "state in a step."
)
GRADIENTS = (
    "L is the loss, the derivative is total: through every later state. Several states of a cell count each for "
    "itself; c of an LSTM at the last step goes on only through its h, and has none of its own. The probe is a few "
    "validation examples."
)
ANSWERS = (
    "First the first test examples, then the worst mistakes, sorted by how sure the model was or how far off its "
    "numbers are."
)
