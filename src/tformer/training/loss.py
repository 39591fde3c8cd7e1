"""Label-smoothed cross-entropy, as sums (the paper, §5.4): any cut of a batch into parts adds up to the same.

`sequence_loss` is the formula to read; training runs `output_loss`, the same from one layer further down and in a
fraction of its time and memory. Tests hold the two equal.
"""

import math
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tformer.data.batching import Batch
from tformer.model import Transformer
from tformer.training.distributed import ALONE, Processes
from tformer.vocabulary import PAD_ID

_LOGITS_AT_ONCE = 2**21  # as many as the nearer caches of a CPU hold
_LOGITS_AT_ONCE_ON_GPU = 2**26
_SMALLEST = 1e-38  # a probability below it counts as this one: 87 nats


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


def output_loss(
    hidden: Tensor, output_weight: Tensor, tgt_out: Tensor, num_tokens: int, label_smoothing: float, dtype: torch.dtype
) -> LossSum:
    """Compute `sequence_loss` of the logits `hidden · output_weightᵀ` without ever holding all of them.

    The logits are the largest tensor of a step by far. Here they are made, turned into gradients, and dropped, some
    rows at a time.

    Args:
        hidden: [batch, tgt_len, d_model] float, what the output layer reads.
        output_weight: [vocab, d_model] float32, the output layer's.
        tgt_out: [batch, tgt_len] int64, PAD behind the shorter rows.
        num_tokens: entries of tgt_out that are not PAD.
        label_smoothing: ε, from 0 to below 1.
        dtype: what the matrix products are computed in; sums are float32 whatever it is.
    """
    labels = tgt_out.flatten()
    real = labels != PAD_ID
    rows = hidden.flatten(0, 1).to(output_weight.dtype) * real.unsqueeze(1)  # rows of zeros reach no gradient
    loss, nll = _LossOfRows.apply(rows, output_weight, labels, real, label_smoothing, dtype)  # type: ignore[no-untyped-call]
    return LossSum(loss, nll, num_tokens)


class _LossOfRows(torch.autograd.Function):
    """Loss and nll over the real rows, of the scores rows · weightᵀ; the gradients are made on the way forward.

    With s the scores of a row, and y its right piece, the nll is −log softmax(s)_y, and its gradient by the scores is
    softmax(s) minus the label. What smoothing adds, ε · (s_y − mean s), needs no scores but s_y: their mean is the
    score of the weight's mean row.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        rows: Tensor,
        weight: Tensor,
        labels: Tensor,
        real: Tensor,
        label_smoothing: float,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """rows: [rows, d_model], zeros where not real; weight: [vocab, d_model]; labels, real: [rows] → two of []."""
        vocab_size, d_model = weight.shape
        wants_gradient = any(ctx.needs_input_grad)
        lower_rows, lower_weight = rows.to(dtype), weight.to(dtype)
        rows_gradient = torch.empty_like(lower_rows)
        weight_gradient = torch.zeros_like(weight)
        log_probs = torch.empty_like(rows[:, 0])
        at_once = _LOGITS_AT_ONCE if rows.device.type == "cpu" else _LOGITS_AT_ONCE_ON_GPU
        size = max(at_once // vocab_size, 2 * d_model)  # of fewer rows the weight's gradient is not worth adding up
        for part in (slice(start, start + size) for start in range(0, len(rows), size)):
            probabilities = (lower_rows[part] @ lower_weight.T).softmax(dim=1)
            right = torch.arange(len(probabilities), device=rows.device) * vocab_size + labels[part]
            flat = probabilities.view(-1)
            right_probabilities = flat[right]
            log_probs[part] = right_probabilities.to(rows.dtype).clamp_min(_SMALLEST).log()
            if wants_gradient:
                flat[right] = right_probabilities - (1 - label_smoothing)
                torch.mm(probabilities, lower_weight, out=rows_gradient[part])
                weight_gradient += probabilities.T @ lower_rows[part]
        nll = -(log_probs * real).sum()
        mean_weight = weight.mean(dim=0)
        smoothing = (rows * weight[labels]).sum() - rows.sum(dim=0) @ mean_weight
        if wants_gradient:
            rows_gradient = rows_gradient.to(rows.dtype).sub_(label_smoothing * mean_weight)
            weight_gradient -= label_smoothing / vocab_size * rows.sum(dim=0)
            ctx.save_for_backward(rows_gradient, weight_gradient)
        ctx.mark_non_differentiable(nll)
        return nll + label_smoothing * smoothing, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """gradient: [] float32, by the loss."""
        rows_gradient, weight_gradient = ctx.saved_tensors
        return rows_gradient * gradient, weight_gradient * gradient, None, None, None, None


@torch.inference_mode()
def corpus_nll(
    model: Transformer, batches: Iterable[Batch], device: torch.device, processes: Processes = ALONE
) -> float:
    """Measure the negative log-likelihood a token that a model gives a corpus, right prefixes given: nats, unsmoothed.

    Args:
        model: in evaluation mode, on `device`.
        batches: the whole corpus, each pair once.
        device: where the model lives.
        processes: who takes part; each measures its share of the batches, and all get the same answer.
    """
    nll, num_tokens = [torch.zeros((), device=device)], 0
    for batch in (batch.to(device) for batch in islice(batches, processes.rank, None, processes.world_size)):
        hidden = model.hidden(batch.src, batch.tgt_in, batch.src_padding_mask, batch.tgt_padding_mask)
        sums = output_loss(hidden, model.output.weight, batch.tgt_out, batch.num_tokens, 0.0, torch.float32)
        nll.append(sums.nll)
        num_tokens += sums.num_tokens
    # summed in float64, which not every device has
    total = torch.stack(nll).cpu().double().sum().item()
    total_of_all, tokens_of_all = processes.sum(torch.tensor([total, num_tokens], dtype=torch.float64))
    return float(total_of_all / tokens_of_all)


def perplexity(nll: float) -> float:
    """Give exp(nll), and infinity where a model that has run away passes what a float can hold."""
    try:
        return math.exp(nll)
    except OverflowError:
        return math.inf
