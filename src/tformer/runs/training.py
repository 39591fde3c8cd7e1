"""`tformer train`: all stages, from text to a trained model in a folder."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch

from tformer.config import Config, dump_config, load_config
from tformer.data.batching import BatchStream, fixed_batches
from tformer.data.store import TextCorpus, TokenisedCorpus, resample
from tformer.data.tokenizer import TokenizerPair
from tformer.decoding.score import Recipe, score_corpus
from tformer.decoding.translator import Translator
from tformer.errors import CheckpointError, ConfigError
from tformer.inspection.report_corpus import dump_corpus
from tformer.model import Transformer
from tformer.progress import say
from tformer.runs.continuing import (
    FINISHED,
    INIT_FROM,
    SIZE_ASKED,
    Origin,
    fact,
    find_newest,
    note_end,
    start_from,
    with_vocabulary_met,
)
from tformer.runs.models import RUNS
from tformer.runs.preparing import read_aloud, tokenise_to_measure, tokenise_to_train, train_tokenizers
from tformer.runtime import Runtime, describe_machine, prepare
from tformer.training.checkpoint import ModelFolder, load_into
from tformer.training.distributed import ALONE, Processes, gather_into, is_sharded
from tformer.training.events import check_tensorboard, event_writer
from tformer.training.lock import only_one
from tformer.training.loop import Trainer
from tformer.training.loss import corpus_nll, perplexity
from tformer.training.state import Validation

_SAMPLES = 5  # translations that metrics.jsonl keeps of each validation


def train(
    config_path: str | None,
    overrides: Sequence[str],
    output: Path | None,
    resume: bool,
    overwrite: bool,
    init_from: Path | None = None,
    processes: Processes = ALONE,
) -> ModelFolder:
    """Run all stages, from text to a trained model in a folder; several processes make the run that one would make.

    Args:
        config_path: a config file, or the name of a shipped one; None: base.yaml, or on resume the folder's own.
        overrides: "key=value" settings that come last.
        output: the model folder; None: runs/ and the config's name.
        resume: go on where the folder's newest whole checkpoint stands.
        overwrite: replace a model that is there.
        init_from: a trained model, whose weights and vocabularies a new run starts from; None: from random ones.
        processes: who takes part; after a failure that torchrun answered by a restart, the run goes on as by `resume`.

    Raises:
        ConfigError: settings, paths or options that cannot be.
        DataError: a corpus that cannot be used.
        CheckpointError: nothing that can be resumed with these settings, or another run in this folder.
    """
    folder = ModelFolder(output or RUNS / Path(config_path or "base.yaml").stem)
    if folder.path.is_file():
        raise ConfigError(f"{folder.path}: expected a folder for the model, got a file; give another --output")
    resume = resume or processes.restarted
    if resume and config_path is None and folder.holds_model():
        config_path = str(folder.config)
    config = _with_a_batch_for_each(load_config(config_path, overrides), processes)
    if init_from and init_from.resolve() == folder.path.resolve():
        raise ConfigError(f"--init-from {init_from}: the new run would replace it; give another --output")
    with only_one(folder.path) if processes.is_primary else nullcontext():
        return _train(folder, config, resume, overwrite, init_from, processes)


def _train(
    folder: ModelFolder,
    config: Config,
    resume: bool,
    overwrite: bool,
    init_from: Path | None,
    processes: Processes,
) -> ModelFolder:
    """Run all stages in a folder that no other run is using."""
    if folder.holds_model() and not (resume or overwrite):
        raise ConfigError(
            f"{folder.path} holds a model already; give --resume to go on with it, --overwrite to replace it, "
            "or another --output"
        )
    asked, origin = config.tokenizer.vocab_size, None
    if resume:
        if folder.steps():
            config = with_vocabulary_met(config, folder)
        origin = find_newest(folder, config)
    resumed = origin is not None
    if resumed:
        asked, init_from = fact(folder, SIZE_ASKED), fact(folder, INIT_FROM)
    if config.training.tensorboard:
        check_tensorboard()
    runtime = prepare(processes.device(config.device), config.precision, config.threads, config.compile)
    if origin and _is_over(folder, origin, config):
        return folder
    if init_from and not origin:
        origin, config = start_from(init_from, config)
    say(runtime.reasons)
    splits = processes.in_turn(lambda: read_aloud(config))
    if origin:
        tokenizers = origin.tokenizers
    else:
        tokenizers = processes.from_primary(lambda: train_tokenizers(splits.train, config.tokenizer))
        say(f"tokenizer: {config.tokenizer.algorithm}, normalisation {config.tokenizer.normalization}")
    folder = ModelFolder(folder.path, tokenizers.fingerprint)
    training = processes.in_turn(lambda: tokenise_to_train(splits.train, tokenizers, config))
    processes.check_same("data.train", lambda: training.digest)
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    met = config.tokenizer.model_copy(update={"vocab_size": max(sizes)})
    config = config.model_copy(update={"tokenizer": met})
    facts: dict[str, object] = {SIZE_ASKED: asked, INIT_FROM: init_from and str(init_from)}
    if processes.is_primary:
        _open_folder(folder, config, tokenizers, runtime, facts, dump_corpus(splits, training), resumed)
    processes.wait()
    if not folder.holds_model():
        raise CheckpointError(
            f"{folder.path}: rank {processes.rank} does not see what the primary wrote; give an --output on a file "
            "system that all machines share"
        )

    torch.manual_seed(config.seed)
    model = Transformer(config.model, *sizes)
    if processes.world_size == 1 or config.training.sharding == "ddp":  # else it may be larger than the device
        model.to(runtime.device)
    vocabulary = f"vocabulary {sizes[0]}" if tokenizers.shared else f"vocabularies {sizes[0]} and {sizes[1]}"
    say(f"model: {model.num_parameters():,} parameters, {vocabulary}")
    cut_anew = _resampler(splits.train, training, tokenizers, config)
    if not processes.is_primary:  # which drops what a single process would drop
        torch.manual_seed(processes.seed(config.seed))
    rank, world_size = processes.rank, processes.world_size
    stream = BatchStream(training, config.training.max_tokens_per_batch, config.seed, cut_anew, rank, world_size)
    say(f"{len(training)} pairs in {stream.batches_per_epoch} batches an epoch")
    validate = _validator(splits.validation, model, tokenizers, config, processes) if splits.validation else None
    if origin:
        load_into(model, origin.weights)
    state = origin.state if origin else None
    begin = state["state"]["step"] if state else 0
    with (
        event_writer(folder.path, begin)
        if config.training.tensorboard and processes.is_primary
        else nullcontext() as watch
    ):
        trainer = Trainer(model, stream, config.training, runtime, folder, validate, watch, processes)
        if state:
            trainer.resume(state)
            say(f"resumed {folder.path} at step {begin}")
        say(trainer.train())
    if processes.is_primary:
        note_end(folder, trainer.state.step)
    return folder


def _with_a_batch_for_each(config: Config, processes: Processes) -> Config:
    """Say who computes which part of an update, which has as many batches whatever the number of processes.

    Where that is fewer than there are processes, it becomes one for each, and the folder's config says so.
    """
    if processes.world_size == 1:
        return config
    asked, processes_said = config.training.accumulate_batches, f"{processes.world_size} processes"
    batches = max(asked, processes.world_size)
    each = f"{batches // processes.world_size}" + (" or one more" if batches % processes.world_size else "")
    line = f"{processes_said} × {each} = {batches} batches an update"
    if batches > asked:
        line += f"; training.accumulate_batches was {asked}, and each process needs one"
    say(line)
    settings = config.training.model_copy(update={"accumulate_batches": batches})
    return config.model_copy(update={"training": settings})


def _is_over(folder: ModelFolder, origin: Origin, config: Config) -> bool:
    """Tell, aloud, whether a resumed run has nothing left to do; one killed while it measured its end has."""
    step = origin.state["state"]["step"] if origin.state else 0
    if step < config.training.max_steps or fact(folder, FINISHED) != step:
        return False
    say(f"already at step {step} of {config.training.max_steps}; raise training.max_steps to train on")
    return True


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
    more_facts: dict[str, object],
    corpus: str,
    resumed: bool,
) -> None:
    """Write what a model folder holds besides weights; only now, when nothing of the input can fail any more."""
    if not resumed:
        folder.clear()
        folder.path.mkdir(parents=True, exist_ok=True)
        tokenizers.save(folder.path)
    facts = {
        "tformer": version("tformer"),
        **describe_machine(),
        **{name: version(name) for name in ("numpy", "sentencepiece", "sacrebleu", "safetensors")},
        "device": str(runtime.device),
        "precision": runtime.precision,
        "threads": runtime.threads,
        "seed": config.seed,
        "tokenizer_sha256": tokenizers.fingerprint,
        **more_facts,
    }
    folder.describe(dump_config(config), json.dumps(facts, indent=2) + "\n", corpus)


def _validator(
    corpus: TextCorpus, model: Transformer, tokenizers: TokenizerPair, config: Config, processes: Processes
) -> Callable[[], Validation]:
    """Make the measurement that training asks for: teacher-forced loss, and BLEU of greedily decoded text.

    Each process measures its share, and all get the same result.
    """
    sources, references = corpus.sources(), corpus.targets()
    tokenised = tokenise_to_measure(corpus, tokenizers, config)
    greedy = config.decoding.model_copy(update={"beam_size": 1})

    def validate() -> Validation:
        whole = _gathered(model, tokenizers, config) if is_sharded(model.output.weight) else model
        translator = Translator([whole], tokenizers, greedy, config.data.max_length, config.data.target_lang)
        batches = fixed_batches(tokenised, config.training.max_tokens_per_batch)
        nll = corpus_nll(whole, batches, translator.device, processes)
        hypotheses = processes.joined(translator.translate(processes.share(sources)))
        scores = score_corpus(hypotheses, [references], Recipe(config.data.target_lang))
        samples = list(zip(sources, references, hypotheses, strict=True))[:_SAMPLES]
        return Validation(nll, perplexity(nll), scores.bleu, scores.chrf, samples)

    return validate


def _gathered(model: Transformer, tokenizers: TokenizerPair, config: Config) -> Transformer:
    """Give all of a sharded model while it is measured: processes then run as many passes as their shares need."""
    with torch.random.fork_rng(devices=[]):  # measuring must not change what is dropped afterwards
        whole = Transformer(config.model, tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    gather_into(whole.to(model.output.weight.device), model)
    return whole.eval()
