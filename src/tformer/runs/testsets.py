"""Test sets for `tformer eval`: which one the command line names, and its sentences and references."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tformer.config import Config, FilePair
from tformer.data.corpus import read_lines
from tformer.data.splits import read_split
from tformer.data.store import TextCorpus, read_text, store_pairs
from tformer.decoding.score import read_testset
from tformer.errors import ConfigError, DataError


@dataclass(frozen=True)
class OwnFiles:
    """A test set in files: sentences, and their translations by one translator or several, a file each."""

    source: Path | None  # None where the translations to score are there already
    references: tuple[Path, ...]


@dataclass(frozen=True)
class PublicSet:
    """A test set that sacreBLEU knows, such as wmt14 and en-de."""

    name: str
    langpair: str


TestSet = Literal["train", "validation", "test"] | OwnFiles | PublicSet


def choose_test(
    split: str | None,
    source: Path | None,
    references: Sequence[Path],
    testset: str | None,
    langpair: str | None,
    hypothesis: Path | None = None,
) -> TestSet:
    """Decide what to evaluate on, by what the command line names: a split of the model's config, files, a public set.

    Raises:
        ConfigError: the options name nothing, or two things, or what does not go with translations that are there.
    """
    if (testset is None) != (langpair is None):
        raise ConfigError("give --testset and --langpair together")
    if hypothesis:
        refuse_beside_hypothesis(source=source, split=split)
    elif (source is None) != (not references):
        raise ConfigError("give --source and --reference together, or --hypothesis and --reference")
    if sum(map(bool, (split, references, testset))) > 1:
        raise ConfigError("give one test set: --split, or --source and --reference, or --testset and --langpair")
    if references:
        return OwnFiles(source, tuple(references))
    if testset and langpair:
        return PublicSet(testset, langpair)
    if split not in (None, "train", "validation", "test"):
        raise ConfigError(f"--split: expected train, validation or test, got {split}")
    return split or "test"  # type: ignore[return-value]


def read_test(test: TestSet, config: Config) -> tuple[TextCorpus, list[list[str]]]:
    """Read a test set whole, a blank line is a line and counts: pairs with the first reference, and all references.

    Raises:
        ConfigError: the config has no such split, or a file or public test set does not exist.
        DataError: the content is wrong, or files have different numbers of lines.
    """
    if isinstance(test, PublicSet):
        sources, references = read_testset(test.name, test.langpair)
        return store_pairs(list(zip(sources, references[0], strict=True)), name_of(test)), references
    if isinstance(test, OwnFiles):
        assert test.source  # choose_test sees to it
        pair = FilePair(source=test.source, target=test.references[0])
        corpus = read_text([pair], "test", config.data, drop_blank=False)
        references = [corpus.targets()]
        for path in test.references[1:]:
            lines = read_lines(path)
            check_lines(lines, str(path), corpus.reports[0].pairs_read, str(test.references[0]))
            references.append([lines[number - 1] for number in corpus.lines])
        return corpus, references
    if getattr(config.data, test) is None:
        raise ConfigError(
            f"this model's config names no data.{test}; give --source and --reference, another --split, or --testset"
        )
    corpus = read_split(config.data, test)
    return corpus, [corpus.targets()]


def read_references(test: OwnFiles | PublicSet) -> list[list[str]]:
    """Read the references alone, a list for each translator.

    Raises:
        ConfigError: a file or public test set does not exist.
        DataError: the content is wrong, or files have different numbers of lines.
    """
    if isinstance(test, PublicSet):
        return read_testset(test.name, test.langpair)[1]
    references = [read_lines(path) for path in test.references]
    for path, lines in zip(test.references, references, strict=True):
        check_lines(lines, str(path), len(references[0]), str(test.references[0]))
    return references


def name_of(test: OwnFiles | PublicSet) -> str:
    """Give what a reader of a score calls the test set."""
    if isinstance(test, PublicSet):
        return f"{test.name} {test.langpair}"
    return " + ".join(path.name for path in (test.source, *test.references) if path)


def check_lines(lines: Sequence[str], path: str, expected: int, other: str) -> None:
    """Refuse files that are not line by line each other's translation.

    Raises:
        DataError: `path` has other than the `expected` lines of `other`.
    """
    if len(lines) != expected:
        raise DataError(
            f"expected as many lines in each file, got {len(lines)} in {path} and {expected} in {other}; find the "
            "line that one of them lost: all after it are shifted"
        )


def refuse_beside_hypothesis(**of_models: object) -> None:
    """Refuse options that translations in a file leave nothing to do; None are those not given.

    Raises:
        ConfigError: one is given.
    """
    for option, value in of_models.items():
        if value is not None:
            raise ConfigError(
                f"--{option.replace('_', '-')} is for a model, and --hypothesis runs none; leave one of them out"
            )
