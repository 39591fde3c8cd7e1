"""`tformer train`: all stages, from text to a trained model in a folder."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from tformer.config import Config, differences, dump_config, load_config
from tformer.data.batching import BatchStream, fixed_batches
from tformer.data.store import TextCorpus, TokenisedCorpus, resample
from tformer.data.tokenizer import TokenizerPair
from tformer.decoding.score import Recipe, score_corpus
from tformer.decoding.translator import Translator
from tformer.errors import ConfigError
from tformer.model import Transformer
from tformer.progress import say
from tformer.runs.models import RUNS
from tformer.runs.preparing import read_aloud, tokenise_to_measure, tokenise_to_train, train_tokenizers
from tformer.runtime import Runtime, describe_machine, prepare
from tformer.training.checkpoint import ModelFolder, check_tokenizer, load_into, load_state
from tformer.training.loop import Trainer, Validation
from tformer.training.loss import corpus_nll, perplexity

_ASKED_SIZE = "vocab_size_asked"  # in environment.json; the folder's config has the size that the corpus supports
_SAMPLES = 2  # translations shown at each validation


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
    if resume and folder.steps():
        config = _with_size_met(config, folder)
    newest = _newest_checkpoint(folder, config) if resume else None
    runtime = prepare(config.device, config.precision, config.threads)
    if newest and _is_over(newest[1], config):
        return folder
    tokenizers = _former_tokenizers(folder, newest[0]) if newest else None
    say(runtime.reasons)
    splits = read_aloud(config)
    if tokenizers is None:
        tokenizers = train_tokenizers(splits.train, config.tokenizer)
        say(f"tokenizer: {config.tokenizer.algorithm}, normalisation {config.tokenizer.normalization}")
    folder = ModelFolder(folder.path, tokenizers.fingerprint)
    training = tokenise_to_train(splits.train, tokenizers, config)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    asked = _asked_size(folder) if newest else config.tokenizer.vocab_size
    config = _with_vocab_size(config, max(sizes))
    _open_folder(folder, config, tokenizers, runtime, asked, resumed=newest is not None)

    torch.manual_seed(config.seed)
    model = Transformer(config.model, *sizes).to(runtime.device)
    vocabulary = f"vocabulary {sizes[0]}" if tokenizers.shared else f"vocabularies {sizes[0]} and {sizes[1]}"
    say(f"model: {model.num_parameters():,} parameters, {vocabulary}")
    cut_anew = _resampler(splits.train, training, tokenizers, config)
    stream = BatchStream(training, config.training.max_tokens_per_batch, config.seed, cut_anew)
    say(f"{len(training)} pairs in {stream.batches_per_epoch} batches an epoch")
    validate = _validator(splits.validation, model, tokenizers, config) if splits.validation else None
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
    fixed = [line for key, line in changed.items() if _is_in_weights(key)]
    if fixed:
        raise ConfigError(
            f"{folder.path} was trained with other settings that its weights depend on ({'; '.join(fixed)}); "
            "take them back, or start afresh in another --output"
        )
    for line in changed.values():
        say(f"changed since the run began: {line}; the new value counts")
    checkpoint = folder.checkpoint(steps[-1])
    return checkpoint, load_state(checkpoint)


def _is_in_weights(key: str) -> bool:
    """Tell whether weights made under another value of this setting mean something else."""
    return (key.startswith(("model.", "tokenizer.")) or key.endswith("_lang")) and key != "tokenizer.sampling"


def _is_over(checkpoint: dict[str, Any], config: Config) -> bool:
    """Tell, aloud, whether a resumed run has nothing left to do."""
    step = checkpoint["state"]["step"]
    if step < config.training.max_steps:
        return False
    say(f"already at step {step} of {config.training.max_steps}; raise training.max_steps to train on")
    return True


def _with_size_met(config: Config, folder: ModelFolder) -> Config:
    """Take the vocabulary's size from the folder, if its run was asked for this one and the corpus had fewer pieces.

    The folder's config says what there is; the config of whoever resumes still says what was asked for.
    """
    if config.tokenizer.vocab_size != _asked_size(folder):
        return config
    return _with_vocab_size(config, load_config(folder.config).tokenizer.vocab_size)


def _asked_size(folder: ModelFolder) -> int | None:
    try:
        asked: int | None = json.loads(folder.environment.read_text(encoding="utf-8")).get(_ASKED_SIZE)
    except (OSError, ValueError):  # lost or damaged: then the size there is has to be given
        return None
    return asked


def _with_vocab_size(config: Config, size: int) -> Config:
    return config.model_copy(update={"tokenizer": config.tokenizer.model_copy(update={"vocab_size": size})})


def _former_tokenizers(folder: ModelFolder, checkpoint: Path) -> TokenizerPair:
    """Load the vocabularies of a run that goes on: they are never learnt anew."""
    tokenizers = TokenizerPair.load(folder.path)
    check_tokenizer(checkpoint, tokenizers.fingerprint)
    return tokenizers


def _resampler(
    text: TextCorpus, plain: TokenisedCorpus, tokenizers: TokenizerPair, config: Config
) -> Callable[[int], TokenisedCorpus] | None:
    """Give what cuts the words anew for each epoch, where the settings want it."""
    rate = config.tokenizer.sampling
    return partial(resample, text, plain, tokenizers, rate, config.seed) if rate else None


def _open_folder(
    folder: ModelFolder,
    config: Config,
    tokenizers: TokenizerPair,
    runtime: Runtime,
    asked_size: int | None,
    resumed: bool,
) -> None:
    """Write what a model folder holds besides weights; only now, when nothing of the input can fail any more."""
    if not resumed:
        folder.clear()
        folder.path.mkdir(parents=True, exist_ok=True)
        tokenizers.save(folder.path)
    folder.config.write_text(dump_config(config), encoding="utf-8")
    facts = {
        "tformer": version("tformer"),
        **describe_machine(),
        **{name: version(name) for name in ("numpy", "sentencepiece", "sacrebleu", "safetensors")},
        "device": str(runtime.device),
        "precision": runtime.precision,
        "threads": runtime.threads,
        "seed": config.seed,
        "tokenizer_sha256": tokenizers.fingerprint,
        _ASKED_SIZE: asked_size,
    }
    folder.environment.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _validator(
    corpus: TextCorpus, model: Transformer, tokenizers: TokenizerPair, config: Config
) -> Callable[[], Validation]:
    """Make the measurement that training asks for: teacher-forced loss, and BLEU of greedily decoded text."""
    sources, references = corpus.sources(), corpus.targets()
    tokenised = tokenise_to_measure(corpus, tokenizers, config)
    greedy = config.decoding.model_copy(update={"beam_size": 1})

    def validate() -> Validation:
        translator = Translator([model], tokenizers, greedy, config.data.max_length, config.data.target_lang)
        batches = fixed_batches(tokenised, config.training.max_tokens_per_batch)
        nll = corpus_nll(model, batches, translator.device)
        hypotheses = translator.translate(sources)
        bleu = score_corpus(hypotheses, [references], Recipe(config.data.target_lang)).bleu
        samples = list(zip(sources, references, hypotheses, strict=True))[:_SAMPLES]
        return Validation(nll, perplexity(nll), bleu, samples)

    return validate
