"""All that `tformer check` finds before it tries the model: corpus, lengths, vocabulary, settings."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tformer.config import Config
from tformer.data.batching import BatchStream
from tformer.data.check.characters import look_at_characters
from tformer.data.check.finding import Finding
from tformer.data.check.language import look_at_languages
from tformer.data.check.lengths import Distribution, character_lengths, look_at_lengths, too_long
from tformer.data.check.settings import Schedule, judge_settings, plan
from tformer.data.check.survey import named, survey
from tformer.data.check.vocabulary import (
    Vocabulary,
    judge_size,
    look_for_unknown_characters,
    measure_vocabulary,
)
from tformer.data.store import IntArray, TokenisedCorpus, tokenise

if TYPE_CHECKING:
    from tformer.data.corpus import CorpusReport
    from tformer.data.splits import Splits
    from tformer.data.tokenizer import TokenizerPair


@dataclass(frozen=True)
class SplitSummary:
    """One split as it will be used.

    Attributes:
        pairs: kept.
        reports: one for each source: what was read, what was left out.
        characters: lengths of the source and of the target side.
        pieces: likewise, EOS included.
    """

    pairs: int
    reports: "tuple[CorpusReport, ...]"
    characters: tuple[Distribution, Distribution]
    pieces: tuple[Distribution, Distribution]


@dataclass(frozen=True)
class Inspection:
    """What was found.

    Attributes:
        splits: by name; those that the config has.
        findings: warnings first.
        vocabulary: sizes, and the one suggested.
        schedule: batches, steps and epochs.
        training: the training pairs as pieces.
        usable: [pairs] int64, which of them are short enough to be trained on.
    """

    splits: dict[str, SplitSummary]
    findings: list[Finding]
    vocabulary: Vocabulary
    schedule: Schedule
    training: TokenisedCorpus
    usable: IntArray


def inspect(splits: "Splits", tokenizers: "TokenizerPair", config: Config) -> Inspection:
    """Look at everything that can be told without a model.

    Args:
        splits: the corpora as they will be used.
        tokenizers: as training makes them of `splits.train`.
        config: all settings.

    Raises:
        DataError: no training pair is short enough to be used.
    """
    found = [*survey(splits), *look_at_characters(splits)]
    found += look_at_languages(splits.train, config.data.source_lang, config.data.target_lang)
    both = tokenizers.source, tokenizers.target
    summaries, tokenised = {}, {}
    for name, corpus in named(splits):
        ids = tokenised[name] = tokenise(corpus, tokenizers, None, cached=True)
        characters, pieces = character_lengths(corpus), (ids.src.lengths, ids.tgt.lengths)
        summaries[name] = SplitSummary(len(corpus), corpus.reports, _describe(characters), _describe(pieces))
        found += look_for_unknown_characters(name, corpus, (ids.src, ids.tgt), both)
        if name == "train":
            found += look_at_lengths(corpus, *characters)
            found += too_long(corpus, *pieces, *_limit(config))
    training = tokenised["train"]
    source, target = training.src.lengths, training.tgt.lengths
    limit, _ = _limit(config)
    usable = np.flatnonzero(np.maximum(source, target) <= limit)
    if not len(usable):
        tokenise(splits.train, tokenizers, limit)  # says what is wrong
    shown = usable[_epoch(np.asarray(training.weights)[training.source_of[usable]])]
    if not len(shown):
        BatchStream(training, config.training.max_tokens_per_batch, config.seed)  # likewise
    schedule = plan(source[shown], target[shown], config)
    vocabulary = measure_vocabulary(splits.train, both, config.tokenizer)
    found += judge_size(vocabulary, len(splits.train))
    found += judge_settings(config, schedule, len(splits.validation) if splits.validation else 0)
    found.sort(key=lambda finding: finding.severity != "warning")
    return Inspection(summaries, found, vocabulary, schedule, training, usable)


def _limit(config: Config) -> tuple[int, str]:
    """Give the most pieces of a side that training takes, and the setting it comes from."""
    return min(
        (config.data.max_length, "data.max_length"),
        (config.training.max_tokens_per_batch, "training.max_tokens_per_batch"),
    )


def _describe(lengths: tuple[IntArray, IntArray]) -> tuple[Distribution, Distribution]:
    source, target = lengths
    return Distribution.of(source), Distribution.of(target)


def _epoch(weights: npt.NDArray[np.float64]) -> IntArray:
    """Give the pairs of an epoch: each as often as its weight says, those of half weights by turns."""
    times = np.diff(np.rint(np.cumsum(weights)), prepend=0).astype(np.int64)
    return np.repeat(np.arange(len(weights)), times)
