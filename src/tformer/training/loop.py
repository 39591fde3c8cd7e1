"""The training loop (the paper, §5): Adam, warm-up, label smoothing; validate, save, stop, and take up again exactly.

Validation is a callable handed in: training knows nothing of decoding. With one seed and one set of settings, a run on
a CPU is repeated digit by digit, and one that was stopped and resumed is the one that was not.
"""

import dataclasses
import json
import math
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tformer.config import TrainingConfig
from tformer.data.batching import BatchStream
from tformer.errors import InterruptedRun, TformerError
from tformer.model import Transformer
from tformer.progress import TrainingProgress, say
from tformer.runtime import Runtime, StopSignals, return_freed_memory
from tformer.training.checkpoint import ModelFolder, load_into
from tformer.training.loss import LossSum
from tformer.training.schedule import learning_rate
from tformer.training.step import train_step

_FLUSH_EVERY_STEPS = 10  # how often losses leave the device: each transfer waits for it
_TIMED_WINDOWS = 6  # of steps between two such transfers, by whose median pace `max_minutes` is turned into steps,
_TIMED_SHARE = 0.05  # and of `max_minutes`, lest a hitch decide, if warm-up lasts so long
_TRAINING_SHARE = 0.9  # of `max_minutes`; validation has the rest
_SAMPLES_SAID = 2  # translations shown at each validation; metrics.jsonl has all


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
    elapsed_seconds: float = 0.0
    metrics_bytes: int = 0
    max_steps: int = 0
    max_minutes: float | None = None


class Trainer:
    """One run, from its first step or from a checkpoint to its end.

    Args:
        model: on the runtime's device.
        stream: training batches.
        config: the settings under `training`.
        runtime: device and precision.
        folder: where checkpoints and metrics go.
        validate: measures the model as it is; None where there is no validation set.
        watch: is shown each line of metrics.jsonl as it is written; None: nobody is.
    """

    def __init__(
        self,
        model: Transformer,
        stream: BatchStream,
        config: TrainingConfig,
        runtime: Runtime,
        folder: ModelFolder,
        validate: Callable[[], Validation] | None,
        watch: Callable[[Mapping[str, object]], None] | None = None,
    ) -> None:
        self.model = model
        self.stream = stream
        self.config = config
        self.runtime = runtime
        self.folder = folder
        self.validate = validate
        self.watch = watch
        self.state = TrainerState()
        self._set_horizon()
        self.optimizer = torch.optim.Adam(
            model.parameters(),
            betas=(config.adam_beta_1, config.adam_beta_2),
            eps=config.adam_epsilon,
            fused=runtime.device.type in ("cpu", "cuda"),
        )
        self._unlogged: list[tuple[int, LossSum, float]] = []

    def resume(self, checkpoint: dict[str, Any]) -> None:
        """Take up the run where `_save` left it; the weights have been loaded into the model already."""
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.state = TrainerState(**checkpoint["state"])
        self._set_horizon()
        self.stream.seek(self.state.epoch, self.state.taken)
        torch.set_rng_state(checkpoint["cpu_random"])
        if self.runtime.device.type == "cuda" and checkpoint["cuda_random"] is not None:
            torch.cuda.set_rng_state(checkpoint["cuda_random"])
        with self.folder.metrics.open("a+b") as metrics:
            metrics.truncate(min(self.state.metrics_bytes, metrics.tell()))
        self.folder.go_back(self.state.step, self.state.best_step)

    def _set_horizon(self) -> None:
        """Say where the run ends; with `max_minutes` only the pace will tell. An end once found stays."""
        state, config = self.state, self.config
        if (state.max_steps, state.max_minutes) != (config.max_steps, config.max_minutes):
            state.max_steps, state.max_minutes = config.max_steps, config.max_minutes
            state.last_step = 0 if config.max_minutes else config.max_steps

    def train(self) -> str:
        """Run to the end, or to a signal; either way everything is saved.

        Returns:
            Why the run ended, for a person.

        Raises:
            TformerError: the loss is no longer a number; nothing of that has been saved.
            InterruptedRun: a signal asked for the end; the run has been saved.
        """
        state, config = self.state, self.config
        progress = TrainingProgress(state.last_step or config.max_steps, state.step)
        self._progress, self._started, self._elapsed_before = progress, time.monotonic(), state.elapsed_seconds
        self._window_started = self._started
        self._paces: list[float] = []  # seconds a step of each window
        self.model.train()
        try:
            with StopSignals() as signals:
                while (ending := self._ending()) is None:
                    if signals.received:
                        self._save_once()
                        raise InterruptedRun(
                            f"stopped at step {state.step}, all saved; to go on: tformer train --resume --output "
                            f"{shlex.quote(str(self.folder.path))}",
                            signals.received,
                        )
                    self._step()
                self._finish()
            return ending
        finally:
            progress.close()

    def _step(self) -> None:
        """Make one update, and what is due after it."""
        state, config = self.state, self.config
        state.step += 1
        rate = learning_rate(state.step, config, self.model.config.d_model, state.last_step or config.max_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batches = [next(self.stream).to(self.runtime.device) for _ in range(config.accumulate_batches)]
        sums = train_step(self.model, batches, self.optimizer, config, self.runtime)
        self._unlogged.append((state.step, sums, rate))
        if len(self._unlogged) == _FLUSH_EVERY_STEPS:
            self._log()
        if not state.last_step and self._pace_is_known():
            self._fix_last_step()
        improved = False
        if self.validate and state.step % config.validate_every_steps == 0:
            improved = self._validate()
        if improved or state.step % config.save_every_steps == 0:
            self._save()

    def _ending(self) -> str | None:
        """Say why the run is over, or None while it is not."""
        state, config = self.state, self.config
        if config.patience and state.validations_since_best >= config.patience:
            return (
                f"stopped at step {state.step}: {config.patience} validations without a better {config.best_metric} "
                f"than at step {state.best_step}"
            )
        if config.max_minutes and self._elapsed() >= config.max_minutes * 60:
            return f"stopped at step {state.step}: {config.max_minutes:g} minutes are over"
        if state.step >= (state.last_step or config.max_steps):
            return f"finished step {state.step} of {state.last_step or config.max_steps}"
        return None

    def _elapsed(self) -> float:
        return self._elapsed_before + time.monotonic() - self._started

    def _pace_is_known(self) -> bool:
        """Tell whether enough has been seen. Until warm-up is over no schedule asks where the run will end."""
        if len(self._paces) < _TIMED_WINDOWS:
            return False
        assert self.config.max_minutes is not None
        timed_long = self._elapsed() - self._elapsed_before >= _TIMED_SHARE * self.config.max_minutes * 60
        return timed_long or self.state.step >= self.config.warmup_steps

    def _fix_last_step(self) -> None:
        """Turn `max_minutes` into steps, once, by the pace so far: schedules depend on steps only."""
        assert self.config.max_minutes is not None
        seconds_a_step = statistics.median(self._paces)
        seconds_left = self.config.max_minutes * 60 - self._elapsed()
        steps = self.state.step + int(_TRAINING_SHARE * seconds_left / seconds_a_step)
        self.state.last_step = min(max(self.state.step, self.config.warmup_steps + 1, steps), self.config.max_steps)
        self._progress.set_total(self.state.last_step)
        say(
            f"{seconds_a_step * 1000:.0f} ms a step: {self.config.max_minutes:g} minutes allow {self.state.last_step} "
            "steps; the schedule ends there"
        )

    def _log(self) -> None:
        """Bring the losses over from the device, refuse what is no number, and write a metrics line for each step."""
        if not self._unlogged:
            return
        seconds = time.monotonic() - self._window_started
        tokens_per_second = sum(sums.num_tokens for _, sums, _ in self._unlogged) / seconds
        values = torch.stack([torch.stack((sums.loss, sums.nll)) for _, sums, _ in self._unlogged]).tolist()
        for (step, sums, rate), (loss, nll) in zip(self._unlogged, values, strict=True):
            if not math.isfinite(loss):
                raise TformerError(_diverged(step, f"the loss is {loss}"))
            self._write_metrics(
                step=step,
                split="train",
                loss=loss / sums.num_tokens,
                nll=nll / sums.num_tokens,
                learning_rate=rate,
                tokens_per_second=tokens_per_second,
                elapsed_seconds=self._elapsed(),
            )
        self._progress.update(step, loss / sums.num_tokens, tokens_per_second, rate)
        return_freed_memory()
        now = time.monotonic()
        self._paces.append((now - self._window_started) / len(self._unlogged))
        self._window_started = now
        self._unlogged.clear()

    def _check(self) -> None:
        """Refuse losses and weights that are no numbers: a last update can break weights whose loss was still one."""
        self._log()
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise TformerError(_diverged(self.state.step, "a weight is no longer a finite number"))

    def _write_metrics(self, **fields: object) -> None:
        # JSON has no infinity
        known = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }
        with self.folder.metrics.open("ab") as metrics:
            metrics.write(json.dumps(known).encode() + b"\n")
        if self.watch:
            self.watch(known)

    def _validate(self) -> bool:
        """Measure, report, and count towards patience; tell whether this is the best so far."""
        self._check()
        result, score = self._measure()
        state = self.state
        better = state.best_score is None or score > state.best_score
        # a model that has said nothing right yet is not failing to improve
        warming = self.config.best_metric == "bleu" and score == 0.0
        if better:
            state.best_score, state.best_step, state.validations_since_best = score, state.step, 0
        elif not warming:
            state.validations_since_best += 1
        standing = "best so far" if better else f"best was step {state.best_step}"
        say(
            f"step {state.step} · validation: nll {result.nll:.3f} · perplexity {result.perplexity:.2f} · "
            f"BLEU {result.bleu:.1f} greedy · {standing}"
        )
        for source, reference, hypothesis in result.samples[:_SAMPLES_SAID]:
            say(f"    source     {source}\n    reference  {reference}\n    hypothesis {hypothesis}")
        return better

    def _measure(self, weights: str = "last") -> tuple[Validation, float]:
        assert self.validate is not None
        self.model.eval()
        result = self.validate()
        self.model.train()
        self._write_metrics(
            step=self.state.step,
            split="validation",
            weights=weights,
            nll=result.nll,
            perplexity=result.perplexity,
            bleu=result.bleu,
            chrf=result.chrf,
            samples=result.samples,
            elapsed_seconds=self._elapsed(),
        )
        self._window_started = time.monotonic()
        return result, result.bleu if self.config.best_metric == "bleu" else -result.nll

    def _save(self) -> None:
        """Save all that the run needs to go on exactly, then remove what nobody needs any more."""
        self._check()
        state = self.state
        state.epoch, state.taken = self.stream.epoch, self.stream.taken
        state.elapsed_seconds = self._elapsed()
        state.metrics_bytes = self.folder.metrics.stat().st_size if self.folder.metrics.exists() else 0
        cuda = self.runtime.device.type == "cuda"
        self.folder.save(
            state.step,
            self.model,
            {
                "state": dataclasses.asdict(state),
                "optimizer": self.optimizer.state_dict(),
                "cpu_random": torch.get_rng_state(),
                "cuda_random": torch.cuda.get_rng_state() if cuda else None,
            },
        )
        if state.best_step == state.step:
            self.folder.point("best", state.step)
        self.folder.prune(keep=[state.step, state.best_step, *self._steps_to_average()])

    def _save_once(self) -> None:
        """Save, unless this very step has been: a whole checkpoint is not put at risk for nothing."""
        if not self.folder.checkpoint(self.state.step).is_dir():
            self._save()

    def _steps_to_average(self) -> list[int]:
        """Give the last N saves of the regular rhythm, and the run's end, however often it was stopped between them."""
        every = self.config.save_every_steps
        steps = [step for step in self.folder.steps() if step % every == 0 or step == self.state.step]
        steps = [step for step in steps if step <= self.state.step]  # those after it are torn: a run went back to here
        return steps[-self.config.average_last :]

    def _finish(self) -> None:
        """Save the end, measure it where no validation was due, and average (§6.1)."""
        state = self.state
        self._save_once()
        if self.validate and state.step % self.config.validate_every_steps:
            result, score = self._measure()
            say(f"step {state.step} · validation: perplexity {result.perplexity:.2f} · BLEU {result.bleu:.1f} greedy")
            if state.best_score is None or score > state.best_score:
                # not in the checkpoint: whether a run ended here must not change what is best once it goes on
                state.best_score, state.best_step = score, state.step
                self.folder.point("best", state.step)
        steps = self._steps_to_average()
        whole = self.folder.whole(steps)
        for step in sorted(set(steps).difference(whole)):
            say(f"warning: step {step} is damaged, and left out of the average")
        if len(whole) > 1:
            self._average(whole)

    def _average(self, steps: list[int]) -> None:
        """Average the last checkpoints (§6.1), and keep the mean unless validation finds it worse than the best one.

        Where the weights still move fast, as early in a run, the mean of several steps is worse than any of them.
        """
        self.folder.average(steps)
        what = f"the average of the last {len(steps)} checkpoints (steps {steps[0]} to {steps[-1]})"
        if self.validate is None:
            say(f"{what} is what translates from now on")
            return
        load_into(self.model, self.folder.averaged)
        result, score = self._measure(weights="averaged")
        shown = f"perplexity {result.perplexity:.2f} · BLEU {result.bleu:.1f} greedy"
        if self.state.best_score is not None and score < self.state.best_score:
            self.folder.forget_average()
            say(f"{what} is worse than step {self.state.best_step} ({shown}), and is not kept")
        else:
            say(f"{what} is what translates from now on: {shown}")


def _diverged(step: int, finding: str) -> str:
    return (
        f"step {step}: {finding}; nothing of this has been saved. Resume from the last checkpoint with a lower "
        "training.learning_rate, a longer training.warmup_steps, training.clip_norm: 1.0, or precision: fp32"
    )
