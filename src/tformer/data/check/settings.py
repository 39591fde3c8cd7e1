"""Settings that do not fit the corpus or one another, each on grounds that are told with it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tformer.config import Config
from tformer.data.batching import plan_batches
from tformer.data.check.finding import Finding

_FEW_BATCHES = 10  # an epoch
_LARGE_VALIDATION = 5_000  # pairs
_RARE_VALIDATION = 1_000  # steps from one to the next


@dataclass(frozen=True)
class Schedule:
    """What an epoch is, and how many there will be.

    Attributes:
        batches_per_epoch: by `training.max_tokens_per_batch`.
        tokens_per_epoch: positions that are computed, the larger side of each batch, padding included.
        padding_share: of all positions of both sides, how many hold padding.
        steps: updates, by `training.max_steps`; `max_minutes` may end the run sooner.
        epochs: that so many steps are.
    """

    batches_per_epoch: int
    tokens_per_epoch: int
    padding_share: float
    steps: int
    epochs: float


def plan(source: npt.NDArray[np.int64], target: npt.NDArray[np.int64], config: Config) -> Schedule:
    """Cut the pairs of an epoch into batches as training does, and count.

    Args:
        source: [pairs] int64, pieces of each source, EOS included.
        target: [pairs] int64, pieces of each target, EOS included.
        config: batch size and steps.
    """
    batches = plan_batches(source, target, config.training.max_tokens_per_batch)
    shapes = np.array([(len(batch), source[batch].max(), target[batch].max()) for batch in batches])
    positions = shapes[:, :1] * shapes[:, 1:]  # [batches, side]
    steps = config.training.max_steps
    return Schedule(
        batches_per_epoch=len(batches),
        tokens_per_epoch=int(positions.max(axis=1).sum()),
        padding_share=1 - float(source.sum() + target.sum()) / float(positions.sum()),
        steps=steps,
        epochs=steps * config.training.accumulate_batches / len(batches),
    )


def judge_settings(config: Config, schedule: Schedule, validation_pairs: int) -> Iterator[Finding]:
    """Find settings that hurt.

    Args:
        config: all of them.
        schedule: what they make of the corpus.
        validation_pairs: in the validation set; 0 where there is none.
    """
    training = config.training
    if training.warmup_steps >= training.max_steps:
        yield Finding(
            "warmup_too_long",
            "warning",
            f"training.warmup_steps {training.warmup_steps:,} is not below training.max_steps {training.max_steps:,}: "
            f"the run ends while the learning rate still rises; about {max(1, training.max_steps // 10):,} would do",
        )
    updates = schedule.batches_per_epoch / training.accumulate_batches
    if updates < _FEW_BATCHES:
        yield Finding(
            "few_batches",
            "warning",
            f"an epoch is {math.ceil(updates)} update{'s' if updates > 1 else ''}, fewer than {_FEW_BATCHES}: updates "
            "are few for what they cost; lower training.max_tokens_per_batch or training.accumulate_batches",
        )
    if schedule.epochs < 1 and not training.max_minutes:
        yield Finding(
            "part_of_an_epoch",
            "warning",
            f"{training.max_steps:,} steps are {schedule.epochs:.2f} of an epoch: the other pairs are never "
            f"seen; {math.ceil(updates):,} steps see each once",
        )
    if validation_pairs > _LARGE_VALIDATION and training.validate_every_steps < _RARE_VALIDATION:
        yield Finding(
            "large_validation",
            "note",
            f"{validation_pairs:,} validation pairs are translated every {training.validate_every_steps:,} steps, "
            "which may take longer than the steps; one or two thousand pairs tell as much",
        )
    if training.patience and not validation_pairs:
        yield Finding(
            "patience_without_validation",
            "warning",
            f"training.patience {training.patience} does nothing without a validation set; give data.validation",
        )
