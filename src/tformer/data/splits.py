"""Training, validation and test corpora as the settings want them: read, split off, without repeats or overlap.

The rules, in this order; each pair that one of them takes away is counted in its source's report:

1. Each source is read, and what is no pair is left out (`corpus`).
2. Where validation or test are `{from_train: …}`, sentences are split off the training corpus: of its source sentences,
   each counted once whatever its case and white space, in an order that their hashes give, validation takes the first,
   test the next; all pairs of a sentence go with it, so that none of its translations stays behind. A share is a range
   of hashes: what is added to the corpus moves no other sentence. A number of sentences takes the smallest hashes.
3. With data.drop_duplicates, training keeps the first of pairs that are the same.
4. With data.drop_overlap, training loses the pairs whose source is in validation or test.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tformer.config import DataConfig, FromTrain
from tformer.data.corpus import CorpusReport, LeftOut
from tformer.data.corpus.reader import SplitName
from tformer.data.store import TextCorpus, read_text
from tformer.errors import ConfigError, DataError

_ALL_HASHES = 2**64


@dataclass(frozen=True)
class Splits:
    """The corpora of a run; None where the config has none."""

    train: TextCorpus
    validation: TextCorpus | None
    test: TextCorpus | None


def read_splits(config: DataConfig) -> Splits:
    """Read all splits, by the rules above; blank lines are left out of training and validation, and stay in a test set.

    Raises:
        ConfigError: a file or data set does not exist, or the cache folder cannot be written.
        DataError: the content is wrong, or nothing is left to train on, or nothing is split off.
    """
    train, held_out = _split_off(read_text(config.sources("train"), "train", config, cached=True), config)
    if sources := config.sources("validation"):
        held_out["validation"] = read_text(sources, "validation", config)
    if sources := config.sources("test"):
        held_out["test"] = read_text(sources, "test", config, drop_blank=False)
    if config.drop_duplicates:
        firsts = np.unique(train.pair_keys, return_index=True)[1]
        train = train.select(firsts, "repeats an earlier pair")
    if config.drop_overlap and held_out:
        held_keys = np.concatenate([corpus.source_keys for corpus in held_out.values()])
        train = train.select(~np.isin(train.source_keys, held_keys), "its source is in validation or test too")
    if not len(train):
        what = "; ".join(report.lines()[0] for report in train.reports)
        raise DataError(f"nothing is left to train on of {what}; see data.drop_overlap, and what from_train takes")
    return Splits(train, held_out.get("validation"), held_out.get("test"))


def read_split(config: DataConfig, name: SplitName) -> TextCorpus:
    """Read one split to measure on. Blank lines stay, since a test set keeps its count, but where training was split.

    Raises:
        ConfigError: the config has no such split, a file or data set does not exist, or the cache folder cannot be
            written.
        DataError: the content is wrong, or nothing is split off.
    """
    amounts = _amounts(config)
    if name in amounts or (name == "train" and amounts):
        train, held_out = _split_off(read_text(config.sources("train"), "train", config, cached=True), config)
        return held_out.get(name, train)
    sources = config.sources(name)
    if not sources:
        raise ConfigError(f"data.{name}: expected a corpus, got null; name its files, or choose another split")
    return read_text(sources, name, config, drop_blank=False)


def _amounts(config: DataConfig) -> dict[SplitName, int | float]:
    """What is to be split off training: numbers, or shares, of sentences."""
    held_out: dict[SplitName, object] = {"validation": config.validation, "test": config.test}
    return {name: held.from_train for name, held in held_out.items() if isinstance(held, FromTrain)}


def _split_off(whole: TextCorpus, config: DataConfig) -> tuple[TextCorpus, dict[SplitName, TextCorpus]]:
    """Give what stays in training, and what validation and test get of it."""
    held_out: dict[SplitName, TextCorpus] = {}
    amounts = _amounts(config)
    if not amounts:
        return whole, held_out
    hashes = _mix(whole.source_keys)
    sentences = np.unique(hashes)
    train, stays, begin = whole, np.ones(len(whole), dtype=bool), 0
    for name, amount in amounts.items():
        end = _end_of_range(sentences, begin, amount)
        # whole numbers that fit, since the last range may end beyond the last hash
        taken = (hashes >= np.uint64(begin)) & (hashes <= np.uint64(end - 1)) if end > begin else ~np.ones_like(stays)
        if not taken.any():
            raise DataError(
                f"data.{name}: expected sentences, got none of the {len(sentences)} of data.train by from_train "
                f"{amount}; raise it, or give {name} files of its own"
            )
        held_out[name] = _part(whole, taken)
        train = train.select(~taken[stays], f"split off for {name}")
        stays &= ~taken
        begin = end
    if not len(train):
        raise DataError(
            f"nothing is left to train on: all {len(sentences)} source sentences of data.train are split off by "
            f"{' and '.join(f'data.{name}: {{from_train: {amount}}}' for name, amount in amounts.items())}; lower that"
        )
    return train, held_out


def _end_of_range(sentences: npt.NDArray[np.uint64], begin: int, amount: int | float) -> int:
    """Find the hash before which a range ends that holds so many sentences, or such a share of all hashes.

    Args:
        sentences: [sentences] uint64, hashes in ascending order.
        begin: the hash at which the range begins.
        amount: a number of sentences, or a share.
    """
    if isinstance(amount, float):
        return min(begin + int(amount * _ALL_HASHES), _ALL_HASHES)
    first = int(np.searchsorted(sentences, np.uint64(min(begin, _ALL_HASHES - 1))))
    last = min(first + amount, len(sentences)) - 1
    return int(sentences[last]) + 1 if last >= first else begin


def _part(whole: TextCorpus, taken: npt.NDArray[np.bool_]) -> TextCorpus:
    """The pairs that are split off, with reports that speak of them alone."""
    part = whole.select(taken)
    reports = []
    for number, report in enumerate(part.reports):
        own = part.source_of == number
        pairs, sentences = int(own.sum()), len(np.unique(part.source_keys[own]))
        note = LeftOut.of(f"split off training: {sentences} sentences, {pairs} pairs", part.lines[own].tolist())
        reports.append(CorpusReport(report.name, pairs, (), (note,) if pairs else (), report.unit, report.parts))
    return replace(part, reports=tuple(reports))


def _mix(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hashes of hashes, one to one, so that what is split off hangs on nothing else that is done with the keys."""
    mixed = keys + np.uint64(0x9E3779B97F4A7C15)  # the steps of the generator SplitMix64 (Steele et al. 2014)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
