"""One update (the paper, §5.3, §5.4): forward, loss, backward over a window of batches, then Adam."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tformer.config import TrainingConfig
from tformer.data.batching import Batch
from tformer.model import Transformer
from tformer.runtime import Runtime
from tformer.training.distributed import ALONE, Processes, exchange_gradients, whole
from tformer.training.loss import LossSum, output_loss


class Objective(nn.Module):
    """What training lowers, as one module: forward pass and loss, so that several processes can share it whole.

    Args:
        model: in training mode.
        label_smoothing: ε, from 0 to below 1.
        runtime: the precision of the forward pass.
    """

    def __init__(self, model: Transformer, label_smoothing: float, runtime: Runtime) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.runtime = runtime
        # sentences of all lengths: compiled once for shapes that change, not once for each
        self.hidden = torch.compile(model.hidden, dynamic=True) if runtime.compile else model.hidden

    def forward(self, batch: Batch) -> LossSum:
        """Give the sums over one batch, on the model's device."""
        with self.runtime.autocast():
            hidden = self.hidden(batch.src, batch.tgt_in, batch.src_padding_mask, batch.tgt_padding_mask)
        weight = self.model.output.weight
        return output_loss(hidden, weight, batch.tgt_out, batch.num_tokens, self.label_smoothing, self.runtime.dtype)


def make_optimizer(model: Transformer, config: TrainingConfig, runtime: Runtime) -> torch.optim.Adam:
    """Make Adam with the paper's constants, or the settings' (§5.3); the learning rate is set before each update."""
    return torch.optim.Adam(
        model.parameters(),
        betas=(config.adam_beta_1, config.adam_beta_2),
        eps=config.adam_epsilon,
        fused=runtime.device.type in ("cpu", "cuda"),
    )


def train_step(
    model: Transformer,
    batches: Sequence[Batch],
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
    runtime: Runtime,
    objective: nn.Module | None = None,
    num_tokens: int | None = None,
    processes: Processes = ALONE,
) -> LossSum:
    """Make one update from a window of batches; losses are divided by the tokens of all of them together.

    Several processes make the same update: each computes its own batches, and gradients and sums are those of all.
    Where the loss or the gradient is no finite number, weights and optimizer stay as they are.

    Args:
        model: in training mode.
        batches: the micro-steps of this update, on the model's device; at least one.
        optimizer: with this step's learning rate set.
        config: label smoothing and clipping.
        runtime: the precision of the forward pass.
        objective: the model's `Objective`, spread over the processes; None: made here, for one alone.
        num_tokens: real target tokens of all processes' batches; None: of these.
        processes: who takes part.

    Returns:
        The sums over all batches, without gradients; a loss of NaN where there was no update.
    """
    objective = objective or Objective(model, config.label_smoothing, runtime)
    num_tokens = num_tokens or sum(batch.num_tokens for batch in batches)
    loss, nll = torch.zeros((), device=runtime.device), torch.zeros((), device=runtime.device)
    for number, batch in enumerate(batches, start=1):
        exchange_gradients(objective, now=number == len(batches))
        sums = objective(batch)
        # the exchange makes the mean over processes of what is to be their sum
        (sums.loss * processes.world_size / num_tokens).backward()
        loss, nll = loss + sums.loss.detach(), nll + sums.nll
    loss, nll = processes.sum(torch.stack((loss, nll)))
    finite = loss.isfinite() & gradient_norm(model, config.clip_norm).isfinite()
    if finite.device.type == "cuda":
        update_where(finite, optimizer)
    elif finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return LossSum(loss.where(finite, math.nan), nll, num_tokens)


def gradient_norm(model: Transformer, bound: float | None) -> Tensor:
    """Give the norm of the whole gradient, or another number that is finite where it is; scale it down to a bound.

    Args:
        model: after the backward pass.
        bound: `training.clip_norm`; None: the gradient stays as it is.
    """
    if bound is not None:
        return whole(torch.nn.utils.clip_grad_norm_(model.parameters(), bound))
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return whole(torch.stack(torch._foreach_norm(gradients)).sum())


def update_where(finite: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Make an update, or none, by a flag that stays on the device: to ask for it would be to wait for all before it.

    Args:
        finite: [] bool.
        optimizer: fused, so that where `finite` is False its kernel leaves weights, moments and count of updates alone.
    """
    optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
    optimizer.step()
