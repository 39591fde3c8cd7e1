"""A few real training steps on small batches, to tell what a whole run will take in memory and in minutes.

What is measured is small, so that it takes seconds whatever the model; what is told is scaled from it, and an estimate.
"""

import statistics
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tformer.config import TrainingConfig
from tformer.data.batching import Batch, collate, plan_batches
from tformer.data.store import IntArray, TokenisedCorpus
from tformer.model import Transformer
from tformer.runtime import Runtime
from tformer.training.step import Objective, train_step

_TOKENS = 1_536  # of a trial's batch, at most
_STEPS = 5  # timed, after one that is not
_SECONDS = 10.0  # no step is begun after so many
_BYTES_A_PARAMETER = 16  # float32: weight, gradient, and Adam's two averages


@dataclass(frozen=True)
class Trial:
    """What a few steps showed.

    Attributes:
        parameters: of the model.
        steps: updates that were timed.
        tokens: positions of one of their batches, the larger side, padding included.
        seconds_per_token: of forward and backward pass, a position of the larger side.
        seconds_per_update: of the optimizer, whatever the batch.
        bytes_per_token: of activations and the loss, a position of the larger side.
    """

    parameters: int
    steps: int
    tokens: int
    seconds_per_token: float
    seconds_per_update: float
    bytes_per_token: float

    def seconds_per_step(self, tokens: float, batches: int) -> float:
        """Estimate one update from `batches` batches of so many positions each."""
        return batches * tokens * self.seconds_per_token + self.seconds_per_update

    def memory_bytes(self, tokens: float) -> int:
        """Estimate what training holds at most: weights, gradients, Adam's averages, and a batch's activations."""
        return round(self.parameters * _BYTES_A_PARAMETER + tokens * self.bytes_per_token)


def try_training(
    model: Transformer, corpus: TokenisedCorpus, usable: IntArray, config: TrainingConfig, runtime: Runtime
) -> Trial:
    """Train for a few steps, which change the model, and measure.

    Args:
        model: fresh, on the runtime's device.
        corpus: training pairs.
        usable: [pairs] int64, those of them that are trained on.
        config: batch size, optimizer, label smoothing.
        runtime: device and precision.
    """
    budget = min(config.max_tokens_per_batch, _TOKENS)
    planned = plan_batches(corpus.src.lengths[usable], corpus.tgt.lengths[usable], budget)
    spread = np.linspace(0, len(planned) - 1, _STEPS).astype(int)  # from short to long
    batches = [usable[planned[index]] for index in spread]
    model.train()
    bytes_per_token = _bytes_per_token(model, corpus, batches[len(batches) // 2], config, runtime)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-6, fused=runtime.device.type in ("cpu", "cuda"))
    clock = _Clock(runtime.device)
    optimizer.register_step_pre_hook(lambda *_: clock.mark())
    passes, updates, tokens = [], [], []
    started = time.monotonic()
    for indices in (batches[-1], *batches):
        batch = collate(corpus, indices).to(runtime.device)
        clock.start()
        train_step(model, [batch], optimizer, config, runtime)
        clock.mark()
        before_update, whole = clock.marks
        passes.append(before_update)
        updates.append(whole - before_update)
        tokens.append(max(batch.src.numel(), batch.tgt_in.numel()))
        if len(passes) > 1 and time.monotonic() - started > _SECONDS:
            break
    # the first step takes memory and fills caches that the others find there
    return Trial(
        parameters=model.num_parameters(),
        steps=len(passes) - 1,
        tokens=round(statistics.mean(tokens[1:])),
        seconds_per_token=statistics.median(np.divide(passes[1:], tokens[1:]).tolist()),
        seconds_per_update=statistics.median(updates[1:]),
        bytes_per_token=bytes_per_token,
    )


class _Clock:
    """Seconds since `start`, each time the device has done what it was given."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.marks: list[float] = []

    def start(self) -> None:
        """Begin anew, without marks."""
        self.marks = []
        self._started = self._now()

    def mark(self) -> None:
        """Note how long it has been."""
        self.marks.append(self._now() - self._started)

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        elif self._device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter()


def _bytes_per_token(
    model: Transformer, corpus: TokenisedCorpus, indices: IntArray, config: TrainingConfig, runtime: Runtime
) -> float:
    """Measure what a position adds: two sizes tell it from what is fixed, as weights cast to bfloat16 are."""
    sizes = []
    for rows in (len(indices), len(indices) // 2):
        if rows:
            batch = collate(corpus, indices[:rows]).to(runtime.device)
            saved = activation_bytes(model, batch, config.label_smoothing, runtime)
            sizes.append((max(batch.src.numel(), batch.tgt_in.numel()), saved))
    (tokens, saved), (fewer_tokens, less_saved) = sizes if len(sizes) == 2 else (*sizes, (0, 0))
    return (saved - less_saved) / (tokens - fewer_tokens)


def activation_bytes(model: Transformer, batch: Batch, label_smoothing: float, runtime: Runtime) -> int:
    """Count the bytes of a batch where there are most: what the backward pass needs.

    Args:
        model: in training mode.
        batch: on the model's device.
        label_smoothing: as in training.
        runtime: the precision of the forward pass.

    Returns:
        All storages that the forward pass saves, besides the weights; copies of weights are among them.
    """
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        sums = Objective(model, label_smoothing, runtime)(batch)
    assert sums.loss.requires_grad  # whose graph keeps the storages alive up to here, so that no address comes twice
    return sum(storages.values())
