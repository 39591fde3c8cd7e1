"""One function per command: the only module that sees everything, and puts the parts together.

Each takes what the command line parsed and gives back a value; printing results is the command line's own.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch

from tformer.config import Config, FilePair, Source, differences, dump_config, load_config
from tformer.data.batching import BatchStream, fixed_batches
from tformer.data.corpus import Corpus, CorpusReport, arriving_lines, read_corpus, read_lines
from tformer.data.store import TokenisedCorpus, tokenise
from tformer.data.tokenizer import Tokenizer
from tformer.data.toy import make_toy_corpus
from tformer.decoding.score import Evaluation, Scores, compare, pronoun_accuracy, read_testset, score_corpus
from tformer.decoding.translator import Translation, Translator, open_models
from tformer.errors import ConfigError
from tformer.model import Transformer
from tformer.progress import say
from tformer.runtime import Runtime, describe_machine, prepare
from tformer.training.checkpoint import ModelFolder, load_into, load_state
from tformer.training.loop import Trainer, Validation
from tformer.training.loss import corpus_nll, perplexity

RUNS = Path("runs")
_SAMPLES = 2  # translations shown at each validation
_TOKENS_AT_ONCE = 4096  # a batch where only the loss is measured
_LINES_AT_ONCE = 2000  # of a file: enough to find sentences of like length, few enough to see results come


# ---- train ----


def train(
    config_path: str | None, overrides: Sequence[str], output: Path | None, resume: bool, overwrite: bool
) -> ModelFolder:
    """Run all stages, from text to a trained model in a folder.

    Args:
        config_path: a config file, or the name of a shipped one; None: base.yaml, or on resume the folder's own.
        overrides: "key=value" settings that come last.
        output: the model folder; None: runs/ and the config's name.
        resume: go on where the folder's newest checkpoint stands.
        overwrite: replace a model that is there.

    Raises:
        ConfigError: settings, paths or options that cannot be.
        DataError: a corpus that cannot be used.
        CheckpointError: nothing that can be resumed with these settings.
    """
    folder = ModelFolder(output or RUNS / Path(config_path or "base.yaml").stem)
    if folder.path.is_file():
        raise ConfigError(f"{folder.path}: expected a folder for the model, got a file; give another --output")
    if resume and config_path is None and folder.holds_model():
        config_path = str(folder.config)
    config = load_config(config_path, overrides)
    if folder.holds_model() and not (resume or overwrite):
        raise ConfigError(
            f"{folder.path} holds a model already; give --resume to go on with it, --overwrite to replace it, "
            "or another --output"
        )
    newest = _newest_checkpoint(folder, config) if resume else None
    runtime = prepare(config.device, config.precision, config.threads)
    if newest and _is_over(newest[1], config):
        return folder
    say(runtime.reasons)
    corpus = _read_split(config.data.train, "train", config)
    held_out = None
    if config.data.validation is None:
        say("data.validation is not set: nothing to measure on while training")
    else:
        held_out = _read_split(config.data.validation, "validation", config)
    tokenizer = Tokenizer.load(folder.tokenizer) if newest else _train_tokenizer(config, corpus)
    limit = min(config.data.max_length, config.training.max_tokens_per_batch)
    training = _tokenise(corpus, tokenizer, limit)
    _open_folder(folder, config, tokenizer, runtime, resumed=newest is not None)

    torch.manual_seed(config.seed)
    model = Transformer(config.model, tokenizer.vocab_size).to(runtime.device)
    say(f"model: {model.num_parameters():,} parameters, vocabulary {tokenizer.vocab_size}")
    stream = BatchStream(training, config.training.max_tokens_per_batch, config.seed)
    say(f"{len(training)} pairs in {stream.batches_per_epoch} batches an epoch")
    validate = _validator(held_out, model, tokenizer, config) if held_out else None
    trainer = Trainer(model, stream, config.training, runtime, folder, validate)
    if newest:
        load_into(model, newest[0])
        trainer.resume(newest[1])
        say(f"resumed {folder.path} at step {trainer.state.step}")
    say(trainer.train())
    return folder


def _newest_checkpoint(folder: ModelFolder, config: Config) -> tuple[Path, dict[str, Any]] | None:
    """Find what to resume from, and refuse settings that its weights cannot follow."""
    steps = folder.steps()
    if not steps:
        say(f"{folder.path} has no checkpoint to resume from; starting from the beginning")
        return None
    former = load_config(folder.config)
    changed = differences(former, config)
    fixed = [line for key, line in changed.items() if key.startswith(("model.", "tokenizer.")) or key.endswith("_lang")]
    if fixed:
        raise ConfigError(
            f"{folder.path} was trained with other settings that its weights depend on ({'; '.join(fixed)}); "
            "take them back, or start afresh in another --output"
        )
    for line in changed.values():
        say(f"changed since the run began: {line}; the new value counts")
    checkpoint = folder.checkpoint(steps[-1])
    return checkpoint, load_state(checkpoint)


def _is_over(checkpoint: dict[str, Any], config: Config) -> bool:
    """Tell, aloud, whether a resumed run has nothing left to do."""
    step = checkpoint["state"]["step"]
    if step < config.training.max_steps:
        return False
    say(f"already at step {step} of {config.training.max_steps}; raise training.max_steps to train on")
    return True


def _read_split(source: Source, split: Literal["train", "validation"], config: Config) -> Corpus:
    corpus = read_corpus(source, split, config.data)
    for line in corpus.report.lines():
        say(f"{split}: {line}")
    return corpus


def _train_tokenizer(config: Config, corpus: Corpus) -> Tokenizer:
    tokenizer = Tokenizer.train((text for pair in corpus.pairs for text in pair), config.tokenizer)
    if tokenizer.note:
        say(f"tokenizer: {tokenizer.note}")
    say(f"tokenizer: {config.tokenizer.algorithm}, normalisation {config.tokenizer.normalization}")
    return tokenizer


def _tokenise(corpus: Corpus, tokenizer: Tokenizer, limit: int) -> TokenisedCorpus:
    tokenised = tokenise(corpus, tokenizer, limit)
    lost = len(corpus.pairs) - len(tokenised)
    if lost:
        say(f"train: {tokenised.report.lines()[0]}")
    if lost > len(corpus.pairs) // 20:
        say(
            f"WARNING: {lost} of {len(corpus.pairs)} pairs are longer than {limit} pieces; "
            "raise data.max_length to keep them"
        )
    return tokenised


def _open_folder(folder: ModelFolder, config: Config, tokenizer: Tokenizer, runtime: Runtime, resumed: bool) -> None:
    """Write what a model folder holds besides weights; only now, when nothing of the input can fail any more."""
    if not resumed:
        folder.clear()
    folder.path.mkdir(parents=True, exist_ok=True)
    tokenizer.save(folder.tokenizer)
    folder.config.write_text(dump_config(config), encoding="utf-8")
    facts = {
        "tformer": version("tformer"),
        **describe_machine(),
        **{name: version(name) for name in ("numpy", "sentencepiece", "sacrebleu", "safetensors")},
        "device": str(runtime.device),
        "precision": runtime.precision,
        "threads": runtime.threads,
        "seed": config.seed,
        "tokenizer_sha256": tokenizer.fingerprint,
    }
    folder.environment.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _validator(corpus: Corpus, model: Transformer, tokenizer: Tokenizer, config: Config) -> Callable[[], Validation]:
    """Make the measurement that training asks for: teacher-forced loss, and BLEU of greedily decoded text."""
    sources, references = (list(side) for side in zip(*corpus.pairs, strict=True))
    tokenised = _tokenise_to_measure(corpus, tokenizer, config)
    greedy = config.decoding.model_copy(update={"beam_size": 1})

    def validate() -> Validation:
        translator = Translator([model], tokenizer, greedy, config.data.max_length)
        batches = fixed_batches(tokenised, config.training.max_tokens_per_batch)
        nll = corpus_nll(model, batches, translator.device)
        hypotheses = translator.translate(sources)
        bleu = score_corpus(hypotheses, references, config.data.target_lang).bleu
        samples = list(zip(sources, references, hypotheses, strict=True))[:_SAMPLES]
        return Validation(nll, perplexity(nll), bleu, samples)

    return validate


def _tokenise_to_measure(corpus: Corpus, tokenizer: Tokenizer, config: Config) -> TokenisedCorpus:
    """Give every pair as ids, however long, except where learned positions end before it does."""
    tokenised = tokenise(corpus, tokenizer, config.model.max_positions if config.model.positions == "learned" else None)
    if len(tokenised) < len(corpus.pairs):
        say(f"perplexity: {tokenised.report.lines()[0]}")
    return tokenised


# ---- load ----


def load(*models: str | Path, device: str = "auto", **decoding: float | None) -> Translator:
    """Open trained models as one translator; several vote.

    Args:
        models: model folders; none: the newest in ./runs.
        device: where to compute: auto, cpu, cuda, cuda:N or mps.
        decoding: settings under `decoding` that replace the first model's own; None leaves them.

    Raises:
        ConfigError: no such folder or device.
        CheckpointError: a folder that holds no model, or models that cannot vote together.
    """
    return _open([Path(model) for model in models], device, **decoding)[0]


def _open(models: Sequence[Path], device: str, **decoding: float | None) -> tuple[Translator, Config, str]:
    return open_models([ModelFolder(model) for model in models] or [newest_model()], device, **decoding)


def newest_model() -> ModelFolder:
    """Find the model in ./runs that was written to last.

    Raises:
        ConfigError: there is none.
    """
    folders = [ModelFolder(path) for path in RUNS.iterdir()] if RUNS.is_dir() else []
    trained = [folder for folder in folders if folder.holds_model() and folder.steps()]
    if not trained:
        raise ConfigError(f"no model in {RUNS.absolute()}; train one (tformer train), or name its folder with --model")
    return max(trained, key=lambda folder: folder.checkpoint(folder.steps()[-1]).stat().st_mtime)


# ---- translate ----


def translate(
    texts: Sequence[str],
    models: Sequence[Path],
    input_path: str | None,
    device: str,
    n_best: int,
    sentences_at_once: int | None,
    **decoding: float | None,
) -> Iterator[tuple[int, str, list[Translation]]]:
    """Translate arguments, a file or standard input, line by line as they come.

    Args:
        texts: lines given as arguments; empty: `input_path` is read.
        models: model folders; empty: the newest in ./runs.
        input_path: a text file; "-" or None: standard input.
        device: where to compute.
        n_best: translations of each line.
        sentences_at_once: the largest batch; None: chosen.
        decoding: settings under `decoding` given on the command line.

    Returns:
        As they come: line number from 1, the line, its translations, best first. All that can be refused has been by
        then.

    Raises:
        ConfigError: options that cannot stand together, or a path that does not exist.
        CheckpointError: a model folder that cannot be used.
    """
    if texts and input_path:
        raise ConfigError("TEXT and --input were both given; give one of them")
    groups: Iterable[Sequence[str]] = [list(texts)]
    if not texts:
        groups = _standard_input() if input_path in (None, "-") else _cut(read_lines(Path(str(input_path))))
    translator, _, used = _open(models, device, **decoding)
    beam_size = translator.decoding.beam_size
    if n_best > beam_size:
        raise ConfigError(f"--n-best {n_best} needs a beam of at least {n_best}; now it is {beam_size} (--beam)")
    say(f"model: {used}; {_search_name(translator)}")
    batch = {} if sentences_at_once is None else {"sentences_at_once": sentences_at_once}

    def translated() -> Iterator[tuple[int, str, list[Translation]]]:
        number = 0
        for lines in groups:
            for line, found in zip(lines, translator.translations(lines, n_best, **batch), strict=True):
                number += 1
                _warn(number, found[0], translator.max_source_length)
                yield number, line, found

    return translated()


def _warn(number: int, best: Translation, limit: int) -> None:
    if best.source_cut is not None:
        say(f"line {number}: {best.source_cut} pieces, cut to the {limit - 1} that the model reads (data.max_length)")
    if not best.finished:
        limit_name = "decoding.max_extra_tokens or max_length"
        say(f"line {number}: the translation was cut at {len(best.tokens)} pieces ({limit_name})")


def _standard_input() -> Iterator[list[str]]:
    return arriving_lines(sys.stdin.buffer, "standard input", _LINES_AT_ONCE)


def _cut(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(lines), _LINES_AT_ONCE):
        yield lines[start : start + _LINES_AT_ONCE]


# ---- eval ----


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
    translator, config, used = _open(models, device, **decoding)
    corpus = _test_corpus(test, config)
    sources, references = (list(side) for side in zip(*corpus.pairs, strict=True))
    hypotheses = translator.translate(sources)
    if output:
        output.write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8", newline="\n")
    language = target_lang or config.data.target_lang
    comparison = None
    if compare_with:
        baseline, _, _ = _open([compare_with], device, **decoding)
        systems = {str(compare_with): baseline.translate(sources), used: hypotheses}
        comparison = compare(systems, references, language)
    measured = None
    if len(translator.models) == 1:
        batches = fixed_batches(_tokenise_to_measure(corpus, translator.tokenizer, config), _TOKENS_AT_ONCE)
        measured = perplexity(corpus_nll(translator.models[0], batches, translator.device))
    parts: dict[str, Scores] = {}
    pronouns = None
    if test == "test" and config.data.test == "toy":
        parts, pronouns = _built_in_parts(translator, hypotheses, references, config)
    return Evaluation(
        f"{used}; {corpus.report.name}, {len(sources)} sentences; {_search_name(translator)}",
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


def _search_name(translator: Translator) -> str:
    beam_size = translator.decoding.beam_size
    return f"beam {beam_size}, length penalty {translator.decoding.length_penalty:g}" if beam_size > 1 else "greedy"
