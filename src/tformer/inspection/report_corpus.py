"""What training saw of its corpus, kept as corpus.json in the model folder for the report: counts, reasons, lengths."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tformer.data.corpus import CorpusReport
from tformer.data.splits import Splits
from tformer.data.store import TokenisedCorpus


@dataclass(frozen=True)
class SourceFacts:
    """One source of a split: its pairs, those left out by reason, and what else was said of it."""

    split: str
    name: str
    pairs_read: int
    left_out: dict[str, int]
    notes: list[str]

    @property
    def pairs_kept(self) -> int:
        """The pairs that were used."""
        return self.pairs_read - sum(self.left_out.values())


@dataclass(frozen=True)
class CorpusRecord:
    """The sources of all splits, and of the training pairs the lengths in pieces, EOS included.

    Attributes:
        sources: in the order of the settings, training first.
        lengths: for `source` and `target`, how many sentences have each length, from 0.
    """

    sources: list[SourceFacts]
    lengths: dict[str, list[int]]


def dump_corpus(splits: Splits, training: TokenisedCorpus) -> str:
    """Write down what `read_corpus` reads back: some kilobytes, however large the corpus is."""
    # the tokenised corpus has also counted the pairs that are too long
    reports = {"train": training.reports}
    held_out = {"validation": splits.validation, "test": splits.test}
    reports |= {name: corpus.reports for name, corpus in held_out.items() if corpus}
    sources = [_source(split, report) for split, each in reports.items() for report in each]
    lengths = {"source": training.src.lengths, "target": training.tgt.lengths}
    counts = {side: np.bincount(numbers).tolist() for side, numbers in lengths.items()}
    return json.dumps({"sources": sources, "lengths": counts}, ensure_ascii=False) + "\n"


def _source(split: str, report: CorpusReport) -> dict[str, object]:
    return {
        "split": split,
        "name": report.name,
        "pairs_read": report.pairs_read,
        # the same words, with the numbers of the first lines
        "left_out": {item.sentence(report.unit, report.parts): item.count for item in report.left_out},
        "notes": [f"{item.count}: {item.sentence(report.unit, report.parts)}" for item in report.notes],
    }


def read_corpus(path: Path) -> CorpusRecord | None:
    """Read the record of a model folder; None where there is none, as in older ones, or it is damaged."""
    try:
        record: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        sources = [SourceFacts(**source) for source in record["sources"]]
        lengths = {side: [int(count) for count in record["lengths"][side]] for side in ("source", "target")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return CorpusRecord(sources, lengths)
