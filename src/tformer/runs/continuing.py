"""What a run takes from a model that is there: all of it, to go on with it, or its weights alone, to start from."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tformer.config import Config, differences, load_config
from tformer.data.tokenizer import TokenizerPair
from tformer.errors import CheckpointError, ConfigError
from tformer.progress import say
from tformer.training.checkpoint import ModelFolder, check_tokenizer, load_state
from tformer.training.files import write_text

SIZE_ASKED = "vocab_size_asked"  # in environment.json; the folder's config has the size that the corpus supports
INIT_FROM = "init_from"  # in environment.json, of a run that began with another model's weights
FINISHED = "finished_step"  # in environment.json, of a run that has come to its end, and measured and averaged it
_WIDEST = 40  # characters of a value in a table


@dataclass(frozen=True)
class Origin:
    """Where a run begins.

    Attributes:
        weights: the folder of a checkpoint, or of an average.
        tokenizers: the vocabularies that the weights are for.
        state: the trainer's, where a run goes on; None: a new run, with the weights of another one.
    """

    weights: Path
    tokenizers: TokenizerPair
    state: dict[str, Any] | None


def with_vocabulary_met(config: Config, folder: ModelFolder) -> Config:
    """Take from a folder what its run could not choose: a vocabulary smaller than asked for, or another model's.

    The folder's config says what there is; the config of whoever resumes still says what was asked for.
    """
    there, facts = load_config(folder.config).tokenizer, _facts(folder)
    if config.tokenizer.vocab_size == facts.get(SIZE_ASKED):
        config = _with_tokenizer(config, vocab_size=there.vocab_size)
    if facts.get(INIT_FROM):
        config = _with_tokenizer(config, **there.model_dump(exclude={"sampling"}))
    return config


def fact(folder: ModelFolder, name: str) -> Any:  # noqa: ANN401 (as JSON has it)
    """Give what environment.json says of a run; None where it says nothing, or is lost."""
    return _facts(folder).get(name)


def note_end(folder: ModelFolder, step: int) -> None:
    """Write down that a run has come to its end."""
    write_text(folder.environment, json.dumps({**_facts(folder), FINISHED: step}, indent=2) + "\n")


def find_newest(folder: ModelFolder, config: Config) -> Origin | None:
    """Find what to resume from, say what has changed, and refuse settings that its weights cannot follow.

    Raises:
        ConfigError: such settings.
        CheckpointError: there are checkpoints, but none of them is whole; or it leads out of the folder.
    """
    if not folder.steps():
        say(f"{folder.path} has no checkpoint to resume from; starting from the beginning")
        return None
    folder.refuse_links_out()
    former = load_config(folder.config)
    changed = differences(former, config)
    fixed = [f"{key} {old} -> {new}" for key, (old, new) in changed.items() if _is_in_weights(key)]
    if fixed:
        raise ConfigError(
            f"{folder.path} was trained with other settings that its weights depend on ({'; '.join(fixed)}); "
            "take them back, or start afresh in another --output"
        )
    step, faults = folder.newest_whole()
    if step is None:
        raise CheckpointError(
            f"{folder.path}: none of its checkpoints is whole ({'; '.join(faults)}); copy the folder anew, or give "
            "--overwrite to start afresh"
        )
    if faults:
        say(f"resuming from step {step}, the newest whole checkpoint; passed over: {'; '.join(faults)}")
    tokenizers = TokenizerPair.load(folder.path)
    check_tokenizer(folder.checkpoint(step), tokenizers.fingerprint)
    for line in _table("checkpoint", [(key, *values, "config") for key, values in changed.items()]):
        say(line)
    return Origin(folder.checkpoint(step), tokenizers, load_state(folder.checkpoint(step)))


def start_from(model: Path, config: Config) -> tuple[Origin, Config]:
    """Take the weights and vocabularies of a trained model for a new run; its settings for the vocabularies count.

    Raises:
        ConfigError: there is no model, or its architecture is not the one in the config.
        CheckpointError: its weights are damaged.
    """
    folder = ModelFolder(model)
    if not folder.holds_model():
        raise ConfigError(f"--init-from {model}: expected the folder of a trained model, found no {folder.config.name}")
    weights = folder.weights_to_use()
    former = load_config(folder.config)
    changed = differences(former, config)
    unlike = [f"{key}: {old}, not {new}" for key, (old, new) in changed.items() if _is_architecture(key)]
    if unlike:
        raise ConfigError(
            f"--init-from {model}: its weights are for another architecture than the config's; set {'; '.join(unlike)}"
        )
    taken = [key for key in changed if key.startswith("tokenizer.") and _is_in_weights(key)]
    for line in _table(str(model), [(key, *changed[key], "the model") for key in taken]):
        say(line)
    config = _with_tokenizer(config, **former.tokenizer.model_dump(exclude={"sampling"}))
    tokenizers = TokenizerPair.load(folder.path)
    check_tokenizer(weights, tokenizers.fingerprint)
    say(f"starting from the weights and the vocabulary of {model} ({weights.name}); optimizer and schedule are fresh")
    return Origin(weights, tokenizers, None), config


def _table(former: str, rows: list[tuple[str, str, str, str]]) -> list[str]:
    """Lay out settings that differ, one a line; nothing where none does."""
    cells = [("setting", former, "config", "what counts"), *rows] if rows else []
    clipped = [[cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 1]}…" for cell in row] for row in cells]
    widths = [max(map(len, column)) for column in zip(*clipped, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in clipped]


def _is_architecture(key: str) -> bool:
    """Tell whether weights made under another value of this setting are those of another function."""
    return key.startswith("model.") and key != "model.dropout"


def _is_in_weights(key: str) -> bool:
    """Tell whether weights made under another value of this setting mean something else."""
    vocabulary = key.startswith("tokenizer.") and key != "tokenizer.sampling"
    return _is_architecture(key) or vocabulary or key.endswith("_lang")


def _with_tokenizer(config: Config, **settings: Any) -> Config:  # noqa: ANN401 (of several types)
    return config.model_copy(update={"tokenizer": config.tokenizer.model_copy(update=settings)})


def _facts(folder: ModelFolder) -> dict[str, Any]:
    try:
        facts = json.loads(folder.environment.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # lost or damaged: then the size there is has to be given
        return {}
    return facts if isinstance(facts, dict) else {}
