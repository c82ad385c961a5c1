"""The findings of an experiment in sentences, no stronger than the statistics."""

from __future__ import annotations

from collections.abc import Iterator

from gatelab.experiments import stats
from gatelab.experiments.results import ModelResult, Results, by_seed
from gatelab.experiments.stats import Effect, Estimate, PairedComparison
from gatelab.formatting import counted, difference, listed, metric_name, p_value, scale, signed, value
from gatelab.report.words.failures import failures

NAMED = 3  # pairs up to which all are named in the summary


def findings(results: Results) -> list[str]:
    """Everything there is to say; what concerns all numbers comes first."""
    return [
        *general(results),
        *(effect(one, results.metric) for one in results.effects if results.metric),
        *comparisons(results),
    ]


def general(results: Results) -> list[str]:
    """What concerns all numbers: mixed, missing or failed runs, and the trivial baseline."""
    return [
        *mixtures(results.models),
        *unfinished(results.models),
        *failures(results),
        *baseline(results),
        *incomplete_effects(results),
    ]


def significant(results: Results) -> list[str]:
    """The significant effects and comparisons; a paper has tables for the others."""
    metric = results.metric or ""
    sentences = [effect(one, metric) for one in results.effects if one.difference.significant]
    return [*sentences, *(comparison(one, metric) for one in results.comparisons if one.difference.significant)]


def family_sentence(results: Results) -> str:
    """Which tests are corrected for together."""
    tests, studies = results.family.tests, results.family.studies
    if not tests:
        return ""
    pairs, effects = len(stats.pairs(list(results.models), results.base)), len(stats.design_changes(results.design))
    parts = [counted(number, thing) for number, thing in ((pairs, "comparison"), (effects, "effect")) if number]
    own = f"the {listed(parts)} of this {'study' if studies else 'experiment'}"
    if len(studies) > 1:
        own = f"all comparisons and effects of the {len(studies)} studies ({', '.join(studies)})"
    test = "Paired t-tests over seeds, two-sided"
    if tests == 1:
        return f"{test}. There is one test, so p values and confidence intervals need no correction."
    return (
        f"{test}. One family of {tests} tests: {own}. p values are Bonferroni-adjusted, and the 95 % confidence "
        "intervals of differences are simultaneous: an interval excludes 0 exactly when its p is below 0.05."
    )


def mixtures(models: dict[str, ModelResult]) -> list[str]:
    """What should have been the same in all runs and was not: equations, data, the engine."""
    sentences = []
    known = {name: [run.identity for run in model.runs if run.identity] for name, model in models.items()}
    for name, identities in known.items():
        if len({identity.cell for identity in identities}) > 1:
            sentences.append(f"The equations of {name} were changed between its runs: they are not runs of one model.")
        if len(engines := sorted({identity.engine for identity in identities})) > 1:
            sentences.append(f"{name} was trained with different engines ({', '.join(engines)}): its times are mixed.")
    if len({identity.data for identities in known.values() for identity in identities}) > 1:
        sentences.append("The data was changed between runs: not all runs were trained and tested on the same data.")
    return sentences


def unfinished(models: dict[str, ModelResult]) -> list[str]:
    """The runs that are excluded, and why."""
    by_outcome: dict[tuple[str, str, str], list[str]] = {}
    for name, model in models.items():
        for run in model.runs:
            if run.status != "done":
                by_outcome.setdefault((name, run.status, run.reason), []).append(str(run.seed))
    sentences = []
    for (name, status, reason), seeds in by_outcome.items():
        outcome = status if status in ("failed", "diverged") else f"{'is' if len(seeds) == 1 else 'are'} {status}"
        which = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"
        why = f" ({reason})" if reason else ""
        excluded = "is excluded" if len(seeds) == 1 else "are excluded"
        sentences.append(f"{name}, {which}: {outcome}{why} and {excluded} from all numbers.")
    return sentences


def baseline(results: Results) -> list[str]:
    """The trivial baseline, and the models that are no better."""
    trivial = results.baseline
    if trivial is None:
        return []
    metric = trivial.metric  # the squared error also where models are compared by the absolute one
    reached = {name: m.summaries[metric].mean for name, m in results.models.items() if metric in m.summaries}
    if not reached:
        return []
    poor = [name for name, mean in reached.items() if not trivial.beaten_by(mean)]
    worse = f" {listed(poor)} {'does' if len(poor) == 1 else 'do'} not beat it." if poor else ""
    return [f"Trivial baseline ({trivial.rule}): {metric_name(metric)} {value(metric, trivial.value)}.{worse}"]


def incomplete_effects(results: Results) -> list[str]:
    """Why effects are estimated from fewer seeds than were run, or from none."""
    if not results.design or results.metric is None:
        return []
    values = by_seed(results.models, results.metric)
    incomplete = [name for name in results.design if len(values[name]) < len(results.models[name].runs)]
    if not incomplete:
        return []
    common = len(set.intersection(*(set(values[name]) for name in results.design)))
    seeds = (
        f"use the {counted(common, 'seed')} that all arms finished"
        if common
        else "are missing: no seed finished in all arms"
    )
    return [f"The effects {seeds} (runs of {listed(incomplete)} are missing)."]


def change_names(changes: tuple[stats.Change, ...]) -> str:
    """The name of an effect: f: 0 → 1, and for an interaction both with × between."""
    return " × ".join(f"{change.factor}: {change.before} → {change.after}" for change in changes)


def effect(one: Effect, metric: str) -> str:
    """One effect."""
    size = one.difference
    kind = "interaction" if one.interaction else "main effect"
    name = f"{change_names(one.changes)} ({kind})"
    seeds = counted(size.n, "seed")
    if size.n < stats.FEWEST:
        return f"{name}: {difference(metric, size.mean)} in {metric_name(metric)}; not tested with {seeds}."
    if size.constant:
        return (
            f"{name}: {difference(metric, size.mean)} in {metric_name(metric)} in each of {seeds}; no variance to test."
        )
    verdict = "significant at 5 %" if size.significant else "not significant"
    return f"{name}: {metric_name(metric)} {_interval(metric, size)}: {verdict}."


def comparisons(results: Results) -> list[str]:
    """Every comparison, and the pairs that could not be compared."""
    if results.metric is None:
        return ["No run has finished: there is nothing to compare."]
    sentences = ["There is one model and nothing to compare it with."] if len(results.models) == 1 else []
    compared = {frozenset((one.a, one.b)) for one in results.comparisons}
    for a, b in stats.pairs(list(results.models), results.base):
        if frozenset((a, b)) not in compared:
            sentences.append(f"{a} and {b} are not compared: no seed finished for both.")
    return [*sentences, *(comparison(one, results.metric) for one in results.comparisons)]


def comparison(one: PairedComparison, metric: str) -> str:
    """One comparison: the difference, its interval, its test, and what the design could have detected."""
    size, name, seeds = one.difference, metric_name(metric), counted(one.difference.n, "seed")
    start = f"{one.a} is {difference(metric, abs(size.mean))} {'above' if size.mean > 0 else 'below'} {one.b} in {name}"
    if not size.mean:
        start = f"{one.a} and {one.b} have the same mean {name}"
    if size.n < stats.FEWEST:
        return f"{start}; not tested with {seeds}."
    if size.constant:
        return f"{start} in each of {seeds}; without variance there is no test."
    verdict = "significant at 5 %" if size.significant else "not significant"
    return f"{start} (difference {_interval(metric, size)}): {verdict}. {_power(metric, size)}"


def _interval(metric: str, size: Estimate) -> str:
    """Mean, interval and p, with the signs of the tables."""
    assert size.low is not None
    assert size.high is not None
    assert size.p_adjusted is not None
    mean, low, high = (signed(metric, value) for value in (size.mean, size.low, size.high))
    return f"{mean}, 95 % CI {low} to {high}, {p_value(size.p_adjusted)}"


def _power(metric: str, size: Estimate) -> str:
    assert size.detectable is not None
    return f"Detectable with 50 % power: {difference(metric, size.detectable)}."


def in_brief(results: Results) -> str:
    """The answer in one or two sentences."""
    if results.metric is None:
        return "No run has finished, so there is no answer."
    if len(results.models) == 1:
        ((name, summary),) = results.means.items()
        spread = f" (standard deviation {scale(results.metric) * summary.sd:.2g})" if summary.sd is not None else ""
        runs = counted(len(summary.values), "run")
        return (
            f"{name} reaches {metric_name(results.metric)} {value(results.metric, summary.mean)}{spread} over {runs}."
        )
    return " ".join([*_effects_in_brief(results), _pairs_in_brief(results)])


def _effects_in_brief(results: Results) -> Iterator[str]:
    tested = [one for one in results.effects if one.difference.p_adjusted is not None]
    significant = [change_names(one.changes) for one in tested if one.difference.significant]
    if significant:
        names = f": {listed(significant)}." if len(significant) <= NAMED else "."
        start = f"{len(significant)} of {counted(len(tested), 'effect')} on {metric_name(results.metric or '')}"
        yield f"{start} {_is(len(significant))} significant at 5 %{names}"
    elif tested:
        yield f"No effect of a factor on {metric_name(results.metric or '')} is significant at 5 %."


def _pairs_in_brief(results: Results) -> str:
    name = metric_name(results.metric or "")
    tested = [one for one in results.comparisons if one.difference.p_adjusted is not None]
    significant = [one for one in tested if one.difference.significant]
    if not tested:
        return "No comparison could be tested; the numbers describe these runs only."
    if not significant:
        return f"No difference in {name} is significant at 5 %; this does not show that the models are equal."
    start = f"{len(significant):,} of {counted(len(tested), 'pairwise difference')} in {name}"
    start = f"{start} {_is(len(significant))} significant at 5 %"
    if len(tested) == 1:
        start = f"The difference in {name} is significant at 5 %"
    if len(significant) > NAMED:
        return f"{start}."
    return f"{start}: {listed([f'{one.a} is better than {one.b}' for one in significant])}."


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
