"""Looking into a trained run: functions that return plain arrays. Drawing them is the report's job."""

from gatelab.analysis.agreement import Agreement, agreement
from gatelab.analysis.answers import Answers, answers
from gatelab.analysis.inspection import Inspection, inspect
from gatelab.analysis.memory import Memory, memory, time_constants
from gatelab.analysis.spectrum import Spectrum, spectrum
from gatelab.analysis.subject import Subject, load
from gatelab.analysis.traces import GateSummary, Traces, dead_units, summaries, traces

__all__ = [
    "Agreement", "Answers", "GateSummary", "Inspection", "Memory", "Spectrum", "Subject", "Traces", "agreement",
    "answers", "dead_units", "inspect", "load", "memory", "spectrum", "summaries", "time_constants", "traces",
]  # fmt: skip
