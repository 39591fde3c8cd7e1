"""What a run has written of itself so far, whether it has ended, was killed in the middle of a line, or goes on."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from tformer.config import Config, differences, load_config
from tformer.inspection.report_corpus import CorpusRecord, read_corpus

Line = dict[str, Any]  # one of metrics.jsonl

_POINTS = 200  # of a curve: as many as make it smooth, and no dip of a few steps disappears, since a band shows it


@dataclass(frozen=True)
class RunRecord:
    """One run, read from its model folder.

    Attributes:
        name: what the page calls it.
        folder: where it is.
        config: its settings.
        environment: what environment.json says: machine, versions, device.
        steps: the lines of training steps, in order.
        validations: those of validations.
        unreadable: how many lines could not be read; a torn last one is not counted.
        corpus: what training saw of its corpus; None in folders of older versions.
        num_parameters: of the model; None where its vocabulary is not there yet.
        holder: who holds the folder at the moment, in words, as its lock says; None: nobody.
    """

    name: str
    folder: Path
    config: Config
    environment: dict[str, Any]
    steps: list[Line]
    validations: list[Line]
    unreadable: int
    corpus: CorpusRecord | None
    num_parameters: int | None
    holder: str | None

    @property
    def last_step(self) -> int:
        """The last update that is known of; 0 before the first."""
        return int(self.steps[-1]["step"]) if self.steps else 0

    @property
    def seconds(self) -> float:
        """How long the run has trained and validated."""
        return max((float(line.get("elapsed_seconds") or 0) for line in (*self.steps, *self.validations)), default=0.0)

    @property
    def tokens_per_second(self) -> float | None:
        """The median of the pace."""
        return median(found) if (found := _values(self.steps, "tokens_per_second")) else None

    @property
    def skipped(self) -> int:
        """Updates that were not made, since they came to no finite number."""
        return sum("skipped" in line for line in self.steps)

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end, as environment.json tells, and has not gone on since."""
        return bool(self.steps) and self.environment.get("finished_step") == self.last_step

    def best(self, name: str) -> tuple[float, int] | None:
        """Give the highest value of one field of the validations, and its step."""
        found = [(float(line[name]), int(line["step"])) for line in self.validations if _is_number(line.get(name))]
        return max(found, key=lambda each: each[0], default=None)


def read_run(name: str, folder: Path, num_parameters: int | None = None, holder: str | None = None) -> RunRecord:
    """Read what a run has written.

    Raises:
        ConfigError: its settings cannot be read.
    """
    lines, unreadable = read_metrics(folder / "metrics.jsonl")
    return RunRecord(
        name=name,
        folder=folder,
        config=load_config(folder / "config.yaml"),
        environment=_read_facts(folder / "environment.json"),
        steps=[line for line in lines if line["split"] == "train"],
        validations=[line for line in lines if line["split"] == "validation"],
        unreadable=unreadable,
        corpus=read_corpus(folder / "corpus.json"),
        num_parameters=num_parameters,
        holder=holder,
    )


def read_metrics(path: Path) -> tuple[list[Line], int]:
    """Read all lines that are whole, and count those before the last that are not.

    The last line of a run that goes on, or was killed, may be torn: that is no damage.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    *whole, _ = content.split(b"\n")  # what follows the last line break is empty, or torn
    found = [_parse(line) for line in whole]
    return [line for line in found if line is not None], found.count(None)


def _parse(line: bytes) -> Line | None:
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    known = isinstance(fields, dict) and isinstance(fields.get("step"), int) and isinstance(fields.get("split"), str)
    return fields if known else None


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def settings_that_differ(run: RunRecord) -> dict[str, tuple[str, str]]:
    """Give the settings that are not those of base.yaml: dotted key → base.yaml's value, the run's."""
    return differences(load_config(), run.config)


@dataclass(frozen=True)
class Point:
    """Some neighbouring steps of a curve: the last of them, when it was, and mean, lowest and highest value."""

    step: int
    minutes: float
    mean: float
    low: float
    high: float


def smoothing(runs: Sequence[RunRecord]) -> int:
    """Choose how many neighbouring steps make one point of a curve, the same for runs that are compared."""
    return max(1, math.ceil(max((len(run.steps) for run in runs), default=0) / _POINTS))


def curve(lines: list[Line], name: str, together: int = 1) -> list[Point]:
    """Give one field over the steps, so many neighbours of which are one point."""
    lines = [line for line in lines if _is_number(line.get(name)) and _is_number(line.get("elapsed_seconds"))]
    points = []
    for start in range(0, len(lines), together):
        part = lines[start : start + together]
        values = _values(part, name)
        minutes = float(part[-1]["elapsed_seconds"]) / 60
        points.append(Point(int(part[-1]["step"]), minutes, fmean(values), min(values), max(values)))
    return points


def spread_out(lines: list[Line], most: int) -> list[Line]:
    """Choose some of many lines, the first and the last among them, at even distances."""
    if len(lines) <= most:
        return lines
    return [lines[round(index * (len(lines) - 1) / (most - 1))] for index in range(most)]


def _values(lines: list[Line], name: str) -> list[float]:
    return [float(line[name]) for line in lines if _is_number(line.get(name))]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
