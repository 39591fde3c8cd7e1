"""`tformer report`: a page of one run, or of two side by side, as far as they have come."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from tformer.config import Config, load_config
from tformer.data.splits import read_split
from tformer.data.store import TextCorpus
from tformer.data.tokenizer import TokenizerPair
from tformer.decoding.score import Evaluation, Recipe, score_corpus, sentence_chrf
from tformer.errors import ConfigError, TformerError
from tformer.inspection.report_page import report_page
from tformer.inspection.report_quality import Group, System, by_length, by_rarest_word, count_words, has_words
from tformer.inspection.report_run import RunRecord, read_run
from tformer.inspection.report_test import Examination, Paired, Score
from tformer.model import Transformer
from tformer.progress import say
from tformer.runs.evaluating import evaluate
from tformer.runs.models import newest_run
from tformer.runs.testsets import read_test
from tformer.training.checkpoint import ModelFolder
from tformer.training.lock import holder

_NAMES = {"bleu": "BLEU", "chrf": "chrF"}


def report(model: Path | None, compare_with: Path | None, output: Path, device: str) -> Path:
    """Write the page, and give its path.

    The test set is translated anew, if there is a checkpoint and the test set can be read; else the page says why not.

    Args:
        model: the run's folder; None: the one in ./runs that was written to last.
        compare_with: the folder of a baseline.
        output: where the page goes.
        device: where to translate.

    Raises:
        ConfigError: no such run, settings that cannot be read, or no such device.
    """
    folder = ModelFolder(model) if model else newest_run()
    folders = [ModelFolder(compare_with), folder] if compare_with else [folder]
    names = [each.path.resolve().name for each in folders]
    if len(set(names)) < len(names):
        names = [str(each.path) for each in folders]
    runs = [_read(*each) for each in zip(names, folders, strict=True)]
    output.write_text(report_page(runs, _look_at_test(runs, device)), encoding="utf-8")
    return output


def _read(name: str, folder: ModelFolder) -> RunRecord:
    if not folder.holds_model():
        raise ConfigError(f"{folder.path}: expected the folder of a run, found no {folder.config.name} in it")
    config = load_config(folder.config)
    return read_run(name, folder.path, _num_parameters(folder, config), holder(folder.path))


def _num_parameters(folder: ModelFolder, config: Config) -> int | None:
    """Count the model's parameters without making it; None where its vocabulary cannot be read."""
    try:
        tokenizers = TokenizerPair.load(folder.path)
    except TformerError:
        return None
    with torch.device("meta"):
        model = Transformer(config.model, tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return model.num_parameters()


def _look_at_test(runs: Sequence[RunRecord], device: str) -> Examination | str:
    """Translate the test set and look where that is good; or say in a sentence why it cannot be."""
    *baseline, run = runs
    config = run.config
    if not ModelFolder(run.folder).steps():
        return "There is no checkpoint yet that could translate the test set."
    try:
        corpus, [references] = read_test("test", config)
        say(f"translating {len(corpus)} sentences of the test set")
        compare_with = baseline[0].folder if baseline else None
        found = evaluate([run.folder], "test", device=device, compare_with=compare_with)
    except (TformerError, OSError) as error:  # the latter where a run that goes on removes what is being read
        say(f"no test set in the report: {error}")
        return f"The test set was not translated: {error}"
    recipe = Recipe(config.data.target_lang)
    translated = zip(runs, found.systems, strict=True)
    systems = [_system(each.name, texts, references, recipe) for each, (_, texts) in translated]
    tokenizer = TokenizerPair.load(run.folder).source
    lengths = [len(ids) for ids in tokenizer.encode_batch(corpus.sources())]
    return Examination(
        about=found.about,
        scores=_scores(found),
        sources=corpus.sources(),
        references=references,
        systems=systems,
        by_length=by_length(lengths, systems),
        by_rarity=_by_rarity(corpus, config, systems),
        comparison=_comparison(found),
    )


def _system(name: str, translations: list[str], references: list[str], recipe: Recipe) -> System:
    return System(
        name,
        translations,
        sentence_chrf(translations, references, recipe),
        partial(_score_some, translations, references, recipe),
    )


def _score_some(
    translations: Sequence[str], references: Sequence[str], recipe: Recipe, indices: Sequence[int]
) -> tuple[float, float]:
    some = score_corpus([translations[index] for index in indices], [[references[index] for index in indices]], recipe)
    return some.bleu, some.chrf


def _by_rarity(corpus: TextCorpus, config: Config, systems: Sequence[System]) -> list[Group] | str:
    sources = corpus.sources()
    if not has_words(sources):
        return "The source language is written without spaces between words."
    try:
        training = read_split(config.data, "train")
    except TformerError as error:
        return f"The training corpus, whose words would be counted, cannot be read: {error}"
    counts = count_words(sources, (text for piece in training.pieces() for text in piece.column(0).to_pylist()))
    return by_rarest_word(sources, counts, systems)


def _scores(found: Evaluation) -> list[Score]:
    scores = found.scores
    rows = [
        Score("BLEU", f"{scores.bleu:.2f}", scores.signature),
        Score("chrF", f"{scores.chrf:.2f}", scores.chrf_signature),
    ]
    for name, part in found.parts.items():
        rows.append(Score(f"BLEU, {name}, {part.sentences} sentences", f"{part.bleu:.2f}", part.signature))
    if found.pronoun_accuracy is not None:
        rows.append(Score("pronouns", f"{100 * found.pronoun_accuracy:.2f} %", "right in minimal pairs"))
    if found.perplexity is not None:
        rows.append(Score("perplexity", f"{found.perplexity:.2f}", "a piece, the right prefix given"))
    return rows


def _comparison(found: Evaluation) -> list[Paired]:
    if found.comparison is None:
        return []
    rows = []
    for metric, signature in found.comparison.signatures.items():
        scores = [system.scores[metric] for system in found.comparison.systems]
        values = [f"{each.score:.2f} ± {each.ci:.2f}" for each in scores]
        rows.append(Paired(_NAMES[metric], values, float(scores[-1].p_value or 0), signature))
    return rows
