"""The learning rate as a pure function of the step (the paper, §5.3)."""

import math

from tformer.config import TrainingConfig


def learning_rate(step: int, config: TrainingConfig, d_model: int, last_step: int) -> float:
    """Give the rate of one update: up in a straight line while warming up, peak exactly at `warmup_steps`, then down.

    `paper` is §5.3's d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5); `learning_rate` in the settings replaces
    the peak and keeps the shape. `linear` and `cosine` go down to 0 just after `last_step`.

    Args:
        step: the update, counted from 1.
        config: schedule, warm-up and peak.
        d_model: the model's width, which the paper's peak depends on.
        last_step: the last update of the run, where a decaying schedule ends.
    """
    warmup = config.warmup_steps
    peak = config.learning_rate if config.learning_rate is not None else (d_model * warmup) ** -0.5
    if step <= warmup:
        return peak * step / warmup
    if config.schedule == "paper":
        return peak * math.sqrt(warmup / step)
    left = max(0.0, (last_step + 1 - step) / (last_step + 1 - warmup))
    return peak * left if config.schedule == "linear" else peak * 0.5 * (1.0 - math.cos(math.pi * left))
