"""One function per command: the only package that sees everything, and puts the parts together.

Each takes what the command line parsed and gives back a value; printing results is the command line's own.
"""

from tformer.decoding.score import Recipe
from tformer.inspection.terminal import map_text
from tformer.runs.checking import check
from tformer.runs.evaluating import evaluate, score_file
from tformer.runs.inspecting import attention, trace
from tformer.runs.models import load, newest_model
from tformer.runs.reporting import report
from tformer.runs.starting import start
from tformer.runs.testsets import choose_test
from tformer.runs.training import train
from tformer.runs.translating import translate
from tformer.training.distributed import processes_of_run

__all__ = [
    "Recipe",
    "attention",
    "check",
    "choose_test",
    "evaluate",
    "load",
    "map_text",
    "newest_model",
    "processes_of_run",
    "report",
    "score_file",
    "start",
    "trace",
    "train",
    "translate",
]
