"""The training loop (the paper, §5): Adam, warm-up, label smoothing; validate, save, stop, and take up again exactly.

Validation is a callable handed in: training knows nothing of decoding. With one seed and one set of settings, a run on
a CPU is repeated digit by digit, and one that was stopped and resumed is the one that was not.
"""

import dataclasses
import math
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from tformer.config import TrainingConfig
from tformer.data.batching import Batch, BatchStream
from tformer.data.store import IntArray
from tformer.errors import CheckpointError, InterruptedRun, TformerError
from tformer.model import Transformer
from tformer.progress import TrainingProgress, say
from tformer.runtime import Runtime, StopNow, StopSignals, random_state, return_freed_memory
from tformer.training.checkpoint import ModelFolder, load_into, weights_of
from tformer.training.distributed import ALONE, Processes, held, load_state_into, spread, whole_state
from tformer.training.guard import diverged, note_skip
from tformer.training.horizon import Pace
from tformer.training.loss import LossSum
from tformer.training.memory import does_not_fit, halved, is_out_of_memory
from tformer.training.metrics import MetricsFile
from tformer.training.schedule import learning_rate
from tformer.training.state import TrainerState, Validation, take_up_random
from tformer.training.step import Objective, make_optimizer, train_step

_FLUSH_EVERY_STEPS = 10  # how often losses leave the device: each transfer waits for it
_MOST_SKIPS = 10  # updates in a row that came to no finite number; more of them are no accident
_MOST_FAILED_SAVES = 3  # in a row; training on would be work for nothing
_SAMPLES_SAID = 2  # translations shown at each validation; metrics.jsonl has all


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
        processes: who takes part. All know the same and decide alike; the primary alone writes.
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
        processes: Processes = ALONE,
    ) -> None:
        self.model = model
        self.stream = stream
        self.config = config
        self.runtime = runtime
        self.folder = folder
        self.validate = validate
        self.watch = watch
        self.processes = processes
        layers = (*model.encoder_layers, *model.decoder_layers)
        self.objective = spread(
            Objective(model, config.label_smoothing, runtime), layers, config.sharding, runtime.device, processes
        )
        self.state = TrainerState()
        self._set_horizon()
        self.optimizer = make_optimizer(model, config, runtime)
        self._metrics = MetricsFile(folder.metrics if processes.is_primary else None)
        self._unlogged: list[tuple[int, LossSum, float, IntArray]] = []
        self._stop = 0
        self._halving = False
        self._saved_step = 0
        self._failed_saves = 0
        self._former_best: tuple[float | None, int] = None, 0

    def resume(self, checkpoint: dict[str, Any]) -> None:
        """Take up the run where `_save` left it; the weights have been loaded into the model already."""
        load_state_into(self.optimizer, checkpoint["optimizer"])
        self.state = TrainerState(**checkpoint["state"])
        self._set_horizon()
        self.stream.seek(self.state.epoch, self.state.taken)
        streams = [(checkpoint["cpu_random"], checkpoint["cuda_random"]), *checkpoint.get("other_random", [])]
        take_up_random(streams, self.runtime.device, self.processes, self.stream.seed, self.state.step)
        self._saved_step = self.state.step
        self._metrics.go_back(self.state.metrics_bytes)

        def go_back() -> None:
            self.folder.go_back(self.state.step, self.state.best_step)
            newer = [step for step in self.folder.steps() if step > self.state.step]  # torn, but not ours to judge
            self.folder.prune(keep=[*self._steps_to_keep(), *newer])

        self.processes.from_primary(go_back)

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
            TformerError: the loss is no longer a number, or a batch does not fit; nothing of that has been saved.
            CheckpointError: the disk takes no more.
            InterruptedRun: a signal asked for the end; the run has been saved.
        """
        state, config = self.state, self.config
        progress = TrainingProgress(state.last_step or config.max_steps, state.step)
        self._progress, self._started, self._elapsed_before = progress, time.monotonic(), state.elapsed_seconds
        self._window_started = self._started
        self._pace = Pace(config)
        self.model.train()
        try:
            with StopSignals() as self._signals:
                self._after_step()
                while (ending := self._ending()) is None:
                    if self._stop:
                        raise StopNow
                    self._step()
                    self._after_step()
                self._finish()
            return ending
        except StopNow:
            self._save_once()
            command = "tformer" if self.processes.world_size == 1 else "torchrun … -m tformer"
            raise InterruptedRun(
                f"stopped at step {state.step}, all saved; to go on: {command} train --resume --output "
                f"{shlex.quote(str(self.folder.path))}",
                self._stop or self._signals.received or 0,
            ) from None
        finally:
            progress.close()

    def _step(self) -> None:
        """Make one update."""
        state, config = self.state, self.config
        state.step += 1
        rate = learning_rate(state.step, config, self.model.config.d_model, state.last_step or config.max_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        window = self.stream.next_window(config.accumulate_batches)
        sums = self._update(window.batches, window.num_tokens)
        self._unlogged.append((state.step, sums, rate, window.pairs))
        if len(self._unlogged) == _FLUSH_EVERY_STEPS:
            self._log()
        if not state.last_step:
            self._fix_last_step()

    def _update(self, batches: list[Batch], num_tokens: int) -> LossSum:
        """Make an update, in halves from the first time on that memory has run out."""
        parts = halved(batches) if self._halving else batches
        try:
            on_device = [part.to(self.runtime.device) for part in parts]
            return train_step(
                self.model,
                on_device,
                self.optimizer,
                self.config,
                self.runtime,
                self.objective,
                num_tokens,
                self.processes,
            )
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            message = does_not_fit(parts, self.config, self.runtime.device)
            if self._halving or self.processes.world_size > 1:  # the others are in the midst of an exchange
                raise TformerError(f"step {self.state.step}: {message}") from error
        # not before the error is gone, whose traceback holds on to the tensors
        say(f"warning: step {self.state.step}: {message}; going on with each batch in halves")
        self._halving = True
        on_device.clear()
        self.optimizer.zero_grad(set_to_none=True)
        if self.runtime.device.type == "cuda":
            torch.cuda.empty_cache()
        return self._update(batches, num_tokens)

    def _after_step(self) -> None:
        """Do what is due at this step and has not been done, as a signal may have kept it from being."""
        state, config = self.state, self.config
        due = self.validate and state.step % config.validate_every_steps == 0 and state.validated_step < state.step
        improved = due and self._validate()
        if improved or (state.step % config.save_every_steps == 0 and (due or self._saved_step < state.step)):
            self._save()

    def _ending(self) -> str | None:
        """Say why the run is over, or None while it is not; all processes go by the same clock and signals."""
        state, config = self.state, self.config
        signal, elapsed = self.processes.highest(self._signals.received or 0, self._elapsed())
        self._stop = int(signal)
        if config.patience and state.validations_since_best >= config.patience:
            return (
                f"stopped at step {state.step}: {config.patience} validations without a better {config.best_metric} "
                f"than at step {state.best_step}"
            )
        if config.max_minutes and elapsed >= config.max_minutes * 60:
            return f"stopped at step {state.step}: {config.max_minutes:g} minutes are over"
        if state.step >= (state.last_step or config.max_steps):
            return f"finished step {state.step} of {state.last_step or config.max_steps}"
        return None

    def _elapsed(self) -> float:
        return self._elapsed_before + time.monotonic() - self._started

    def _fix_last_step(self) -> None:
        """Turn `max_minutes` into steps, once, by the pace so far, as soon as that is known: the primary's."""
        step, elapsed = self.state.step, self._elapsed()
        is_known = self._pace.is_known(step, elapsed - self._elapsed_before)
        last_step = self.processes.from_primary(lambda: self._pace.last_step(step, elapsed) if is_known else 0)
        if not last_step:
            return
        self.state.last_step = last_step
        self._progress.set_total(last_step)
        say(
            f"{self._pace.seconds_a_step * 1000:.0f} ms a step: {self.config.max_minutes:g} minutes allow {last_step} "
            "steps; the schedule ends there"
        )

    def _log(self) -> None:
        """Bring the losses over from the device, tell of skipped steps, and write a metrics line for each step."""
        if not self._unlogged:
            return
        seconds = time.monotonic() - self._window_started
        tokens_per_second = sum(sums.num_tokens for _, sums, _, _ in self._unlogged) / seconds
        values = torch.stack([torch.stack((sums.loss, sums.nll)) for _, sums, _, _ in self._unlogged]).tolist()
        for (step, sums, rate, pairs), (loss, nll) in zip(self._unlogged, values, strict=True):
            skipped = {} if math.isfinite(loss) else {"skipped": note_skip(self.state, step, self.stream.corpus, pairs)}
            if not skipped:
                self.state.skipped_in_a_row = 0
            self._add_metrics(
                step=step,
                split="train",
                loss=loss / sums.num_tokens,
                nll=nll / sums.num_tokens,
                learning_rate=rate,
                tokens_per_second=tokens_per_second,
                elapsed_seconds=self._elapsed(),
                **skipped,
            )
        self._metrics.write()
        self._progress.update(step, loss / sums.num_tokens, tokens_per_second, rate)
        return_freed_memory()
        now = time.monotonic()
        self._pace.note(now - self._window_started, len(self._unlogged))
        self._window_started = now
        self._unlogged.clear()
        if self.state.skipped_in_a_row >= _MOST_SKIPS:
            raise TformerError(
                diverged(
                    self.state.step,
                    f"{self.state.skipped_in_a_row} steps in a row had no finite loss or gradient",
                    self.folder,
                )
            )

    def _check(self) -> None:
        """Refuse weights that are no numbers: an update can break them whose loss and gradient were still some."""
        self._log()
        is_broken = not all(bool(held(parameter).isfinite().all()) for parameter in self.model.parameters())
        if self.processes.highest(is_broken) != [0]:
            raise TformerError(diverged(self.state.step, "a weight is no longer a finite number", self.folder))

    def _add_metrics(self, **fields: object) -> None:
        known = self._metrics.add(**fields)
        if self.watch:
            self.watch(known)

    def _validate(self) -> bool:
        """Measure, report, and count towards patience; tell whether this is the best so far."""
        self._check()
        result, score = self._measure()
        state = self.state
        state.validated_step = state.step
        self._former_best = state.best_score, state.best_step
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
        # processes that wait for each other cannot each drop what they are at
        with self._signals.obeyed_at_once() if self.processes.world_size == 1 else nullcontext():
            result = self.validate()
        self.model.train()
        self._add_metrics(
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
        self._metrics.write()
        self._window_started = time.monotonic()
        return result, result.bleu if self.config.best_metric == "bleu" else -result.nll

    def _save(self) -> None:
        """Save all that the run needs to go on exactly, and go on even where that fails, but not for long.

        Raises:
            CheckpointError: it has failed several times in a row.
        """
        self._check()
        try:
            self._write_checkpoint()
        except CheckpointError as error:
            self._failed_saves += 1
            if self.state.best_step == self.state.step:  # `best` still stands for the one before
                self.state.best_score, self.state.best_step = self._former_best
            if self._failed_saves == _MOST_FAILED_SAVES:
                raise
            say(f"warning: {error}; training goes on, and saves again when that is due")
        else:
            self._failed_saves = 0

    def _write_checkpoint(self) -> None:
        """Write a checkpoint, let `best` and `last` stand for it, then remove what nobody needs any more."""
        state = self.state
        state.epoch, state.taken = self.stream.epoch, self.stream.taken
        state.elapsed_seconds = self._elapsed()
        (cpu_random, cuda_random), *others = self.processes.gather(random_state(self.runtime.device))
        # a sharded model is gathered by all
        weights, optimizer = weights_of(self.model), whole_state(self.optimizer)

        def write() -> None:
            state.metrics_bytes = self._metrics.flush()
            random = {"cpu_random": cpu_random, "cuda_random": cuda_random, "other_random": others}
            self.folder.save(
                state.step, weights, {"state": dataclasses.asdict(state), "optimizer": optimizer, **random}
            )

        def tidy() -> None:
            if state.best_step == state.step:
                self.folder.point("best", state.step)
            self.folder.prune(keep=self._steps_to_keep())

        self.processes.from_primary(write)
        self._saved_step = state.step
        self.processes.from_primary(tidy)

    def _save_once(self) -> None:
        """Save for the last time, unless this very step has been: a whole checkpoint is not put at risk for nothing.

        Raises:
            CheckpointError: that fails.
        """
        if self._saved_step < self.state.step:
            self._check()
            self._write_checkpoint()

    def _steps_to_keep(self) -> list[int]:
        return [self.state.step, self.state.best_step, *self._steps_to_average()]

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
                self.processes.from_primary(lambda: self.folder.point("best", state.step))
        steps = self.processes.from_primary(self._steps_to_average)
        whole = self.processes.from_primary(lambda: self.folder.whole(steps))
        for step in sorted(set(steps).difference(whole)):
            say(f"warning: step {step} is damaged, and left out of the average")
        if len(whole) > 1:
            self._average(whole)

    def _average(self, steps: list[int]) -> None:
        """Average the last checkpoints (§6.1), and keep the mean unless validation finds it worse than the best one.

        Where the weights still move fast, as early in a run, the mean of several steps is worse than any of them.
        """
        self.processes.from_primary(lambda: self.folder.average(steps))
        what = f"the average of the last {len(steps)} checkpoints (steps {steps[0]} to {steps[-1]})"
        if self.validate is None:
            say(f"{what} is what translates from now on")
            return
        load_into(self.model, self.folder.averaged)
        result, score = self._measure(weights="averaged")
        shown = f"perplexity {result.perplexity:.2f} · BLEU {result.bleu:.1f} greedy"
        if self.state.best_score is not None and score < self.state.best_score:
            self.processes.from_primary(self.folder.forget_average)
            say(f"{what} is worse than step {self.state.best_step} ({shown}), and is not kept")
        else:
            say(f"{what} is what translates from now on: {shown}")
