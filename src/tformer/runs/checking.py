"""`tformer check`: look at corpus and settings as training would take them, and try a few steps; nothing is written."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tformer.config import Config, load_config
from tformer.data.check import Inspection, SplitSummary, inspect
from tformer.data.splits import read_splits
from tformer.model import Transformer
from tformer.runs.preparing import train_tokenizers
from tformer.runtime import Runtime, prepare
from tformer.training.trial import Trial, try_training

_LENGTHS = ("median", "percentile_95", "percentile_99", "longest")


@dataclass(frozen=True)
class Check:
    """What `check` found; `seconds_per_step`, `minutes` and `memory_bytes` are estimates from the trial."""

    config: Config
    inspection: Inspection
    runtime: Runtime
    trial: Trial

    @property
    def seconds_per_step(self) -> float:
        """One update of average batches."""
        schedule = self.inspection.schedule
        tokens = schedule.tokens_per_epoch / schedule.batches_per_epoch
        return self.trial.seconds_per_step(tokens, self.config.training.accumulate_batches)

    @property
    def minutes(self) -> float:
        """All updates, without validation and saving, and without the bound of `max_minutes`."""
        return self.inspection.schedule.steps * self.seconds_per_step / 60

    @property
    def memory_bytes(self) -> int:
        """Weights, gradients, Adam's averages, and a full batch."""
        return self.trial.memory_bytes(self.config.training.max_tokens_per_batch)

    @property
    def basis(self) -> str:
        """What the estimates come from."""
        return (
            f"estimated from {self.trial.steps} steps of about {self.trial.tokens:,} tokens on {self.runtime.device}, "
            f"{self.runtime.precision}, threads: {self.runtime.threads}; validation and saving come on top"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it, for scripts; the keys stay."""
        schedule = dataclasses.asdict(self.inspection.schedule)
        return {
            "splits": {name: _summary_to_json(summary) for name, summary in self.inspection.splits.items()},
            "findings": [dataclasses.asdict(finding) for finding in self.inspection.findings],
            "vocabulary": dataclasses.asdict(self.inspection.vocabulary),
            "training": schedule
            | {
                "parameters": self.trial.parameters,
                "seconds_per_step": self.seconds_per_step,
                "minutes": self.minutes,
                "max_minutes": self.config.training.max_minutes,
                "memory_bytes": self.memory_bytes,
                "basis": self.basis,
            },
        }

    def lines(self) -> list[str]:
        """The same for a person, in sections."""
        splits = self.inspection.splits
        left_out = [f"  {name}: {line}" for name, summary in splits.items() for line in _left_out(summary)]
        sections = {
            "corpus": _table(_corpus_rows(splits)),
            "left out": left_out or ["  nothing"],
            "findings": [f"  {each.severity:<7}  {each.sentence()}" for each in self.inspection.findings] or ["  none"],
            "lengths": _table(_length_rows(splits)),
            "tokenizer": _table(self._tokenizer_rows()),
            "training": [*_table(self._training_rows()), *(f"  {part}" for part in self.basis.split("; "))],
        }
        return "\n\n".join("\n".join([name, *lines]) for name, lines in sections.items()).split("\n")

    def _tokenizer_rows(self) -> list[tuple[str, ...]]:
        vocabulary, shared = self.inspection.vocabulary, self.config.tokenizer.shared
        sizes = f"{vocabulary.sizes[0]:,}" + ("" if shared else f" of source, {vocabulary.sizes[1]:,} of target")
        asked = "" if set(vocabulary.sizes) == {vocabulary.asked} else f" (asked for: {vocabulary.asked:,})"
        words = "of both sides" if shared else "of the side with more"
        return [
            ("pieces", sizes + asked),
            ("suggested for this corpus", f"about {vocabulary.suggested:,}"),
            ("distinct words", f"{vocabulary.words:,} {words}"),
        ]

    def _training_rows(self) -> list[tuple[str, ...]]:
        schedule, trial, training = self.inspection.schedule, self.trial, self.config.training
        minutes = f"about {self.minutes:,.1f}, at {self.seconds_per_step * 1000:,.0f} ms a step"
        if training.max_minutes and training.max_minutes < self.minutes:
            steps = training.max_minutes * 60 / self.seconds_per_step
            minutes += f"; training.max_minutes {training.max_minutes:g} ends the run first, near step {steps:,.0f}"
        fixed = trial.memory_bytes(0)
        padding = f"{100 * schedule.padding_share:.1f} % of them is padding"
        return [
            ("parameters", f"{trial.parameters:,}"),
            ("batches an epoch", f"{schedule.batches_per_epoch:,}; {padding}"),
            ("steps", f"{schedule.steps:,}, {schedule.epochs:,.1f} epochs"),
            ("minutes", minutes),
            (
                "memory",
                f"about {_size(self.memory_bytes)}: {_size(fixed)} for weights, gradients and Adam, "
                f"{_size(self.memory_bytes - fixed)} for a batch; libraries come on top",
            ),
        ]


def check(config_path: str | None, overrides: Sequence[str]) -> Check:
    """Look at everything that training would read, and train for a few steps in memory.

    Args:
        config_path: a config file, or the name of a shipped one; None: base.yaml.
        overrides: "key=value" settings that come last.

    Raises:
        ConfigError: settings or paths that cannot be.
        DataError: a corpus that cannot be used.
    """
    config = load_config(config_path, overrides)
    runtime = prepare(config.device, config.precision, config.threads, compiled=False)
    splits = read_splits(config.data)
    tokenizers = train_tokenizers(splits.train, config.tokenizer)
    inspection = inspect(splits, tokenizers, config)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    model = Transformer(config.model, *sizes).to(runtime.device)
    trial = try_training(model, inspection.training, inspection.usable, config.training, runtime)
    return Check(config, inspection, runtime, trial)


def _summary_to_json(summary: SplitSummary) -> dict[str, Any]:
    sides = ("source", "target")
    return {
        "pairs": summary.pairs,
        "sources": [dataclasses.asdict(report) for report in summary.reports],
        "characters": {side: dataclasses.asdict(each) for side, each in zip(sides, summary.characters, strict=True)},
        "pieces": {side: dataclasses.asdict(each) for side, each in zip(sides, summary.pieces, strict=True)},
    }


def _corpus_rows(splits: dict[str, SplitSummary]) -> Iterator[tuple[str, ...]]:
    yield "", "pairs", "read", "left out", "from"
    for name, summary in splits.items():
        read = sum(report.pairs_read for report in summary.reports)
        lost = sum(item.count for report in summary.reports for item in report.left_out)
        files = ", ".join(report.name for report in summary.reports)
        yield name, f"{summary.pairs:,}", f"{read:,}", f"{lost:,}", files


def _left_out(summary: SplitSummary) -> Iterator[str]:
    """What the reports tell of pairs that were left out, or kept though something is to be said of them."""
    for report in summary.reports:
        yield from report.lines()[0 if report.left_out else 1 :]


def _length_rows(splits: dict[str, SplitSummary]) -> Iterator[tuple[str, ...]]:
    yield "", "median", "95 in 100", "99 in 100", "longest"
    for name, summary in splits.items():
        for unit, sides in (("characters", summary.characters), ("pieces", summary.pieces)):
            for side, found in zip(("source", "target"), sides, strict=True):
                yield f"{name}, {unit} of {side}", *(f"{getattr(found, each):,}" for each in _LENGTHS)


def _size(count: float) -> str:
    """Say a number of bytes."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def _table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Lay out rows in columns, those of numbers to the right."""
    rows = list(rows)
    columns = []
    for column in zip(*rows, strict=True):
        width = max(map(len, column))
        numbers = all(cell.replace(",", "").isdigit() for cell in column[1:])
        columns.append([cell.rjust(width) if numbers else cell.ljust(width) for cell in column])
    return [("  " + "  ".join(cells)).rstrip() for cells in zip(*columns, strict=True)]
