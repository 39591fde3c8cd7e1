"""`tformer eval`: translate a test set and score it, or score translations that are there."""

import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from tformer.config import Config
from tformer.data.batching import fixed_batches
from tformer.data.corpus import read_lines
from tformer.data.store import TextCorpus
from tformer.data.toy import make_toy_corpus
from tformer.decoding.score import TESTS, Evaluation, Recipe, Scores, compare, pronoun_accuracy, score_corpus
from tformer.decoding.translator import Translator
from tformer.errors import ConfigError
from tformer.progress import say
from tformer.runs.models import open_translator, search_name
from tformer.runs.preparing import tokenise_to_measure
from tformer.runs.testsets import (
    OwnFiles,
    PublicSet,
    TestSet,
    check_lines,
    name_of,
    read_references,
    read_test,
    refuse_beside_hypothesis,
)
from tformer.training.distributed import ALONE, Processes
from tformer.training.loss import corpus_nll, perplexity

_TOKENS_AT_ONCE = 4096  # a batch where only the loss is measured


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
        of_models: options that only a model would heed; None where they are not given.

    Raises:
        ConfigError: a file or test set does not exist, or an option has nothing to act on.
        DataError: the files have different numbers of lines, or none.
    """
    _check_test(significance, compare_with)
    refuse_beside_hypothesis(**of_models)
    if isinstance(test, str):  # its references are the model's
        raise ConfigError("--hypothesis goes with --reference, or with --testset and --langpair")
    references = read_references(test)
    systems = [(str(path), read_lines(path)) for path in (compare_with, hypothesis) if path]
    whole = str(test.references[0]) if isinstance(test, OwnFiles) else name_of(test)
    for path, lines in systems:
        check_lines(lines, path, len(references[0]), whole)
    recipe = _in_language(recipe, test, None)
    return Evaluation(
        about=f"{hypothesis} against {name_of(test)}",
        corpus=name_of(test),
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
    processes: Processes = ALONE,
    **decoding: float | None,
) -> Evaluation:
    """Translate a test set and score it; several processes share the work, and each gets the whole result.

    Args:
        models: model folders, which vote; empty: the newest in ./runs.
        test: a split that the model's config names, files, or a public test set.
        recipe: what is measured, and how; without a language, that of the public test set or of the config counts.
        device: where to compute.
        compare_with: another model folder, or a file of translations: the baseline of a paired significance test.
        significance: which test, bootstrap (also where None) or randomization.
        output: where the hypotheses are written, one a line.
        processes: who takes part.
        decoding: settings under `decoding` given on the command line.

    Raises:
        ConfigError: a path, split or test set that does not exist, or a recipe that cannot be.
        DataError: a test set that cannot be used.
        CheckpointError: a model folder that cannot be used.
    """
    _check_test(significance, compare_with)
    device = processes.device(device)
    translator, config, used = open_translator(models, device, **decoding)
    recipe = _in_language(recipe, test, config)
    recipe.check()
    corpus, references = read_test(test, config)
    sources = corpus.sources()
    name = " + ".join(report.name for report in corpus.reports) if isinstance(test, str) else name_of(test)
    baseline = _open_baseline(compare_with, len(sources), name, device, **decoding)
    started = time.monotonic()
    hypotheses = _translate(translator, sources, processes)
    seconds = time.monotonic() - started
    if output and processes.is_primary:
        output.write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8", newline="\n")
    systems = [(used, hypotheses)]
    comparison = None
    if baseline is not None:
        theirs = _translate(baseline, sources, processes) if isinstance(baseline, Translator) else baseline
        systems.insert(0, (str(compare_with), theirs))
        comparison = compare(systems, references, recipe, significance or "bootstrap")
    parts: dict[str, Scores] = {}
    pronouns = None
    if test == "test" and config.data.test == "toy":
        parts, pronouns = _built_in_parts(translator, hypotheses, references[0], recipe, processes)
    return Evaluation(
        about=f"{used}; {name}, {len(sources)} sentences; {search_name(translator)}",
        corpus=name,
        scores=_noted(score_corpus(hypotheses, references, recipe)),
        versions=_versions("torch", "sacrebleu", "sentencepiece"),
        model=used,
        decoding=translator.decoding.model_dump(),
        seconds=seconds,
        perplexity=_perplexity(translator, corpus, config, processes),
        parts=parts,
        pronoun_accuracy=pronouns,
        comparison=comparison,
        systems=systems,
    )


def _translate(translator: Translator, sources: Sequence[str], processes: Processes) -> list[str]:
    """Translate what is this process's share, and give all translations, in order."""
    return processes.joined(translator.translate(processes.share(sources)))


def _check_test(significance: str | None, compare_with: Path | None) -> None:
    """Refuse a significance test that there is not, before anything is translated, or one without a baseline."""
    if significance not in (None, *TESTS):
        raise ConfigError(f"--significance: expected {' or '.join(TESTS)}, got {significance}")
    if significance and not compare_with:
        raise ConfigError("--significance says how to --compare; give both, or neither")


def _in_language(recipe: Recipe, test: TestSet, config: Config | None) -> Recipe:
    """Give the language that a recipe leaves open: the public test set's, or else the config's."""
    known = config.data.target_lang if config else None
    if isinstance(test, PublicSet):
        known = test.langpair.split("-")[1]
    return recipe if recipe.target_lang else replace(recipe, target_lang=known)


def _open_baseline(
    path: Path | None, expected: int, name: str, device: str, **decoding: float | None
) -> Translator | list[str] | None:
    """Open what the model is compared with, a model or a file of translations, before anything is translated."""
    if path is None:
        return None
    if not path.is_file():
        return open_translator([path], device, **decoding)[0]
    lines = read_lines(path)
    check_lines(lines, str(path), expected, name)
    return lines


def _perplexity(translator: Translator, corpus: TextCorpus, config: Config, processes: Processes) -> float | None:
    """Compute exp of the loss a piece, label smoothing left out; of several models that vote there is none."""
    if len(translator.models) > 1:
        return None
    batches = fixed_batches(tokenise_to_measure(corpus, translator.tokenizers, config), _TOKENS_AT_ONCE)
    return perplexity(corpus_nll(translator.models[0], batches, translator.device, processes))


def _built_in_parts(
    translator: Translator,
    hypotheses: Sequence[str],
    references: Sequence[str],
    recipe: Recipe,
    processes: Processes,
) -> tuple[dict[str, Scores], float | None]:
    """Score the built-in corpus's parts apart, and its pronouns where the target language is French."""
    corpus = make_toy_corpus()
    parts = {
        name: score_corpus([hypotheses[index] for index in part], [[references[index] for index in part]], recipe)
        for name, part in corpus.parts.items()
    }
    if recipe.target_lang != "fr":
        return parts, None
    translated = _translate(translator, [item.source for item in corpus.pronouns], processes)
    return parts, pronoun_accuracy(translated, corpus.pronouns)


def _versions(*libraries: str) -> dict[str, str]:
    """Name the versions that had a part in a score."""
    return {**{name: version(name) for name in ("tformer", *libraries)}, "python": platform.python_version()}


def _noted(scores: Scores) -> Scores:
    for note in scores.notes:
        say(note)
    return scores
