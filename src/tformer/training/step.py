"""One update (the paper, §5.3, §5.4): forward, loss, backward over a window of batches, then Adam."""

from collections.abc import Sequence

import torch

from tformer.config import TrainingConfig
from tformer.data.batching import Batch
from tformer.model import Transformer
from tformer.runtime import Runtime
from tformer.training.loss import LossSum, sequence_loss


def train_step(
    model: Transformer,
    batches: Sequence[Batch],
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
    runtime: Runtime,
) -> LossSum:
    """Make one update from a window of batches; losses are divided by the tokens of all of them together.

    Args:
        model: in training mode.
        batches: the micro-steps of this update, on the model's device.
        optimizer: with this step's learning rate set.
        config: label smoothing and clipping.
        runtime: the precision of the forward pass.

    Returns:
        The sums over all batches, without gradients.
    """
    num_tokens = sum(batch.num_tokens for batch in batches)
    loss, nll = torch.zeros((), device=runtime.device), torch.zeros((), device=runtime.device)
    for batch in batches:
        with runtime.autocast():
            logits = model(batch.src, batch.tgt_in, batch.src_padding_mask, batch.tgt_padding_mask)
        sums = sequence_loss(logits, batch.tgt_out, batch.num_tokens, config.label_smoothing)
        (sums.loss / num_tokens).backward()  # type: ignore[no-untyped-call]
        loss, nll = loss + sums.loss.detach(), nll + sums.nll
    if config.clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return LossSum(loss, nll, num_tokens)
