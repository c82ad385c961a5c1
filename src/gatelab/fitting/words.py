"""The result of a fit in sentences and tables: ours beside simple methods, and which is better by how much."""

from __future__ import annotations

import numpy as np

from gatelab.estimators.forecasting.backtest import OURS as FORECASTER
from gatelab.estimators.forecasting.words import unbounded
from gatelab.fitting.comparison import OURS, MethodComparison
from gatelab.fitting.gap import CONFIDENCE
from gatelab.fitting.sequence_fit import SequenceFit
from gatelab.fitting.series_fit import Backtested
from gatelab.formatting import counted, listed, p_value, percent, ranges

SHOWN_STEPS = 12  # steps ahead in a table


def sequence_summary(fit: SequenceFit) -> str:
    """The last line on the terminal: the test result beside the others."""
    comparison = fit.comparison
    others = ", ".join(f"{name} {_score(comparison, name)}" for name in comparison.predicted if name != OURS)
    return f"test, {test_size(fit)}: network {_score(comparison, OURS)}{_within(comparison)}; {others}"


def _score(comparison: MethodComparison, method: str) -> str:
    if comparison.are_classes:
        return f"{100 * comparison.scores[method]:.1f} %"
    rmse = comparison.rmse(method)
    return f"RMSE {rmse[0]:.4g}" if len(rmse) == 1 else f"R² {comparison.scores[method]:.3f}"


def _within(comparison: MethodComparison) -> str:
    """Wilson's interval of our accuracy, where targets are independent."""
    if not comparison.are_classes or not comparison.independent:
        return ""
    low, high = comparison.interval(OURS)
    return f" (95 % confidence interval {100 * low:.1f} to {100 * high:.1f} %)"


def test_size(fit: SequenceFit) -> str:
    """The size of the test set in words."""
    sequences, targets = counted(fit.task.sizes[2], "sequence"), len(fit.comparison.true)
    return f"{counted(targets, 'target')} in {sequences}" if fit.task.per_step else sequences


def sequence_verdict(fit: SequenceFit) -> list[str]:
    """Whether a simple method is better, and by how much."""
    comparison = fit.comparison
    best, sentences = comparison.best, []
    ours, theirs = comparison.scores[OURS], comparison.scores[best]
    if comparison.are_classes:
        points = f"{abs(100 * (ours - theirs)):.1f} points"
        test = f" (McNemar's exact test: {p_value(comparison.p_value(best))})" if comparison.independent else ""
        if ours > theirs:
            sentences.append(f"The network is better than the best simple method, {best}, by {points}{test}.")
        elif ours == theirs:
            sentences.append(f"The network is no better than {best}: both have {100 * ours:.1f} %. Use {best}.")
        else:
            sentences.append(f"{_capital(best)} is better than the network, by {points}{test}. Use {best}.")
        if test and comparison.p_value(best) > 0.05 and ours != theirs:
            sentences.append(f"With {counted(len(comparison.true), 'test sequence')} this difference may be chance.")
    elif comparison.true.shape[1] > 1:
        means = f"mean R² {ours:.3f} for the network, {theirs:.3f} for {best}"
        better = f"The network is better than the best simple method: {means}."
        sentences.append(
            better if ours > theirs else f"{_capital(best)} is better than the network: {means}. Use {best}."
        )
    else:
        mine, other = float(comparison.rmse(OURS)[0]), float(comparison.rmse(best)[0])
        share = f"{100 * abs(mine / other - 1):.3g} %" if other else "infinitely"
        if ours > theirs:
            sentences.append(f"The RMSE of the network is {share} lower than that of the best simple method, {best}.")
        else:
            sentences.append(f"{_capital(best)} is better than the network, whose RMSE is {share} higher. Use {best}.")
    sentences += [f"{_capital(comparison.missing)}."] if comparison.missing else []
    return [*sentences, *_worse_than_validation(fit), *_learning(fit)]


def _worse_than_validation(fit: SequenceFit) -> list[str]:
    """Whether the test set is predicted worse than the validation set, by more than chance."""
    gap = fit.gap
    if gap is None:
        return []
    shown = f"{100 * CONFIDENCE:g} % confidence interval"
    if gap.are_classes:
        points = f"{100 * (gap.validation - gap.test):.1f} points ({shown} {100 * gap.low:.1f} to {100 * gap.high:.1f})"
        before = f"the {gap.sequences:,} validation sequences ({100 * gap.validation:.1f} %)"
        which = f"accuracy is lower than on {before} by {points}"
    else:
        share = f"{gap.test / gap.validation:.2f} times that" if gap.validation else "not 0 as"
        interval = f"{shown} of the difference, in standard deviations of the targets, {gap.low:.3g} to {gap.high:.3g}"
        which = f"mean absolute error is {share} on the {gap.sequences:,} validation sequences ({interval})"
    return [
        f"The test {which}: more than chance. The test set is probably of another kind, as from other people, devices "
        "or times; expect the test score for data like it."
    ]


def _learning(fit: SequenceFit) -> list[str]:
    """Whether it is a second run, and whether that learned nothing either."""
    rate, sentences = fit.spec.optimization.learning_rate, []
    if fit.restarted:
        sentences.append(f"This is a second run, at a learning rate of {rate:g}: {fit.restarted}.")
    if fit.stuck:
        stem = " a network without convolutions (--set model.stem=none)," if fit.spec.model.stem != "none" else ""
        sentences.append(
            f"{_capital(fit.stuck)}. Try another learning rate (--set optimization.learning_rate={rate / 3:.1g}),"
            f"{stem} more epochs (--epochs N), or sequences that are standardized one by one."
        )
    return sentences


def sequence_table(fit: SequenceFit) -> list[list[str]]:
    """Every method with its scores on the test set."""
    comparison = fit.comparison
    if comparison.are_classes:
        titles = ["method", "correct", "accuracy, %"] + (["95 % interval"] if comparison.independent else [])
        rows = []
        for name, predicted in comparison.predicted.items():
            hits, (low, high) = int((predicted == comparison.true).sum()), comparison.interval(name)
            row = [name, f"{hits:,} of {len(predicted):,}", f"{100 * comparison.scores[name]:.1f}"]
            rows.append(row + ([f"{100 * low:.1f} to {100 * high:.1f}"] if comparison.independent else []))
        return [titles, *rows]
    names = fit.task.target_names
    titles = ["method", *(["target"] if len(names) > 1 else []), "RMSE", "MAE", "R²"]
    rows = []
    for name in comparison.predicted:
        scores = zip(names, comparison.rmse(name), comparison.mae(name), comparison.r2(name), strict=True)
        for target, rmse, mae, r2 in scores:
            rows.append([name, *([target] if len(names) > 1 else []), f"{rmse:.4g}", f"{mae:.4g}", f"{r2:.3f}"])
    return [titles, *rows]


def series_summary(fit: Backtested) -> str:
    """The last line on the terminal: the backtest beside the others."""
    outcome = fit.backtest
    scores = {method: outcome.mase(method) for method in outcome.forecasts}
    others = ", ".join(f"{name} {score:.3f}" for name, score in scores.items() if name != FORECASTER)
    covered = f"intervals of {percent(outcome.coverage)} cover {100 * outcome.covered():.1f} %"
    return (
        f"backtest, {counted(len(outcome.observed), 'origin')}, {counted(len(outcome.steps), 'step')} ahead: MASE "
        f"{scores[FORECASTER]:.3f}; {others}; {covered}"
    )


def series_verdict(fit: Backtested) -> list[str]:
    """Which method is better and by how much, over all steps ahead and at which of them."""
    outcome = fit.backtest
    scores = {method: outcome.mase(method) for method in outcome.forecasts}
    ours, sentences = scores[FORECASTER], []
    for name, score in sorted(scores.items(), key=lambda item: item[1]):
        if name == FORECASTER:
            continue
        if score < ours:
            share = (
                f"the error of the forecaster is {100 * (ours / score - 1):.0f} % higher" if score else "it is exact"
            )
            sentences.append(f"{_capital(name)} is better: {share}. Use {name}.")
        else:
            sentences.append(
                f"The error of the forecaster is {100 * (1 - ours / score):.0f} % lower than that of {name}."
            )
    sentences += _lost_steps(fit)
    infinite = float(np.isinf(outcome.upper - outcome.lower).mean())
    if infinite:
        sentences.append(
            f"{100 * infinite:.0f} % of the intervals are infinite, for want of held-out errors: a longer series or a "
            "smaller --horizon makes them finite."
        )
    is_negative = bool((fit.plan.values < 0).any())  # the test part, too
    advice = "" if is_negative else unbounded(outcome.fitted, outcome.lower, "--set lower=0")
    return [*sentences, *(f"{_capital(each)}." for each in (advice, fit.plan.why_no_ets) if each)]


def _lost_steps(fit: Backtested) -> list[str]:
    """The steps ahead at which a simple method is better, and which methods these are."""
    outcome = fit.backtest
    table, steps = outcome.table()["MASE"], outcome.steps.tolist()
    best = {step: min(outcome.forecasts, key=lambda method: table[method, step]) for step in steps}
    lost = [step for step in steps if best[step] != FORECASTER]
    if not lost or len(steps) == 1:
        return []
    which = f"all {len(steps)}" if len(lost) == len(steps) else f"{len(lost)} of the {len(steps)}"
    named = "" if len(lost) == len(steps) else f" ({ranges(lost)})"
    methods = [method for method in outcome.forecasts if method in {best[step] for step in lost}]
    return [f"At {which} steps ahead{named} another method is better: {listed(methods)}."]


def series_table(fit: Backtested) -> list[list[str]]:
    """Errors over all steps ahead, by method."""
    outcome = fit.backtest
    table, rows = outcome.table(), []
    for method in outcome.forecasts:
        whole = table.loc[(method, "all")]
        covered = f"{100 * whole['coverage']:.1f}" if method == FORECASTER else ""
        rows.append([method, *(f"{whole[name]:.4g}" for name in ("MAE", "RMSE")), f"{whole['MASE']:.3f}", covered])
    return [["method", "MAE", "RMSE", "MASE", f"% in the interval of {percent(outcome.coverage)}"], *rows]


def step_table(fit: Backtested) -> list[list[str]]:
    """MASE at some steps ahead, by method, and how often our intervals hold the value."""
    outcome = fit.backtest
    table, steps, methods = outcome.table(), outcome.steps, list(outcome.forecasts)
    few = steps[np.unique(np.linspace(0, len(steps) - 1, min(len(steps), SHOWN_STEPS)).round().astype(int))]
    rows = [
        [str(step), *(f"{table.loc[(method, step)]['MASE']:.3f}" for method in methods),
         f"{100 * table.loc[(FORECASTER, step)]['coverage']:.0f}"]
        for step in few.tolist()
    ]  # fmt: skip
    return [["steps ahead", *methods, f"% in the interval of {percent(outcome.coverage)}"], *rows]


def _capital(text: str) -> str:
    """The same at the beginning of a sentence."""
    return text[0].upper() + text[1:]
