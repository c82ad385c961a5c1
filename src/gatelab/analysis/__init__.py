"""Analysis of trained runs: functions that return plain arrays. `report` draws them."""

from gatelab.analysis.clamping import NumberAgreement, agreement
from gatelab.analysis.eigenvalues import Spectrum, spectrum
from gatelab.analysis.gates import GateSummary, Traces, dead_units, summaries, traces
from gatelab.analysis.horizon import Memory, memory, time_constants
from gatelab.analysis.inspection import Inspection, inspect
from gatelab.analysis.predictions import Predictions, predictions_of
from gatelab.analysis.subject import Subject, load

__all__ = [
    "GateSummary",
    "Inspection",
    "Memory",
    "NumberAgreement",
    "Predictions",
    "Spectrum",
    "Subject",
    "Traces",
    "agreement",
    "dead_units",
    "inspect",
    "load",
    "memory",
    "predictions_of",
    "spectrum",
    "summaries",
    "time_constants",
    "traces",
]  # fmt: skip
