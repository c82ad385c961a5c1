"""Whether the directory of a forecaster is intact: its own files, and the runs of its networks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gatelab import sealed
from gatelab.disk import within
from gatelab.errors import GatelabError
from gatelab.estimators.forecasting.saving import ARRAYS, RECORD, load
from gatelab.training import Run
from gatelab.training.run import BACKTEST, REPORT
from gatelab.training.verify import Finding, verify


def verify_forecaster(path: Path) -> Iterator[tuple[Path, list[Finding]]]:
    """Yield the directory and those of its networks, each with what was found."""
    findings = []
    try:
        forecaster = load(path)
        networks = sum(map(len, forecaster.ensemble_.networks.values()))
        findings += [
            Finding(RECORD, f"{networks} networks, {forecaster.horizon_} steps ahead"),
            Finding(ARRAYS, f"the last {len(forecaster.history_.values)} steps of the series"),
        ]
    except (GatelabError, OSError) as error:
        findings.append(Finding(RECORD, str(error), good=False))
    for file in sorted(path.glob("*.json")):
        if file.name != RECORD:
            findings.append(_sealed(path, file))
    for name in (REPORT, BACKTEST):
        if (path / name).exists():
            findings.append(Finding(name, "not read back; not checked", mark="--"))
    yield path, findings
    for folder in sorted(each.parent for each in path.glob("*/manifest.json")):
        yield folder, verify(Run(within(path, folder)))


def _sealed(path: Path, file: Path) -> Finding:
    try:
        sealed.read_json(within(path, file))
    except GatelabError as error:
        return Finding(file.name, str(error), good=False)
    return Finding(file.name, "how the file of the series was read")
