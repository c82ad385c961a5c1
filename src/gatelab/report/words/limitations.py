"""What a reader must not conclude from an experiment."""

from __future__ import annotations

from collections.abc import Iterator

from gatelab.experiments.experiment import Experiment
from gatelab.experiments.failures import share
from gatelab.experiments.results import Results
from gatelab.experiments.stats import FEWEST
from gatelab.formatting import counted, listed

FEW = 10  # seeds below which intervals depend on the distribution of the runs


def limitations(results: Results, experiment: Experiment) -> list[str]:
    """What the design cannot show, and what went wrong in it."""
    return [
        "Seeds vary the initialization, the order of the examples and dropout. The split of the data and the test set "
        "are the same throughout: intervals and tests say nothing about other splits or other test sets.",
        *_few_seeds(results),
        *_unfinished(results),
        *_budget(results, experiment),
        *_sizes(results, experiment),
        "One task was used; the results need not hold on others. Runs may have shared the machine, so times are "
        "approximate.",
    ]


def _few_seeds(results: Results) -> Iterator[str]:
    fewest = min(len(model.done) for model in results.models.values())
    if fewest < FEWEST:
        yield f"At least one model has {counted(fewest, 'finished run')}. With fewer than {FEWEST} nothing is tested."
        return
    if fewest == FEWEST:
        yield (
            f"{fewest} runs of a model are the fewest that are tested. Where half of all runs failed, six tests gave a "
            "false alarm in 15 % of simulated experiments instead of 5 %, and most failed runs cannot be told from "
            "noise. A significant difference is a reason to run more seeds, and not yet an answer."
        )
    if fewest < FEW:
        yield (
            f"With {counted(fewest, 'finished run')} per model only large differences are detectable, and the interval "
            "of a single model's mean is approximate if its runs are skewed."
        )
    yield (
        "Tests compare means. Where one model failed in 5 to 20 % of its runs and the other never, a single test gave "
        f"a false alarm in 11 to 68 % of simulated experiments of 3 to 10 seeds. {fewest} runs without a failure do "
        f"not rule out that {100 * share(0, fewest)[1]:.0f} % fail."
    )


def _unfinished(results: Results) -> Iterator[str]:
    excluded = []
    for name, model in results.models.items():
        excluded += [f"{number} of {name} {status}" for status, number in model.counts.items() if status != "done"]
    if excluded:
        yield (
            f"Not all runs finished ({listed(excluded)}). They are excluded; if they failed because of the model, its "
            "numbers are too good."
        )


def _budget(results: Results, experiment: Experiment) -> Iterator[str]:
    epochs = experiment.spec.training.num_epochs
    same = f"All models had the same budget, at most {counted(epochs, 'epoch')}"
    if (tune := experiment.spec.tune) is not None:
        yield (
            f"{same}, after {counted(tune.trials, 'trial')} each in search of settings. Settings outside the search "
            "space were the same for all; a larger space or budget may change the order of the models."
        )
    else:
        yield (
            f"{same}, and the same hyperparameters of the optimizer; the experiment does not tune them for each model, "
            "which may do better with its own."
        )
    done = [run for model in results.models.values() for run in model.done]
    last = sum(run.metrics["best_epoch"] >= epochs for run in done)
    if last:
        yield (
            f"{last} of {counted(len(done), 'finished run')} {'was' if last == 1 else 'were'} best in the last epoch "
            "of the budget and may not have converged."
        )


def _sizes(results: Results, experiment: Experiment) -> Iterator[str]:
    sizes = [m.summaries["parameters"].mean for m in results.models.values() if "parameters" in m.summaries]
    if sizes and max(sizes) > min(sizes):
        matched = experiment.spec.match == "parameters"
        why = "matched as closely as hidden sizes allow" if matched else "so a difference may be due to size"
        yield f"Models have {min(sizes):,.0f} to {max(sizes):,.0f} parameters, {why}."
