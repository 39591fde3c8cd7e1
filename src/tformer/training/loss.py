"""Label-smoothed cross-entropy, as sums (the paper, §5.4), so that any cut of a batch into parts adds up to the same."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tformer.vocabulary import PAD_ID


class LossSum(NamedTuple):
    """Sums over the real target tokens of some batches; dividing by `num_tokens` is left to whoever has seen them all.

    Attributes:
        loss: [] float32, label-smoothed cross-entropy in nats: what training lowers.
        nll: [] float32, negative log-likelihood in nats, unsmoothed: what is reported; carries no gradient.
        num_tokens: real target tokens, EOS included.
    """

    loss: Tensor
    nll: Tensor
    num_tokens: int


def sequence_loss(logits: Tensor, tgt_out: Tensor, num_tokens: int, label_smoothing: float) -> LossSum:
    """Sum the cross-entropy of the next piece over all real target positions; padding gives no loss and no gradient.

    The smoothed label puts 1 − ε on the right piece and spreads ε evenly over the whole vocabulary.

    Args:
        logits: [batch, tgt_len, vocab] float; summed in float32 whatever their type.
        tgt_out: [batch, tgt_len] int64, PAD behind the shorter rows.
        num_tokens: entries of tgt_out that are not PAD.
        label_smoothing: ε, from 0 to below 1.
    """
    scores, labels = logits.float().flatten(0, 1), tgt_out.flatten()
    loss = F.cross_entropy(scores, labels, ignore_index=PAD_ID, reduction="sum", label_smoothing=label_smoothing)
    with torch.no_grad():
        # both losses hold the same log Σ exp, so they differ by ε · (the right piece's score − the mean score)
        right = scores.gather(1, labels.unsqueeze(1)).squeeze(1)
        excess = (right - scores.mean(dim=1)).masked_fill(labels == PAD_ID, 0.0).sum()
        nll = loss - label_smoothing * excess
    return LossSum(loss, nll, num_tokens)
