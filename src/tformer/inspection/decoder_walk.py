"""The decoder's side of a trace: a translation piece by piece, or the training view of a given one."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tformer.inspection.record import Pair, Recording
from tformer.inspection.steps import Column, Line, Mask, Shares, Step, Table, numbers
from tformer.model import Transformer

_CANDIDATES = 5


def generation_steps(
    model: Transformer, pair: Pair, heard: Recording, pieces: list[str], layer: int, head: int
) -> list[Step]:
    """Follow the decoder from BOS to EOS: what each step sees, where it looks, what it could write.

    All steps stand in one pass: the causal mask leaves each the prefix alone, as when it was written.

    Args:
        model: that was heard.
        pair: what it read and wrote.
        heard: the pass.
        pieces: those of the whole target vocabulary, by id.
        layer: of the decoder, from 1: whose attention is shown.
        head: likewise.
    """
    layers, d_model = len(model.decoder_layers), model.config.d_model
    mask = heard.decoder_self[layer - 1].mask
    overview = Step(
        "decoder",
        "The decoder writes one piece after another",
        "MaskedMultiHead(prefix, prefix, prefix) → MultiHead(prefix, memory, memory) → FFN",
        "§3.1, §3.2.3",
        f"each of {layers} layers: {len(pair.tgt_out)} target positions × {d_model} features, "
        f"and the memory, {len(pair.src)} × {d_model}",
        [
            Mask(
                "causal_mask",
                "causal mask: a row reads the columns marked ■",
                pair.tgt_in_pieces,
                pair.tgt_in_pieces,
                mask.tolist(),
            )
        ],
        f"The prefix starts with {pair.start}. A blocked score is −∞ before the softmax, so its weight is exactly 0: "
        "no piece is written by reading what comes after it.",
    )
    output = Step(
        "output",
        "The last layer's output becomes probabilities",
        "P(next piece) = softmax(x W)" + ("" if model.config.tie_embeddings == "none" else ",  W = Eᵀ"),
        "§3.4",
        f"{d_model} features → {len(pieces)} scores (logits) → {len(pieces)} probabilities, at each step",
        note=f"Below, self-attention and cross-attention are those of layer {layer}, head {head}.",
    )
    probabilities = heard.logits.softmax(dim=-1)
    return [overview, output, *(_generation_step(pair, heard, pieces, probabilities, layer, head, place)
                                for place in range(len(pair.tgt_out)))]  # fmt: skip


def _generation_step(
    pair: Pair, heard: Recording, pieces: list[str], probabilities: Tensor, layer: int, head: int, place: int
) -> Step:
    prefix = pair.tgt_in_pieces[: place + 1]
    own = heard.decoder_self[layer - 1].weights[head - 1, place]
    cross = heard.cross[layer - 1].weights[head - 1, place]
    best = probabilities[place].topk(min(_CANDIDATES, len(pieces)))
    chosen = pair.tgt_out[place]
    note = "" if chosen == best.indices[0] else "Not the likeliest here: the beam found it to lead to a better whole."
    return Step(
        "write",
        f"Step {place + 1}: {pair.tgt_pieces[place]}",
        blocks=[
            Line("prefix", "prefix", " ".join(prefix)),
            Shares("self_attention", "self-attention", pair.tgt_in_pieces, numbers(own), len(own) - place - 1),
            Shares("cross_attention", "cross-attention", pair.src_pieces, numbers(cross)),
            Shares("next", "five best", [pieces[index] for index in best.indices], numbers(best.values), exact=True),
            Shares("chosen", "chosen", [pair.tgt_pieces[place]], [float(probabilities[place, chosen])], exact=True),
        ],
        note=note,
    )


def training_steps(pair: Pair, padded: Recording, label_smoothing: float) -> list[Step]:
    """Show what a training step sees of a pair, and what it is asked to lower.

    Args:
        pair: source and target.
        padded: the pass over it with some padding behind both sides.
        label_smoothing: ε of the loss.
    """
    count = len(pair.tgt_out)
    padding = len(padded.logits) - count
    logits, labels = padded.logits[:count], torch.tensor(pair.tgt_out)
    nll = F.cross_entropy(logits, labels, reduction="none")
    loss = F.cross_entropy(logits, labels, reduction="none", label_smoothing=label_smoothing)
    shift: dict[str, Column] = {
        "positions": list(range(count)),
        "tgt_in": pair.tgt_in_pieces,
        "tgt_out": pair.tgt_pieces,
    }
    losses: dict[str, Column] = {
        "positions": list(range(count)),
        "labels": pair.tgt_pieces,
        "probabilities": numbers((-nll).exp()),
        "nll": numbers(nll),
        "loss": numbers(loss),
    }
    return [
        Step(
            "shift",
            "The target, shifted right: what the decoder reads, and what it is to say",
            "tgt_in = <s> + y,  tgt_out = y + </s>",
            "§3.1",
            f"{count} positions: at each, one label for all that stands up to there",
            [Table(shift, ("position", "tgt_in", "tgt_out"), across=True)],
            "All positions are trained at once; the prefix is the right one, whatever the model would have written.",
        ),
        _masks(pair, padded, padding),
        Step(
            "loss",
            "The loss: how little the right pieces were expected",
            "loss = (1 − ε) · (−ln P(label)) + ε · mean over the vocabulary of (−ln P)",
            "§5.4",
            f"{count} × {logits.size(1)} logits, {count} labels → {count} losses → their sum",
            [
                Line("label_smoothing", "ε, label smoothing", label_smoothing),
                Table(losses, ("pos", "label", "P(label)", "−ln P", "loss"), bar="probabilities", sums=("nll", "loss")),
                Line("mean_loss", "loss a token", float(loss.mean())),
                Line("perplexity", "perplexity", math.exp(nll.mean())),
            ],
            f"In nats. Training lowers the loss a token of a whole batch; the {padding} padded positions give none. "
            "Perplexity is exp of the mean of −ln P. Shown without the dropout of training.",
        ),
    ]


def _masks(pair: Pair, padded: Recording, padding: int) -> Step:
    source, target = ([*pieces, *["<pad>"] * padding] for pieces in (pair.src_pieces, pair.tgt_in_pieces))
    src_mask, tgt_mask = padded.cross[0].mask, padded.decoder_self[0].mask
    return Step(
        "masks",
        f"In a batch with a pair that is {padding} pieces longer: padding, and the two masks",
        "",
        "§3.2.3",
        f"source: 1 × {len(source)}, for every query; target: {len(target)} queries × {len(target)} keys",
        [
            Mask("src_padding_mask", "source, padding mask", ["every query"], source, src_mask[:1].tolist(), padding),
            Mask("tgt_mask", "target, causal and padding mask", target, target, tgt_mask.tolist(), padding),
        ],
        "True (■) = may be attended. What padded positions compute themselves is left out of the loss.",
    )
