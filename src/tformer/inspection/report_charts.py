"""The curves of a run as data, which report.js draws: colour tells what, a dashed line tells the baseline."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tformer.inspection.report_run import Point, RunRecord, curve, smoothing

Series = dict[str, object]
Chart = dict[str, object]

_MOST_EXPONENT = 100  # a loss beyond it is a run gone astray, whose perplexity is no number to show
_BINS = 60  # of a histogram at most


@dataclass(frozen=True)
class _Curve:
    """One field of metrics.jsonl, as it is drawn."""

    split: str
    field: str
    name: str
    transform: Callable[[float], float] = float


_CURVES = (
    (
        "Loss and NLL",
        "nats a token",
        [
            _Curve("train", "loss", "loss, labels smoothed"),
            _Curve("train", "nll", "NLL, training"),
            _Curve("validation", "nll", "NLL, validation"),
        ],
    ),
    (
        "Perplexity",
        "exp(NLL)",
        [
            _Curve("train", "nll", "training", lambda nll: math.exp(min(nll, _MOST_EXPONENT))),
            _Curve("validation", "perplexity", "validation"),
        ],
    ),
    (
        "BLEU and chrF",
        "of validation, greedy",
        [_Curve("validation", "bleu", "BLEU"), _Curve("validation", "chrf", "chrF")],
    ),
    ("Learning rate", "", [_Curve("train", "learning_rate", "learning rate")]),
    ("Speed", "target tokens a second", [_Curve("train", "tokens_per_second", "tokens a second")]),
)


def run_charts(runs: Sequence[RunRecord]) -> list[Chart]:
    """Give the charts over steps and minutes that have something to show; the baseline comes first, if there is one."""
    charts: list[Chart] = []
    together = smoothing(runs)
    for title, unit, curves in _CURVES:
        series = [
            {**each, "colour": colour, "run": run.name, "dashed": run is not runs[-1]}
            for run in runs
            for colour, wanted in enumerate(curves, 1)
            for each in (_training(run, wanted, together) if wanted.split == "train" else _validation(run, wanted))
        ]
        if series:
            charts.append({"title": title, "unit": unit, "log": title == "Perplexity", "series": series})
    return charts


def _training(run: RunRecord, wanted: _Curve, together: int) -> list[Series]:
    points = _points(curve(run.steps, wanted.field, together), wanted)
    return [{"name": wanted.name, "points": points}] if points else []


def _validation(run: RunRecord, wanted: _Curve) -> list[Series]:
    """Give a curve, and apart from it the point of averaged weights, which stands at the step of the last ones."""
    found: list[Series] = []
    for weights, suffix in (("last", ""), ("averaged", ", averaged")):
        lines = [line for line in run.validations if line.get("weights", "last") == weights]
        points = _points(curve(lines, wanted.field), wanted)
        if points:
            found.append({"name": wanted.name + suffix, "dots": "hollow" if suffix else "full", "points": points})
    return found


def _points(points: list[Point], wanted: _Curve) -> list[list[float]]:
    return [
        [
            point.step,
            round(point.minutes, 4),
            *(wanted.transform(value) for value in (point.mean, point.low, point.high)),
        ]
        for point in points
    ]


def length_charts(run: RunRecord) -> list[Chart]:
    """Give the histogram of the training sentences' lengths."""
    if run.corpus is None:
        return []
    width = max(1, math.ceil(max(map(len, run.corpus.lengths.values())) / _BINS))
    series: list[Series] = []
    for colour, (side, counts) in enumerate(run.corpus.lengths.items(), 1):
        bins = [sum(counts[start : start + width]) for start in range(0, len(counts), width)]
        points = [[index * width, index * width, count, count, count] for index, count in enumerate(bins)]
        series.append({"name": side, "colour": colour, "dashed": False, "width": width, "points": points})
    unit = "training sentences of each length in pieces, end mark included"
    return [{"title": "Lengths", "unit": unit, "log": False, "x": "pieces", "series": series}]
