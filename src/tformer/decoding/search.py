"""Greedy and beam search (Section 6.1) over any step function: tokens and state in, log-probabilities and state out.

Scores over the vocabulary stay on the model's device; of each row the few best come to the host, once a step, and all
that is decided is decided there, for all sentences at once.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tformer.errors import CheckpointError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

S = TypeVar("S", bound="DecoderState")
DEAD = float("-inf")  # the log-probability of a place in the beam that holds no hypothesis

_LEAVING_SHARE = 8  # sentences leave the batch, which copies it, once one in so many is done
_GRID_LINES = 32  # see `_largest`

Array = npt.NDArray[Any]


class DecoderState(Protocol):
    """What a step function carries from one step to the next: one row for each hypothesis."""

    def select(self: S, rows: Tensor, sentences: Tensor) -> S:
        """Return the state of these rows, in this order; a row may be left out or be taken several times.

        The rows of a sentence stand side by side, and all sentences have equally many.

        Args:
            rows: `[new_rows] int64`, positions among the present rows.
            sentences: `[new_sentences] int64`, rising positions among the present sentences: those that go on.
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
            `log_probs: [rows, vocab] float32`, which the search may write into, and the state after these pieces.
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
    limits = max_lengths.cpu().numpy()  # [sentences]
    results: list[list[Hypothesis]] = [[] for _ in limits]
    if not results:
        return []
    if limits.min() < 0:
        raise ValueError(f"expected max_lengths of at least 0, got {limits.min()}")
    device = max_lengths.device
    penalties = ((np.arange(limits.max() + 2, dtype=np.float32) + 5) / 6) ** np.float32(length_penalty)  # by length

    # A sentence's hypotheses stand in `width` neighbouring rows: one before the first step, afterwards beam_size, or as
    # many as there are continuations. The arrays hold the sentences still in the batch; `sentences` says which.
    sentences = np.arange(len(results))  # [sentences]
    tokens = np.full_like(sentences, BOS_ID)  # [rows]
    history = np.empty((len(results), 0), np.int64)  # [rows, length]
    live = np.zeros((len(results), 1), np.float32)  # [sentences, width], log-probabilities of the live hypotheses
    best_scores = np.full((len(results), n_best), DEAD, np.float32)  # the best finished ones of each sentence, falling
    places = np.full_like(sentences, beam_size)  # [sentences], how many hypotheses may still finish

    for length in range(limits.max() + 1):  # the pieces of each live hypothesis so far
        log_probs, state = step(torch.from_numpy(tokens).to(device), state)
        if no_repeat_ngram is not None:
            _bar_repetition(log_probs, history, no_repeat_ngram)
        chosen, parents, pieces = _best_continuations(live, log_probs, beam_size)
        chosen[np.arange(chosen.shape[1]) >= places[:, None]] = DEAD
        rows = parents + live.shape[1] * np.arange(len(live))[:, None]

        ends = (pieces == EOS_ID) & (chosen > DEAD)
        scores = chosen / penalties[length + 1]
        _record(results, sentences, ends, history[rows], chosen, scores, finished=True)
        at_limit = limits == length
        if at_limit.any():
            has_end = (ends[:, :, None] & (parents[:, :, None] == np.arange(live.shape[1]))).any(axis=1)
            cuts = (live > DEAD) & ~has_end & at_limit[:, None]
            prefixes = history.reshape(*live.shape, length)
            _record(results, sentences, cuts, prefixes, live, live / penalties[length], finished=False)

        places = places - ends.sum(axis=1)
        ended = np.where(ends, scores, DEAD)
        best_scores = -np.sort(-np.concatenate([best_scores, ended], axis=1))[:, :n_best]
        live = np.where(ends, DEAD, chosen)
        attainable = live.max(axis=1) / penalties[limits + 1]
        goes_on = ~at_limit & (attainable > best_scores[:, -1])
        if not goes_on.any():
            break
        live[~goes_on] = DEAD

        stays = np.arange(len(live))
        if _LEAVING_SHARE * goes_on.sum() <= (_LEAVING_SHARE - 1) * len(live):
            (stays,) = goes_on.nonzero()
            sentences, limits, live, best_scores, places, rows, pieces = (
                array[stays] for array in (sentences, limits, live, best_scores, places, rows, pieces)
            )
        rows, tokens = rows.ravel(), pieces.ravel()
        history = np.concatenate([history[rows], tokens[:, None]], axis=1)
        if len(rows) != len(log_probs) or (rows != np.arange(len(rows))).any():  # a beam of one seldom moves a row
            state = state.select(torch.from_numpy(rows).to(device), torch.from_numpy(stays).to(device))
    return [_ranked(hypotheses)[:n_best] for hypotheses in results]


def _bar_repetition(log_probs: Tensor, history: Array, ngram: int) -> None:
    """Write `DEAD` where the next piece would repeat a run of `ngram` pieces.

    Args:
        log_probs: `[rows, vocab] float32`, of the next piece.
        history: `[rows, length] int64`, the pieces of each hypothesis so far; EOS is none of them, so it stays.
        ngram: pieces in a run, at least 1.
    """
    length = history.shape[1]
    if length < ngram:
        return
    runs = np.lib.stride_tricks.sliding_window_view(history, ngram, axis=1)  # [rows, runs, ngram]
    beginning = history[:, None, length - ngram + 1 :]  # of the run that the next piece completes
    row, run = (runs[:, :, :-1] == beginning).all(axis=2).nonzero()
    barred = torch.from_numpy(np.stack([row, runs[row, run, -1]])).to(log_probs.device)
    log_probs[barred[0], barred[1]] = DEAD


def _best_continuations(live: Array, log_probs: Tensor, beam_size: int) -> tuple[Array, Array, Array]:
    """Choose each sentence's best continuations by one more piece: they are among the best of each hypothesis.

    Args:
        live: `[sentences, width] float32`, log-probability of each hypothesis, `DEAD` where there is none.
        log_probs: `[sentences · width, vocab] float32`, of the next piece.
        beam_size: how many to choose; all where there are fewer.

    Returns:
        Falling log-probabilities `[sentences, chosen] float32`, the slots of the hypotheses that they continue, and
        their pieces (both `[sentences, chosen] int64`).
    """
    for never in (PAD_ID, BOS_ID):
        log_probs[:, never] = DEAD
    values, pieces = (part.cpu().numpy() for part in _largest(log_probs, min(beam_size, log_probs.size(1))))
    totals = (live.reshape(-1, 1) + values).reshape(len(live), -1)  # [sentences, width · best of a hypothesis]
    order = np.argsort(-totals, axis=1, kind="stable")[:, :beam_size]
    chosen = np.take_along_axis(totals, order, axis=1)
    return chosen, order // values.shape[1], np.take_along_axis(pieces.reshape(totals.shape), order, axis=1)


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Give the largest values of each row, falling, and where they stand: what `topk` gives, sooner.

    A row is laid out as a grid. The `count` largest values stand in the `count` columns of the largest maxima, so that
    only those columns, and what the grid leaves over, are sorted.

    Args:
        values: `[rows, size] float32`.
        count: how many, at most `size`.

    Returns:
        `[rows, count] float32` and `[rows, count] int64`.
    """
    columns = values.size(1) // _GRID_LINES
    if columns < 2 * count:
        best = values.topk(count)
        return best.values, best.indices
    in_grid = _GRID_LINES * columns
    maxima = values[:, :in_grid].view(len(values), _GRID_LINES, columns).amax(dim=1)
    column = maxima.topk(count, sorted=False).indices
    every = torch.arange(values.size(1), device=values.device)
    places = (column.unsqueeze(2) + every[:in_grid:columns]).flatten(1)  # [rows, count · lines]
    places = torch.cat([places, every[in_grid:].expand(len(values), -1)], dim=1)
    best = values.gather(1, places).topk(count)
    return best.values, places.gather(1, best.indices)


def _record(
    results: list[list[Hypothesis]],
    sentences: Array,
    which: Array,
    tokens: Array,
    log_probs: Array,
    scores: Array,
    *,
    finished: bool,
) -> None:
    """Add the hypotheses that stop in this step to the results of their sentences.

    Args:
        results: one list a sentence of the whole batch, added to.
        sentences: `[sentences] int64`, whose they are.
        which: `[sentences, slots] bool`, True: it stops.
        tokens: `[sentences, slots, length] int64`.
        log_probs: `[sentences, slots] float32`.
        scores: `[sentences, slots] float32`.
        finished: whether they end in EOS.
    """
    at = which.nonzero()
    stopped = zip(sentences[at[0]], tokens[at].tolist(), log_probs[at].tolist(), scores[at].tolist(), strict=True)
    for sentence, pieces, log_prob, score in stopped:
        results[sentence].append(Hypothesis(pieces, log_prob, score, finished))


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    """Sort a sentence's hypotheses: the finished by falling score, then those cut; of equals the one found first."""
    if not hypotheses:
        raise CheckpointError(
            "expected finite log-probabilities from the model, got none for any continuation of a sentence: its "
            "weights are damaged or its training diverged; use an earlier checkpoint, or train at a lower learning rate"
        )
    return sorted(hypotheses, key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
