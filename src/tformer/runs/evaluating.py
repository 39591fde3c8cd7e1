"""`tformer eval`: translate a test set and score it, or score translations that are there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tformer.config import Config, FilePair, Source
from tformer.data.batching import fixed_batches
from tformer.data.corpus import Corpus, CorpusReport, read_corpus, read_lines
from tformer.data.toy import make_toy_corpus
from tformer.decoding.score import Evaluation, Scores, compare, pronoun_accuracy, read_testset, score_corpus
from tformer.decoding.translator import Translator
from tformer.errors import ConfigError
from tformer.progress import say
from tformer.runs.measuring import tokenise_to_measure
from tformer.runs.models import open_translator, search_name
from tformer.training.loss import corpus_nll, perplexity

_TOKENS_AT_ONCE = 4096  # a batch where only the loss is measured

TestSet = Literal["train", "validation", "test"] | FilePair | tuple[str, str]


def choose_test(
    split: str, source: Path | None, reference: Path | None, testset: str | None, langpair: str | None
) -> TestSet:
    """Decide what to evaluate on, by what the command line names.

    Raises:
        ConfigError: the options name nothing, or two things.
    """
    if (source is None) != (reference is None) or (testset is None) != (langpair is None) or (source and testset):
        raise ConfigError("give --source and --reference together, or --testset and --langpair together, or neither")
    if source and reference:
        return FilePair(source=source, target=reference)
    if testset and langpair:
        return testset, langpair
    if split not in ("train", "validation", "test"):
        raise ConfigError(f"--split: expected train, validation or test, got {split}")
    return split  # type: ignore[return-value]


def score_file(hypothesis: Path, reference: Path, target_lang: str | None) -> Evaluation:
    """Score translations that are there already; no model is run.

    Raises:
        ConfigError: a file does not exist.
        DataError: the files have different numbers of lines, or none.
    """
    scores = score_corpus(read_lines(hypothesis), read_lines(reference), target_lang)
    return Evaluation(f"{hypothesis} against {reference}", _noted(scores))


def evaluate(
    models: Sequence[Path],
    test: TestSet,
    device: str,
    compare_with: Path | None = None,
    target_lang: str | None = None,
    output: Path | None = None,
    **decoding: float | None,
) -> Evaluation:
    """Translate a test set and score it.

    Args:
        models: model folders, which vote; empty: the newest in ./runs.
        test: a split that the model's config names, two files, or name and language pair of a sacreBLEU test set.
        device: where to compute.
        compare_with: another model folder, the baseline of a paired bootstrap test.
        target_lang: what decides on BLEU's tokenizer; None: the config's.
        output: where the hypotheses are written, one a line.
        decoding: settings under `decoding` given on the command line.

    Raises:
        ConfigError: a path, split or test set that does not exist.
        DataError: a test set that cannot be used.
        CheckpointError: a model folder that cannot be used.
    """
    translator, config, used = open_translator(models, device, **decoding)
    corpus = _test_corpus(test, config)
    sources, references = (list(side) for side in zip(*corpus.pairs, strict=True))
    hypotheses = translator.translate(sources)
    if output:
        output.write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8", newline="\n")
    language = target_lang or config.data.target_lang
    comparison = None
    if compare_with:
        baseline, _, _ = open_translator([compare_with], device, **decoding)
        systems = {str(compare_with): baseline.translate(sources), used: hypotheses}
        comparison = compare(systems, references, language)
    measured = None
    if len(translator.models) == 1:
        batches = fixed_batches(tokenise_to_measure(corpus, translator.tokenizers, config), _TOKENS_AT_ONCE)
        measured = perplexity(corpus_nll(translator.models[0], batches, translator.device))
    parts: dict[str, Scores] = {}
    pronouns = None
    if test == "test" and config.data.test == "toy":
        parts, pronouns = _built_in_parts(translator, hypotheses, references, config)
    return Evaluation(
        f"{used}; {corpus.report.name}, {len(sources)} sentences; {search_name(translator)}",
        _noted(score_corpus(hypotheses, references, language)),
        measured,
        parts,
        pronouns,
        comparison,
    )


def _test_corpus(test: TestSet, config: Config) -> Corpus:
    """Read a test set whole: a blank line is a line, and counts."""
    if isinstance(test, FilePair):
        return read_corpus(test, "test", config.data, drop_blank=False)
    if isinstance(test, tuple):
        pairs = list(zip(*read_testset(*test), strict=True))
        return Corpus(pairs, list(range(1, len(pairs) + 1)), CorpusReport(" ".join(test), len(pairs)))
    source: Source | None = getattr(config.data, test)
    if source is None:
        raise ConfigError(
            f"this model's config names no data.{test}; give --source and --reference, another --split, or --testset"
        )
    return read_corpus(source, test, config.data, drop_blank=False)


def _built_in_parts(
    translator: Translator, hypotheses: Sequence[str], references: Sequence[str], config: Config
) -> tuple[dict[str, Scores], float | None]:
    """Score the built-in corpus's parts apart, and its pronouns where the target language is French."""
    corpus, language = make_toy_corpus(), config.data.target_lang
    parts = {
        name: score_corpus([hypotheses[index] for index in part], [references[index] for index in part], language)
        for name, part in corpus.parts.items()
    }
    if language != "fr":
        return parts, None
    return parts, pronoun_accuracy(translator.translate(item.source for item in corpus.pronouns), corpus.pronouns)


def _noted(scores: Scores) -> Scores:
    for note in scores.notes:
        say(note)
    return scores
