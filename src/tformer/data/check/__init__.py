"""The careful colleague behind `check`: what corpus and settings show before a minute is spent on training."""

from tformer.data.check.finding import Finding
from tformer.data.check.inspection import Inspection, SplitSummary, inspect
from tformer.data.check.survey import survey

__all__ = ["Finding", "Inspection", "SplitSummary", "inspect", "survey"]
