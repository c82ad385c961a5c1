"""What a fit assumed and decided, in plain words: for the terminal before training, and for the page."""

from __future__ import annotations

from joblib import effective_n_jobs

from gatelab.data import timestamps
from gatelab.data.advice import spelled
from gatelab.estimators import defaults
from gatelab.estimators.forecasting.parameters import BATCH, LARGEST_SEASON
from gatelab.fitting.file_task import as_flags
from gatelab.fitting.series_fit import COVERAGE, HORIZON, LONGEST_TEST, Plan
from gatelab.formatting import counted, listed, percent
from gatelab.report.words import settings
from gatelab.tasks.own.files import Files
from gatelab.tasks.own.overview import shortened
from gatelab.training import RunSpec

Facts = dict[str, str]
CAUTIONS = ("caution", "not used")  # among the remarks about the data
POOLS = {
    "last": "the last output",
    "mean": "the mean over the steps",
    "max": "the maximum over the steps",
    "mean+max": "mean and maximum over the steps",
    "attention": "a mean over the steps with learned weights",
}


def of_sequences(task: Files, spec: RunSpec) -> Facts:
    """What was understood of the sequences, and what the network and its training are."""
    apart = ("source", *CAUTIONS)
    understood = {name: spelled(fact, as_flags) for name, fact in task.describe().facts() if name not in apart}
    return {"file": str(task.path), **understood, **_scaling(task), **_network(task, spec)}


def cautions(task: Files) -> list[str]:
    """What may make a result misleading, or was left out: said apart from what is merely so."""
    notes = task.remarks()
    return [spelled(notes[name], as_flags) for name in CAUTIONS if name in notes]


def _scaling(task: Files) -> Facts:
    """How numbers are scaled."""
    scaled = [] if task.vocabulary else ["inputs, each feature"]
    scaled += ["targets"] if task.classes is None else []
    rule = "standardized with mean and standard deviation of the training set"
    return {"scaling": f"{listed(scaled)}: {rule}; predictions are in the units of the file"} if scaled else {}


def _network(task: Files, spec: RunSpec) -> Facts:
    model, training = spec.model, spec.training
    directions = "bidirectional " if model.bidirectional else ""
    units = f"{model.hidden_size} units{' per direction' if model.bidirectional else ''}"
    parts = [f"{directions}{model.cell}, {counted(model.num_layers, 'layer')} of {units}"]
    if not task.per_step:
        parts.append(f"the head reads {POOLS[model.pool]}")
    parts += ["after two strided convolutions, which shorten sequences to a quarter"] if model.stem == "conv" else []
    parts += [f"dropout {model.head_dropout:g} before the head"] if model.head_dropout else []
    least, most = defaults.EPOCHS
    usual = training.num_epochs == defaults.num_epochs(task.sizes[0], training.batch_size)
    why = f" (about {defaults.BATCHES:,} batches in all, but {least} to {most} epochs)" if usual else ""
    words = dict(settings.training(training, task.classes is not None))
    return {
        "network": ", ".join(parts),
        "optimization": "; ".join(" ".join(fact) for fact in settings.optimization(spec.optimization)),
        "training": f"{counted(training.num_epochs, 'epoch')}{why}, batches of {training.batch_size}",
        "loss": words["loss"],
        "kept weights": words["tested weights"],
        "random seed": f"{training.seed}; split of the data: {task.seed}",
    }


def of_series(plan: Plan) -> Facts:
    """What was understood of the series, and what the forecaster is given."""
    task, content = plan.task, plan.series
    facts = {"file": str(task.path), "layout": content.layout, "forecast": listed(list(plan.names))}
    if plan.covariates:
        facts["covariates"] = f"{listed(list(plan.covariates))}: their future values have to be known (--future)"
    if content.ignored:
        advice = "; --option inputs=… reads columns whose future values are known"
        facts["ignored columns"] = shortened(content.ignored) + advice
    facts["steps"] = f"{len(plan.values):,}"
    if "time" not in content.notes:
        facts["time"] = "no column of times was found: rows are taken as consecutive steps"
    facts |= {name: spelled(note, as_flags) for name, note in content.notes.items() if name not in CAUTIONS}
    return facts | {
        "horizon": _horizon(plan), "season": _season(plan), "networks": _networks(plan), "test": _test(plan)
    }  # fmt: skip


def _networks(plan: Plan) -> str:
    given = plan.forecaster
    units, threads = counted(given.hidden_size, "unit"), counted(effective_n_jobs(given.n_jobs), "thread")
    epochs = max(1, round(given.num_steps * BATCH / len(plan.values)))
    return (
        f"{given.num_networks} for each way to take level and season out ({given.cell}, {units}), each trained for "
        f"{counted(given.num_steps, 'step')} of the optimizer with batches of {BATCH} windows, about "
        f"{counted(epochs, 'epoch')}, on {threads}"
    )


def _horizon(plan: Plan) -> str:
    steps = f"{counted(plan.horizon, 'step')} ahead"
    if plan.horizon_given:
        return steps
    usual = plan.season if 1 < plan.season <= LARGEST_SEASON else HORIZON
    why = "one season" if plan.horizon == plan.season else f"the default is {HORIZON}, or one season"
    if plan.horizon < usual:
        why = f"the default is {usual}, which is more than half of the test part"
    return f"{steps} ({why}; --horizon N for another)"


def _season(plan: Plan) -> str:
    if plan.forecaster.season is not None:
        return f"{counted(plan.season, 'step')}, as set"
    if plan.season > 1:
        return f"{counted(plan.season, 'step')}, from the interval of the times"
    return "none follows from the times; --set season=N names one"


def _test(plan: Plan) -> str:
    steps = f"the last {counted(plan.test, 'step')}"
    if plan.stamps is not None:
        steps += f", from {timestamps.format_times(plan.stamps[plan.train : plan.train + 1], plan.stamps[:2])[0]}"
    if plan.task.content.parts is not None:
        steps += f" ({plan.task.content.split_by})"
    elif plan.test == LONGEST_TEST:
        steps += f" (a quarter of the series, at most {LONGEST_TEST:,} steps)"
    return (
        f"{steps}: forecast from every step, by a forecaster fitted on what is before, with intervals of "
        f"{percent(COVERAGE)}. The saved forecaster is then fitted on the whole series"
    )
