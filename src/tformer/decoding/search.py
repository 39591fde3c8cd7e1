"""Greedy and beam search (Section 6.1) over any step function: tokens and state in, log-probabilities and state out."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from tformer.errors import CheckpointError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

S = TypeVar("S", bound="DecoderState")
DEAD = float("-inf")  # the log-probability of a place in the beam that holds no hypothesis


class DecoderState(Protocol):
    """What a step function carries from one step to the next: one row for each hypothesis."""

    def select(self: S, rows: Tensor) -> S:
        """Return the state of these rows, in this order; a row may be left out or be taken several times.

        Args:
            rows: `[new_rows] int64`, positions among the present rows.
        """
        ...


class StepFunction(Protocol[S]):
    """What is searched: the distribution of the next piece, for many hypotheses at once."""

    def __call__(self, tokens: Tensor, state: S, /) -> tuple[Tensor, S]:
        """Read one more piece of each hypothesis and return the log-probabilities of the next one, and the new state.

        Args:
            tokens: `[rows] int64`, the last piece of each hypothesis; `BOS_ID` at the start.
            state: what the pieces before them left behind.

        Returns:
            `log_probs: [rows, vocab] float32` and the state after these pieces.
        """
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One output of the search.

    Attributes:
        tokens: the pieces, without BOS and EOS.
        log_prob: the sum of the pieces' log-probabilities; EOS's included if the hypothesis is finished.
        score: `log_prob / ((5 + length) / 6) ** length_penalty`, where length counts the pieces summed in `log_prob`.
        finished: False if the hypothesis was cut at the maximum length, before its EOS.
    """

    tokens: list[int]
    log_prob: float
    score: float
    finished: bool


def greedy_search(step: StepFunction[S], state: S, max_lengths: Tensor) -> list[Hypothesis]:
    """Take the most probable piece at each step: a beam of one. Arguments as in `beam_search`; one result each."""
    return [best for [best] in beam_search(step, state, max_lengths, beam_size=1, length_penalty=0.0)]


@torch.inference_mode()
def beam_search(
    step: StepFunction[S],
    state: S,
    max_lengths: Tensor,
    beam_size: int,
    length_penalty: float,
    n_best: int = 1,
    no_repeat_ngram: int | None = None,
) -> list[list[Hypothesis]]:
    """Find the hypotheses of the highest score, length penalty included, with a beam that shrinks (Section 6.1).

    At each step a sentence's best `beam_size - finished` continuations are chosen among all its live hypotheses and
    the whole vocabulary. Those that end in EOS are finished, the others live on. A sentence is done when `beam_size`
    hypotheses have finished, or when no live one can still beat the `n_best`-th best of the finished; then its rows
    leave the batch. As log-probabilities are never positive, a live hypothesis cannot score more than its present
    `log_prob` over the penalty of the longest output. So stopping early never changes the result, and a larger `n_best`
    only adds to it.

    PAD and BOS are never chosen. A live hypothesis of `max_lengths` pieces may still finish, if its EOS is chosen in
    the step that follows; otherwise it is cut. So `max_lengths` of 0 gives one empty hypothesis, finished or cut.
    With `no_repeat_ngram`, neither is a piece that would complete a run of so many pieces for the second time; EOS may
    always follow, so that every hypothesis can go on. Nothing here depends on the other sentences of the batch.

    Args:
        step: the step function.
        state: one row a sentence.
        max_lengths: `[batch] int64`, the most pieces of each output, EOS not counted.
        beam_size: hypotheses a sentence, at least 1; it may exceed the vocabulary.
        length_penalty: alpha, at least 0; a larger one favours longer outputs.
        n_best: how many hypotheses to return for each sentence, at most `beam_size`.
        no_repeat_ngram: no run of so many pieces, at least 1, stands twice in a hypothesis; None: any may.

    Returns:
        For each sentence its best hypotheses, all different: the finished ones by falling score, then those cut. There
        are fewer than `n_best` only if the vocabulary and `max_lengths` allow no more.

    Raises:
        ValueError: `n_best`, `length_penalty`, `max_lengths` or `no_repeat_ngram` is out of range.
        CheckpointError: a sentence has no hypothesis of a finite log-probability, as the model gives NaN.
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"expected n_best between 1 and beam_size = {beam_size}, got {n_best}")
    if length_penalty < 0:
        raise ValueError(f"expected a length_penalty of at least 0, got {length_penalty}")
    if no_repeat_ngram is not None and no_repeat_ngram < 1:
        raise ValueError(f"expected a no_repeat_ngram of at least 1, got {no_repeat_ngram}")
    results: list[list[Hypothesis]] = [[] for _ in max_lengths]
    if not results:
        return []
    device = max_lengths.device
    limits = set(max_lengths.tolist())
    if min(limits) < 0:
        raise ValueError(f"expected max_lengths of at least 0, got {min(limits)}")
    penalties = ((torch.arange(max(limits) + 2, device=device) + 5) / 6) ** length_penalty  # by length

    # A sentence's hypotheses stand in `width` neighbouring rows: one before the first step, afterwards beam_size, or as
    # many as there are continuations. The tensors hold only the sentences still searched; `sentences` says which.
    sentences = torch.arange(len(results), device=device)  # [sentences]
    tokens = torch.full_like(sentences, BOS_ID)  # [rows]
    history = tokens.new_empty(len(results), 0)  # [rows, length]
    live = torch.zeros(len(results), 1, device=device)  # [sentences, width], log-probabilities of the live hypotheses
    best_scores = live.new_full((len(results), n_best), DEAD)  # [sentences, n_best], the best finished ones, falling
    places = torch.full_like(sentences, beam_size)  # [sentences], how many hypotheses may still finish

    for length in range(max(limits) + 1):  # the pieces of each live hypothesis so far
        log_probs, state = step(tokens, state)
        if no_repeat_ngram is not None:
            log_probs = _without_repetition(log_probs, history, no_repeat_ngram)
        width = live.size(1)
        chosen, parents, pieces = _best_continuations(live, log_probs, beam_size)
        chosen = chosen.masked_fill(torch.arange(chosen.size(1), device=device) >= places.unsqueeze(1), DEAD)
        rows = parents + width * torch.arange(len(live), device=device).unsqueeze(1)

        ends = (pieces == EOS_ID) & (chosen > DEAD)
        scores = chosen / penalties[length + 1]
        at, slot = ends.nonzero(as_tuple=True)
        _record(results, sentences[at], history[rows[at, slot]], chosen[at, slot], scores[at, slot], finished=True)
        at_limit = max_lengths == length
        if length in limits:
            has_end = (ends.unsqueeze(2) & (parents.unsqueeze(2) == torch.arange(width, device=device))).any(dim=1)
            cuts = (live > DEAD) & ~has_end & at_limit.unsqueeze(1)
            at, slot = cuts.nonzero(as_tuple=True)
            cut = live[at, slot]
            _record(results, sentences[at], history[at * width + slot], cut, cut / penalties[length], finished=False)

        places = places - ends.sum(dim=1)
        best_scores = torch.cat([best_scores, scores.masked_fill(~ends, DEAD)], dim=1).topk(n_best).values
        live = chosen.masked_fill(ends, DEAD)
        attainable = live.amax(dim=1) / penalties[max_lengths + 1]
        (kept,) = (~at_limit & (attainable > best_scores[:, -1])).nonzero(as_tuple=True)
        if not len(kept):
            break

        sentences, max_lengths, live, best_scores, places, rows, pieces = (
            tensor[kept] for tensor in (sentences, max_lengths, live, best_scores, places, rows, pieces)
        )
        rows, tokens = rows.flatten(), pieces.flatten()
        history = torch.cat([history[rows], tokens.unsqueeze(1)], dim=1)
        if not torch.equal(rows, torch.arange(len(log_probs), device=device)):  # a beam of one seldom moves a row
            state = state.select(rows)
    return [_ranked(hypotheses)[:n_best] for hypotheses in results]


def _without_repetition(log_probs: Tensor, history: Tensor, ngram: int) -> Tensor:
    """Give the log-probabilities with `DEAD` where the next piece would repeat a run of `ngram` pieces.

    Args:
        log_probs: `[rows, vocab] float32`, of the next piece.
        history: `[rows, length] int64`, the pieces of each hypothesis so far; EOS is none of them, so it stays.
        ngram: pieces in a run, at least 1.

    Returns:
        `[rows, vocab] float32`
    """
    length = history.size(1)
    if length < ngram:
        return log_probs
    runs = history.unfold(1, ngram, 1)  # [rows, runs, ngram]
    beginning = history[:, length - ngram + 1 :].unsqueeze(1)  # of the run that the next piece completes
    row, run = (runs[:, :, :-1] == beginning).all(dim=2).nonzero(as_tuple=True)
    return log_probs.index_put((row, runs[row, run, -1]), log_probs.new_tensor(DEAD))


def _best_continuations(live: Tensor, log_probs: Tensor, beam_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Choose each sentence's best continuations by one more piece.

    Args:
        live: `[sentences, width] float32`, log-probability of each hypothesis, `DEAD` where there is none.
        log_probs: `[sentences · width, vocab] float32`, of the next piece.
        beam_size: how many to choose; all where there are fewer.

    Returns:
        Falling log-probabilities `[sentences, chosen] float32`, the slots of the hypotheses that they continue, and
        their pieces (both `[sentences, chosen] int64`).
    """
    vocab_size = log_probs.size(1)
    totals = live.unsqueeze(2) + log_probs.reshape(*live.shape, vocab_size)
    totals[:, :, PAD_ID] = DEAD
    totals[:, :, BOS_ID] = DEAD
    chosen, flat = totals.flatten(1).topk(min(beam_size, live.size(1) * vocab_size))
    return chosen, flat // vocab_size, flat % vocab_size


def _record(
    results: list[list[Hypothesis]], at: Tensor, tokens: Tensor, log_probs: Tensor, scores: Tensor, *, finished: bool
) -> None:
    """Add the hypotheses that stop in this step to the results of their sentences.

    Args:
        results: one list a sentence, added to.
        at: `[stopped] int64`, the sentence of each.
        tokens: `[stopped, length] int64`.
        log_probs: `[stopped] float32`.
        scores: `[stopped] float32`.
        finished: whether they end in EOS.
    """
    if not len(at):
        return
    integers = torch.cat([at.unsqueeze(1), tokens], dim=1).tolist()
    for (sentence, *pieces), log_prob, score in zip(integers, log_probs.tolist(), scores.tolist(), strict=True):
        results[sentence].append(Hypothesis(pieces, log_prob, score, finished))


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Sort a sentence's hypotheses: the finished by falling score, then those cut; of equals the one found first."""
    if not hypotheses:
        raise CheckpointError(
            "expected finite log-probabilities from the model, got none for any continuation of a sentence: its "
            "weights are damaged or its training diverged; use an earlier checkpoint, or train at a lower learning rate"
        )
    return sorted(hypotheses, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
