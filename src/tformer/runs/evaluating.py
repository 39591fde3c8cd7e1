"""`tformer eval`: translate a test set and score it, or score translations that are there."""

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from tformer.config import Config, FilePair
from tformer.data.batching import fixed_batches
from tformer.data.corpus import read_lines
from tformer.data.splits import read_split
from tformer.data.store import TextCorpus, read_text, store_pairs
from tformer.data.toy import make_toy_corpus
from tformer.decoding.score import Evaluation, Recipe, Scores, compare, pronoun_accuracy, read_testset, score_corpus
from tformer.decoding.translator import Translator
from tformer.errors import ConfigError, DataError
from tformer.progress import say
from tformer.runs.models import open_translator, search_name
from tformer.runs.preparing import tokenise_to_measure
from tformer.training.loss import corpus_nll, perplexity

_TOKENS_AT_ONCE = 4096  # a batch where only the loss is measured


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
    _refuse_idle(bool(source and hypothesis), "--source", "a model, not with --hypothesis")
    if bool(source or hypothesis) < bool(references) or bool(source) > bool(references):
        raise ConfigError("give --source and --reference together, or --hypothesis and --reference")
    if sum(map(bool, (split, references, testset))) > 1:
        raise ConfigError("give one test set: --split, or --reference with its partner, or --testset and --langpair")
    if references:
        return OwnFiles(source, tuple(references))
    if testset and langpair:
        return PublicSet(testset, langpair)
    if split not in (None, "train", "validation", "test"):
        raise ConfigError(f"--split: expected train, validation or test, got {split}")
    return split or "test"  # type: ignore[return-value]


def score_file(
    hypothesis: Path,
    test: TestSet,
    recipe: Recipe,
    compare_with: Path | None = None,
    significance: str | None = None,
    **of_models: object,
) -> Evaluation:
    """Score translations that are there already; no model is run.

    Args:
        hypothesis: a file with one translation a line.
        test: files of references, or a public test set.
        recipe: what is measured, and how.
        compare_with: another file of translations, the baseline of a paired significance test.
        significance: which test, bootstrap (also where None) or randomization.
        of_models: options that only a model would heed.

    Raises:
        ConfigError: a file or test set does not exist, or an option has nothing to act on.
        DataError: the files have different numbers of lines, or none.
    """
    _refuse_idle(significance is not None and not compare_with, "--significance", "--compare")
    for option, value in of_models.items():
        _refuse_idle(bool(value), f"--{option.replace('_', '-')}", "a model, not with --hypothesis")
    if isinstance(test, str):  # its references are the model's
        raise ConfigError("--hypothesis goes with --reference, or with --testset and --langpair")
    references = _read_references(test)
    systems = [(str(path), read_lines(path)) for path in (compare_with, hypothesis) if path]
    for path, lines in systems:
        _check_lines(lines, path, len(references[0]), _name(test))
    recipe = _in_language(recipe, test, None)
    return Evaluation(
        about=f"{hypothesis} against {_name(test)}",
        corpus=_name(test),
        scores=_noted(score_corpus(systems[-1][1], references, recipe)),
        versions=_versions("sacrebleu", "sentencepiece"),
        comparison=compare(systems, references, recipe, significance or "bootstrap") if compare_with else None,
    )


def evaluate(
    models: Sequence[Path],
    test: TestSet,
    recipe: Recipe = Recipe(),  # noqa: B008 (it is frozen)
    device: str = "auto",
    compare_with: Path | None = None,
    significance: str | None = None,
    output: Path | None = None,
    **decoding: float | None,
) -> Evaluation:
    """Translate a test set and score it.

    Args:
        models: model folders, which vote; empty: the newest in ./runs.
        test: a split that the model's config names, files, or a public test set.
        recipe: what is measured, and how; without a language, that of the public test set or of the config counts.
        device: where to compute.
        compare_with: another model folder, or a file of translations: the baseline of a paired significance test.
        significance: which test, bootstrap (also where None) or randomization.
        output: where the hypotheses are written, one a line.
        decoding: settings under `decoding` given on the command line.

    Raises:
        ConfigError: a path, split or test set that does not exist, or a recipe that cannot be.
        DataError: a test set that cannot be used.
        CheckpointError: a model folder that cannot be used.
    """
    _refuse_idle(significance is not None and not compare_with, "--significance", "--compare")
    translator, config, used = open_translator(models, device, **decoding)
    recipe = _in_language(recipe, test, config)
    recipe.check()
    corpus, references = _read_test(test, config)
    sources = corpus.sources()
    name = " + ".join(report.name for report in corpus.reports) if isinstance(test, str) else _name(test)
    baseline = _open_baseline(compare_with, len(sources), name, device, **decoding)
    started = time.monotonic()
    hypotheses = translator.translate(sources)
    seconds = time.monotonic() - started
    if output:
        output.write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8", newline="\n")
    comparison = None
    if baseline is not None:
        theirs = baseline.translate(sources) if isinstance(baseline, Translator) else baseline
        systems = [(str(compare_with), theirs), (used, hypotheses)]
        comparison = compare(systems, references, recipe, significance or "bootstrap")
    parts: dict[str, Scores] = {}
    pronouns = None
    if test == "test" and config.data.test == "toy":
        parts, pronouns = _built_in_parts(translator, hypotheses, references[0], recipe)
    return Evaluation(
        about=f"{used}; {name}, {len(sources)} sentences; {search_name(translator)}",
        corpus=name,
        scores=_noted(score_corpus(hypotheses, references, recipe)),
        versions=_versions("torch", "sacrebleu", "sentencepiece"),
        model=used,
        decoding=translator.decoding.model_dump(),
        seconds=seconds,
        perplexity=_perplexity(translator, corpus, config),
        parts=parts,
        pronoun_accuracy=pronouns,
        comparison=comparison,
    )


def _refuse_idle(idle: bool, option: str, partner: str) -> None:
    """Refuse an option that would be heeded by nothing."""
    if idle:
        raise ConfigError(f"{option} goes with {partner}; leave it out")


def _in_language(recipe: Recipe, test: TestSet, config: Config | None) -> Recipe:
    """Give the language that a recipe leaves open: the public test set's, or else the config's."""
    known = config.data.target_lang if config else None
    if isinstance(test, PublicSet):
        known = test.langpair.split("-")[1]
    return recipe if recipe.target_lang else replace(recipe, target_lang=known)


def _read_test(test: TestSet, config: Config) -> tuple[TextCorpus, list[list[str]]]:
    """Read a test set whole, a blank line is a line and counts: pairs with the first reference, and all references."""
    if isinstance(test, PublicSet):
        sources, references = read_testset(test.name, test.langpair)
        return store_pairs(list(zip(sources, references[0], strict=True)), _name(test)), references
    if isinstance(test, OwnFiles):
        assert test.source  # choose_test sees to it
        pair = FilePair(source=test.source, target=test.references[0])
        corpus = read_text([pair], "test", config.data, drop_blank=False)
        references = [corpus.targets()]
        for path in test.references[1:]:
            lines = read_lines(path)
            _check_lines(lines, str(path), corpus.reports[0].pairs_read, str(test.references[0]))
            references.append([lines[number - 1] for number in corpus.lines])
        return corpus, references
    if getattr(config.data, test) is None:
        raise ConfigError(
            f"this model's config names no data.{test}; give --source and --reference, another --split, or --testset"
        )
    corpus = read_split(config.data, test)
    return corpus, [corpus.targets()]


def _read_references(test: OwnFiles | PublicSet) -> list[list[str]]:
    """Read the references alone."""
    if isinstance(test, PublicSet):
        return read_testset(test.name, test.langpair)[1]
    references = [read_lines(path) for path in test.references]
    for path, lines in zip(test.references, references, strict=True):
        _check_lines(lines, str(path), len(references[0]), str(test.references[0]))
    return references


def _name(test: OwnFiles | PublicSet) -> str:
    if isinstance(test, PublicSet):
        return f"{test.name} {test.langpair}"
    return " + ".join(path.name for path in (test.source, *test.references) if path)


def _check_lines(lines: Sequence[str], path: str, expected: int, other: str) -> None:
    """Refuse files that are not line by line each other's translation."""
    if len(lines) != expected:
        raise DataError(
            f"expected as many lines in each file, got {len(lines)} in {path} and {expected} in {other}; find the "
            "line that one of them lost: all after it are shifted"
        )


def _open_baseline(
    path: Path | None, expected: int, name: str, device: str, **decoding: float | None
) -> Translator | list[str] | None:
    """Open what the model is compared with, a model or a file of translations, before anything is translated."""
    if path is None:
        return None
    if not path.is_file():
        return open_translator([path], device, **decoding)[0]
    lines = read_lines(path)
    _check_lines(lines, str(path), expected, name)
    return lines


def _perplexity(translator: Translator, corpus: TextCorpus, config: Config) -> float | None:
    """Compute exp of the loss a piece, label smoothing left out; of several models that vote there is none."""
    if len(translator.models) > 1:
        return None
    batches = fixed_batches(tokenise_to_measure(corpus, translator.tokenizers, config), _TOKENS_AT_ONCE)
    return perplexity(corpus_nll(translator.models[0], batches, translator.device))


def _built_in_parts(
    translator: Translator, hypotheses: Sequence[str], references: Sequence[str], recipe: Recipe
) -> tuple[dict[str, Scores], float | None]:
    """Score the built-in corpus's parts apart, and its pronouns where the target language is French."""
    corpus = make_toy_corpus()
    parts = {
        name: score_corpus([hypotheses[index] for index in part], [[references[index] for index in part]], recipe)
        for name, part in corpus.parts.items()
    }
    if recipe.target_lang != "fr":
        return parts, None
    return parts, pronoun_accuracy(translator.translate(item.source for item in corpus.pronouns), corpus.pronouns)


def _versions(*libraries: str) -> dict[str, str]:
    """Name the versions that had a part in a score."""
    return {**{name: version(name) for name in ("tformer", *libraries)}, "python": platform.python_version()}


def _noted(scores: Scores) -> Scores:
    for note in scores.notes:
        say(note)
    return scores
