"""Label-smoothed cross-entropy, as sums (the paper, §5.4): any cut of a batch into parts adds up to the same."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tformer.data.batching import Batch
from tformer.model import Transformer
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


@torch.inference_mode()
def corpus_nll(model: Transformer, batches: Iterable[Batch], device: torch.device) -> float:
    """Measure the negative log-likelihood a token that a model gives a corpus, right prefixes given: nats, unsmoothed.

    Args:
        model: in evaluation mode, on `device`.
        batches: the whole corpus, each pair once.
        device: where the model lives.
    """
    nll, num_tokens = [], 0
    for batch in (batch.to(device) for batch in batches):
        logits = model(batch.src, batch.tgt_in, batch.src_padding_mask, batch.tgt_padding_mask)
        sums = sequence_loss(logits, batch.tgt_out, batch.num_tokens, label_smoothing=0.0)
        nll.append(sums.nll)
        num_tokens += sums.num_tokens
    # summed in float64, which not every device has
    return torch.stack(nll).cpu().double().sum().item() / num_tokens


def perplexity(nll: float) -> float:
    """Give exp(nll), and infinity where a model that has run away passes what a float can hold."""
    try:
        return math.exp(nll)
    except OverflowError:
        return math.inf
