"""What is said of numbers that are none: of a step that was skipped for them, and of a run that ends for them."""

from tformer.data.store import IntArray, TokenisedCorpus
from tformer.progress import say
from tformer.training.checkpoint import ModelFolder
from tformer.training.state import TrainerState

_SAID = 10  # line numbers of a skipped batch


def note_skip(state: TrainerState, step: int, corpus: TokenisedCorpus, pairs: IntArray) -> str:
    """Count a step whose loss or gradient was no finite number, and so changed no weight; name its first pairs.

    Returns:
        Where all of its pairs stand, for metrics.jsonl.
    """
    state.skipped_steps += 1
    state.skipped_in_a_row += 1
    say(
        f"warning: step {step} skipped: its loss or gradient is no finite number; weights are as they were; the batch: "
        f"{corpus.places(pairs, _SAID)}"
    )
    return corpus.places(pairs)


def diverged(step: int, finding: str, folder: ModelFolder) -> str:
    """Say what a run has come to, where its last finite checkpoint is, and what may help."""
    saved = [each for each in folder.steps() if each <= step]
    from_where = f"Resume from the last checkpoint, of step {saved[-1]}," if saved else "Start again"
    return (
        f"step {step}: {finding}; nothing of this has been saved. {from_where} with a lower training.learning_rate, a "
        "longer training.warmup_steps, training.clip_norm: 1.0, or precision: fp32"
    )
