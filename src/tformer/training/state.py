"""What a run knows of itself besides weights, optimizer and random streams, and what it is told of its model."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tformer.progress import say
from tformer.runtime import RandomState, set_random_state
from tformer.training.distributed import Processes


@dataclass(frozen=True)
class Validation:
    """What the model is worth on the validation set, unsmoothed.

    Attributes:
        nll: negative log-likelihood in nats a token, the right prefix given.
        perplexity: exp(nll).
        bleu: sacreBLEU of greedily decoded text.
        chrf: likewise.
        samples: a few (source, reference, hypothesis).
    """

    nll: float
    perplexity: float
    bleu: float
    chrf: float
    samples: Sequence[tuple[str, str, str]]


@dataclass
class TrainerState:
    """All of a run that is not in the weights, the optimizer or a random stream.

    Attributes:
        step: optimizer updates done.
        last_step: where the run ends, and a decaying schedule too; 0 until `max_minutes` has been turned into steps.
        epoch: of the batch order, counted from 0.
        taken: batches used of that epoch.
        best_score: the best `training.best_metric`, higher is better (nll negated); None before the first validation.
        best_step: the step it was reached at.
        validations_since_best: what `training.patience` counts.
        validated_step: the last step that was validated.
        skipped_steps: updates that were not made, since loss or gradient was no finite number.
        skipped_in_a_row: the last of them.
        elapsed_seconds: of training and validating.
        metrics_bytes: length of metrics.jsonl up to here; lines past it belong to steps that are done again on resume.
        max_steps: the setting that last_step was made from.
        max_minutes: likewise.
    """

    step: int = 0
    last_step: int = 0
    epoch: int = 0
    taken: int = 0
    best_score: float | None = None
    best_step: int = 0
    validations_since_best: int = 0
    validated_step: int = 0
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    elapsed_seconds: float = 0.0
    metrics_bytes: int = 0
    max_steps: int = 0
    max_minutes: float | None = None


def take_up_random(
    streams: Sequence[RandomState], device: torch.device, processes: Processes, seed: int, step: int
) -> None:
    """Go on with the random streams of a checkpoint; processes that it has none for begin some of their own.

    Args:
        streams: of each process that the run had.
        device: whose work draws from them.
        processes: that go on.
        seed: of the run.
        step: of the checkpoint.
    """
    if len(streams) != processes.world_size:
        say(f"processes: {len(streams)} before, {processes.world_size} now; dropout draws other numbers")
    if processes.rank < len(streams):
        set_random_state(device, streams[processes.rank])
    else:
        torch.manual_seed(processes.seed(seed, step))
