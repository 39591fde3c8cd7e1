"""Batches of sentence pairs by a token budget, in an order that is a pure function of seed and epoch (the paper, §5.1).

A batch carries facts about padding only; causality is the decoder's own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tformer.data.store import IntArray, TokenisedCorpus
from tformer.errors import DataError
from tformer.vocabulary import BOS_ID, PAD_ID


@dataclass(frozen=True)
class Batch:
    """Sentence pairs side by side, padded to rectangles.

    Attributes:
        src: [batch, src_len] int64: x + EOS, then PAD.
        tgt_in: [batch, tgt_len] int64: BOS + y, then PAD: what the decoder reads.
        tgt_out: [batch, tgt_len] int64: y + EOS, then PAD: what it should say at the same position.
        src_padding_mask: [batch, src_len] bool, True = real token, may be attended.
        tgt_padding_mask: [batch, tgt_len] bool, True = real token, may be attended.
        indices: [batch] int64, which pairs of the corpus these are.
        num_tokens: real target tokens, EOS included.
    """

    src: Tensor
    tgt_in: Tensor
    tgt_out: Tensor
    src_padding_mask: Tensor
    tgt_padding_mask: Tensor
    indices: Tensor
    num_tokens: int

    def to(self, device: torch.device) -> "Batch":
        """Give the same batch on a device; the indices stay where they are, for people to read."""
        return Batch(
            self.src.to(device, non_blocking=True),
            self.tgt_in.to(device, non_blocking=True),
            self.tgt_out.to(device, non_blocking=True),
            self.src_padding_mask.to(device, non_blocking=True),
            self.tgt_padding_mask.to(device, non_blocking=True),
            self.indices,
            self.num_tokens,
        )


def pad(sentences: Sequence[npt.NDArray[np.int32]]) -> Tensor:
    """Lay sentences side by side, PAD behind the shorter ones: [batch, longest] int64."""
    width = max(len(ids) for ids in sentences)
    rows = np.full((len(sentences), width), PAD_ID, dtype=np.int64)
    for row, ids in zip(rows, sentences, strict=True):
        row[: len(ids)] = ids
    return torch.from_numpy(rows)


def collate(corpus: TokenisedCorpus, indices: IntArray) -> Batch:
    """Make the batch of these pairs; the target is shifted right by one, BOS in front."""
    src = pad([corpus.src[index] for index in indices])
    tgt_out = pad([corpus.tgt[index] for index in indices])
    tgt_lengths = torch.from_numpy(corpus.tgt.lengths[indices])
    tgt_padding_mask = torch.arange(tgt_out.size(1)) < tgt_lengths.unsqueeze(1)
    # BOS + y without its last token; where y ended earlier, the column of its EOS is padding in both
    tgt_in = torch.cat((torch.full((len(indices), 1), BOS_ID), tgt_out[:, :-1]), dim=1)
    tgt_in = tgt_in.masked_fill(~tgt_padding_mask, PAD_ID)
    src_lengths = torch.from_numpy(corpus.src.lengths[indices])
    return Batch(
        src=src,
        tgt_in=tgt_in,
        tgt_out=tgt_out,
        src_padding_mask=torch.arange(src.size(1)) < src_lengths.unsqueeze(1),
        tgt_padding_mask=tgt_padding_mask,
        indices=torch.from_numpy(np.asarray(indices, dtype=np.int64)),
        num_tokens=int(tgt_lengths.sum()),
    )


def plan_batches(src_lengths: IntArray, tgt_lengths: IntArray, max_tokens_per_batch: int) -> list[IntArray]:
    """Cut pairs into batches of similar lengths: max(rows · src_len, rows · tgt_len) ≤ max_tokens_per_batch.

    Pairs are sorted by target length, and inside one target length by source length, up and down in turn, so that
    neighbours are alike on both sides where one target length meets the next. Equal pairs keep their order.

    Args:
        src_lengths: [pairs] int64, EOS included.
        tgt_lengths: [pairs] int64, EOS included.
        max_tokens_per_batch: the budget of each side, padding included. A pair that is longer gets a batch of its own.

    Returns:
        The indices of each batch's pairs; each pair stands in exactly one.
    """
    up_and_down = np.where(tgt_lengths % 2 == 0, src_lengths, -src_lengths)
    order = np.lexsort((up_and_down, tgt_lengths))
    widths = np.maximum(src_lengths, tgt_lengths)[order]
    starts, start = [0], 0
    while start < len(widths):
        # no more rows than these can follow, since a batch is at least as wide as its first pair
        widest = np.maximum.accumulate(widths[start : start + max_tokens_per_batch // widths[start]])
        padded = np.arange(1, len(widest) + 1) * widest
        start += max(1, int(np.searchsorted(padded, max_tokens_per_batch, side="right")))
        starts.append(start)
    return np.split(order, starts[1:-1])


@dataclass(frozen=True)
class Window:
    """The batches of one update that are one process's work.

    Attributes:
        batches: this process's.
        num_tokens: real target tokens of all processes' batches together, EOS included.
        pairs: [pairs] int64, the indices of all these batches' pairs.
    """

    batches: list[Batch]
    num_tokens: int
    pairs: IntArray


class BatchStream:
    """Batches for training, epoch after epoch, in an order that can be saved and taken up again.

    A source of weight 2.5 shows each of its pairs twice an epoch, and half of them, other ones each time, once more.
    The order is that of all processes together, so that its place is the same on each, and on any number of them.

    Args:
        corpus: tokenised pairs.
        max_tokens_per_batch: see `plan_batches`.
        seed: with the epoch's number, all that decides the order.
        resample: gives the same pairs, cut anew for the epoch of this number; None: they stay as they are.
        rank: which process this is, from 0.
        world_size: how many there are.

    Attributes:
        corpus: the pairs as they are in the epoch that is under way.
        epoch: the epoch that is under way, counted from 0.
        taken: batches of that epoch that have been used, by all processes together.

    Raises:
        DataError: the weights are so small that an epoch shows no pair.
    """

    def __init__(
        self,
        corpus: TokenisedCorpus,
        max_tokens_per_batch: int,
        seed: int,
        resample: Callable[[int], TokenisedCorpus] | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.corpus = corpus
        self.max_tokens_per_batch = max_tokens_per_batch
        self.seed = seed
        self.resample = resample
        self.rank = rank
        self.world_size = world_size
        self.seek(0, 0)

    def seek(self, epoch: int, taken: int) -> None:
        """Go to a place in the order."""
        self.epoch, self.taken = epoch, taken
        if self.resample is not None:
            self.corpus = self.resample(epoch)
        self._plan = self._plan_epoch()

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        pairs = self._next_pairs()  # first: with a new epoch, the corpus may be another
        return collate(self.corpus, pairs)

    def next_window(self, num_batches: int) -> Window:
        """Take the next batches for all processes together, and make those that are this one's: each world_size-th.

        How many tokens the others' have is known from the plan alone. A window may begin in one epoch and end in the
        next, so that none is ever smaller.

        Args:
            num_batches: of all processes together, at least one for each.
        """
        batches, plan, num_tokens = [], [], 0
        for number in range(num_batches):
            plan.append(pairs := self._next_pairs())
            num_tokens += int(self.corpus.tgt.lengths[pairs].sum())
            if number % self.world_size == self.rank:
                batches.append(collate(self.corpus, pairs))
        return Window(batches, num_tokens, np.concatenate(plan))

    def _next_pairs(self) -> IntArray:
        if self.taken >= len(self._plan):  # beyond the end: taken up with settings that make fewer batches
            self.seek(self.epoch + 1, 0)
        self.taken += 1
        return self._plan[self.taken - 1]

    @property
    def batches_per_epoch(self) -> int:
        """Batches in the epoch that is under way."""
        return len(self._plan)

    def _plan_epoch(self) -> list[IntArray]:
        """Shuffle pairs of equal lengths, cut, then shuffle the batches."""
        random = np.random.Generator(np.random.Philox(key=[self.seed, self.epoch]))
        shown = self._shown(random)
        shuffled = shown[random.permutation(len(shown))]
        batches = plan_batches(
            self.corpus.src.lengths[shuffled], self.corpus.tgt.lengths[shuffled], self.max_tokens_per_batch
        )
        return [shuffled[batches[index]] for index in random.permutation(len(batches))]

    def _shown(self, random: np.random.Generator) -> IntArray:
        """Give the pairs of an epoch in the corpus's order, each as often as its source's weight says."""
        times = np.empty(len(self.corpus), dtype=np.int64)
        for number, weight in enumerate(self.corpus.weights):
            pairs = np.flatnonzero(self.corpus.source_of == number)
            times[pairs] = whole = int(weight)
            more = round((weight - whole) * len(pairs))
            if more:
                times[random.choice(pairs, more, replace=False)] += 1
        shown = np.repeat(np.arange(len(times)), times)
        if not len(shown):
            raise DataError(
                f"an epoch of {len(times)} pairs with the weights {', '.join(map(str, self.corpus.weights))} shows "
                "none of them; raise the weight of a source of data.train"
            )
        return shown


def fixed_batches(corpus: TokenisedCorpus, max_tokens_per_batch: int) -> Iterator[Batch]:
    """Give every pair once, in no random order, as evaluation wants it."""
    for indices in plan_batches(corpus.src.lengths, corpus.tgt.lengths, max_tokens_per_batch):
        yield collate(corpus, indices)
