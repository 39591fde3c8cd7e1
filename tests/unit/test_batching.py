"""Batches by hand: the shift, the padding, the order and its saved place; and how little of Multi30k is padding."""

import gzip
import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from tformer.config import TokenizerConfig
from tformer.data.batching import BatchStream, collate, fixed_batches, pad, plan_batches
from tformer.data.store import store_pairs, tokenise
from tformer.data.tokenizer import TokenizerPair
from tformer.errors import DataError

MULTI30K = Path(os.environ.get("TFORMER_DATA", Path(__file__).parents[3] / "shared" / "data")) / "multi30k"


@pytest.fixture
def corpus(tokenised):
    """Three pairs; the second has a one-token target, the third an empty one."""
    return tokenised([[4, 5], [6, 7, 8], [9]], [[10, 11, 12], [4], []])


@pytest.fixture
def forty(tokenised):
    """Forty pairs of six lengths, so that many pairs are alike to the plan."""
    return tokenised([[4] * (n % 3 + 1) for n in range(40)], [[5] * (n % 2) for n in range(40)])


def taken(stream, batches):
    """Which pairs the next batches hold."""
    return [next(stream).indices.tolist() for _ in range(batches)]


# ---- One batch ----


def test_the_shift_by_hand(corpus):
    batch = collate(corpus, np.array([0, 1, 2]))
    assert batch.src.tolist() == [[4, 5, 2, 0], [6, 7, 8, 2], [9, 2, 0, 0]]
    assert batch.tgt_in.tolist() == [[1, 10, 11, 12], [1, 4, 0, 0], [1, 0, 0, 0]]
    assert batch.tgt_out.tolist() == [[10, 11, 12, 2], [4, 2, 0, 0], [2, 0, 0, 0]]
    assert batch.src_padding_mask.tolist() == [[True, True, True, False], [True] * 4, [True, True, False, False]]
    assert batch.tgt_padding_mask.tolist() == [[True] * 4, [True, True, False, False], [True, False, False, False]]
    assert batch.indices.tolist() == [0, 1, 2]
    assert batch.num_tokens == 4 + 2 + 1
    for ids in (batch.src, batch.tgt_in, batch.tgt_out, batch.indices):
        assert ids.dtype == torch.int64


def test_pairs_stand_in_the_order_asked_for(corpus):
    batch = collate(corpus, np.array([2, 0]))
    assert batch.src.tolist() == [[9, 2, 0], [4, 5, 2]]
    assert batch.tgt_out.tolist() == [[2, 0, 0, 0], [10, 11, 12, 2]]
    assert batch.indices.tolist() == [2, 0]


def test_an_empty_pair_alone(corpus):
    batch = collate(corpus, np.array([2]))
    assert (batch.tgt_in.tolist(), batch.tgt_out.tolist(), batch.num_tokens) == ([[1]], [[2]], 1)


def test_masks_are_facts_about_length_not_about_ids(tokenised):
    """A PAD id inside a sentence, which no tokenizer writes, would still be a token."""
    batch = collate(tokenised([[0, 5]], [[0]]), np.array([0]))
    assert batch.src_padding_mask.tolist() == [[True] * 3]
    assert batch.tgt_in.tolist() == [[1, 0]]
    assert batch.tgt_padding_mask.tolist() == [[True] * 2]


def test_pad():
    assert pad([np.array([4], np.int32), np.array([5, 6, 7], np.int32)]).tolist() == [[4, 0, 0], [5, 6, 7]]


def test_a_batch_moves_whole(corpus):
    batch = collate(corpus, np.array([0, 1]))
    moved = batch.to(torch.device("meta"))
    for name in ("src", "tgt_in", "tgt_out", "src_padding_mask", "tgt_padding_mask"):
        assert getattr(moved, name).device.type == "meta"
        assert getattr(moved, name).shape == getattr(batch, name).shape
    assert moved.indices.device.type == "cpu"
    assert moved.num_tokens == batch.num_tokens


# ---- The plan ----


def test_a_pair_longer_than_the_budget_is_alone():
    plan = plan_batches(np.array([3, 50, 3, 3]), np.array([3, 3, 3, 60]), 12)
    assert sorted(indices.tolist() for indices in plan) == [[0, 2], [1], [3]]


def test_the_budget_bounds_each_side():
    """Four rows of 5 on one side are 20; the other side has a budget of its own."""
    lengths = np.array([5] * 8)
    assert [len(indices) for indices in plan_batches(lengths, lengths, 20)] == [4, 4]
    assert [len(indices) for indices in plan_batches(lengths, lengths, 19)] == [3, 3, 2]
    assert [len(indices) for indices in plan_batches(lengths, np.ones(8, np.int64), 20)] == [4, 4]


def plainly(src_lengths, tgt_lengths, budget):
    """The same plan by a loop that anyone can check."""
    pairs = range(len(src_lengths))
    order = sorted(pairs, key=lambda n: (tgt_lengths[n], src_lengths[n] * (1 if tgt_lengths[n] % 2 == 0 else -1)))
    batches = []
    for pair in order:
        batch = [*(batches[-1] if batches else []), pair]
        fits = len(batch) * max(max(src_lengths[n], tgt_lengths[n]) for n in batch) <= budget
        if batches and fits:
            batches[-1] = batch
        else:
            batches.append([pair])
    return batches


@pytest.mark.parametrize("budget", [1, 7, 30, 100, 5000])
@pytest.mark.parametrize("longest", [1, 4, 40])
def test_the_plan_is_that_of_a_plain_loop(budget, longest):
    src, tgt = np.random.default_rng(budget).integers(1, longest + 1, (2, 400))
    assert [batch.tolist() for batch in plan_batches(src, tgt, budget)] == plainly(src.tolist(), tgt.tolist(), budget)


def test_every_pair_once_an_epoch(forty):
    stream = BatchStream(forty, 24, seed=1)
    for epoch in range(3):
        batches = taken(stream, stream.batches_per_epoch)
        assert stream.epoch == epoch
        assert sorted(index for batch in batches for index in batch) == list(range(40))
        assert stream.taken == stream.batches_per_epoch
    assert sorted(n for batch in fixed_batches(forty, 24) for n in batch.indices.tolist()) == list(range(40))


def test_the_order_is_a_function_of_seed_and_epoch(forty):
    def epochs(seed):
        stream = BatchStream(forty, 24, seed)
        return [taken(stream, stream.batches_per_epoch) for _ in range(3)]

    first, again, other = epochs(1), epochs(1), epochs(2)
    assert first == again
    assert len({str(order) for order in (*first, *other)}) == 6
    # not the batches' order alone: pairs of one length meet other neighbours
    assert {frozenset(batch) for batch in first[0]} != {frozenset(batch) for batch in first[1]}


def test_batches_come_in_no_order_of_length(forty):
    """The plan sorts; training in that order would see all short sentences first."""
    stream = BatchStream(forty, 24, seed=1)
    for _ in range(3):
        widths = [next(stream).tgt_in.size(1) for _ in range(stream.batches_per_epoch)]
        assert widths not in (sorted(widths), sorted(widths, reverse=True))


def test_the_order_does_not_hang_on_other_randomness(forty):
    torch.manual_seed(3)
    np.random.seed(3)
    first = taken(BatchStream(forty, 24, 1), 5)
    torch.manual_seed(4)
    np.random.seed(4)
    assert taken(BatchStream(forty, 24, 1), 5) == first


def test_a_saved_place_is_taken_up_exactly(forty):
    stream = BatchStream(forty, 24, seed=1)
    places, batches = [], []
    for _ in range(3 * stream.batches_per_epoch):
        places.append((stream.epoch, stream.taken))
        batches += taken(stream, 1)
    places.append((stream.epoch, stream.taken))
    for number, (epoch, used) in enumerate(places[:-1]):
        resumed = BatchStream(forty, 24, seed=1)
        resumed.seek(epoch, used)
        assert taken(resumed, len(batches) - number) == batches[number:]
        assert (resumed.epoch, resumed.taken) == places[-1]


@pytest.mark.parametrize("beyond", [0, 1, 50])
def test_a_place_at_an_epoch_s_end_or_beyond_is_the_start_of_the_next(forty, beyond):
    """Beyond, where a run is taken up with settings that make fewer batches."""
    stream, next_epoch = BatchStream(forty, 24, seed=1), BatchStream(forty, 24, seed=1)
    stream.seek(0, stream.batches_per_epoch + beyond)
    next_epoch.seek(1, 0)
    assert taken(stream, 2) == taken(next_epoch, 2)
    assert (stream.epoch, stream.taken) == (1, 2)


# ---- Weights ----


def shown(stream, epoch):
    """How often each pair comes in an epoch."""
    stream.seek(epoch, 0)
    pairs = [pair for batch in taken(stream, stream.batches_per_epoch) for pair in batch]
    assert stream.epoch == epoch
    return np.bincount(pairs, minlength=len(stream.corpus))


@pytest.mark.parametrize("weights", [(1.0, 2.5), (0.25, 3.0), (1.0, 0.999), (0.0001, 1.1)])
def test_each_pair_comes_as_often_as_its_source_s_weight_says(tokenised, weights):
    """Twenty pairs of each source, taking turns."""
    stream = BatchStream(tokenised([[4]] * 40, [[5]] * 40, weights), 24, seed=1)
    for epoch in range(3):
        times = shown(stream, epoch)
        for number, weight in enumerate(weights):
            own = times[number::2]
            assert set(own.tolist()) <= {int(weight), int(weight) + 1}
            assert own.sum() == int(weight) * 20 + round((weight - int(weight)) * 20)


def test_other_pairs_come_once_more_in_each_epoch(tokenised):
    streams = [BatchStream(tokenised([[4]] * 40, [[5]] * 40, (0.5,)), 24, seed) for seed in (1, 1, 2)]
    first, again, other = ([shown(stream, epoch).tolist() for epoch in range(3)] for stream in streams)
    assert first == again
    assert len({str(times) for times in (*first, *other)}) == 6
    assert (np.sum([shown(streams[0], epoch) for epoch in range(40)], axis=0) > 5).all(), "none is left behind"


def test_weights_of_one_leave_the_order_as_it_is_without_sources(tokenised, forty):
    rows = [[4] * (n % 3 + 1) for n in range(40)], [[5] * (n % 2) for n in range(40)]
    assert taken(BatchStream(tokenised(*rows, (1.0, 1.0, 1.0)), 24, 1), 30) == taken(BatchStream(forty, 24, 1), 30)


def test_a_weighted_place_is_taken_up_exactly(tokenised):
    corpus = tokenised([[4] * (n % 3) for n in range(40)], [[5]] * 40, (0.3, 1.7))
    stream = BatchStream(corpus, 24, seed=1)
    batches = taken(stream, 3 * stream.batches_per_epoch)
    for number in range(stream.batches_per_epoch):
        resumed = BatchStream(corpus, 24, seed=1)
        resumed.seek(0, number)
        assert taken(resumed, len(batches) - number) == batches[number:]


def test_weights_that_show_nothing_are_an_error(tokenised):
    with pytest.raises(DataError, match=r"an epoch of 4 pairs with the weights 0\.1, 0\.2 shows none of them"):
        BatchStream(tokenised([[4]] * 4, [[5]] * 4, (0.1, 0.2)), 24, seed=1)


# ---- Another cut each epoch ----


@pytest.fixture
def growing(tokenised):
    """Makes a corpus whose sentences are longer by one in each epoch, and notes which epochs were asked for."""
    asked = []

    def make(epoch):
        asked.append(epoch)
        return tokenised([[4] * (n % 3 + epoch) for n in range(20)], [[5 + epoch]] * 20)

    make.asked = asked
    return make


def test_each_epoch_has_its_own_cut_and_a_plan_that_fits_it(growing):
    stream = BatchStream(growing(0), 24, seed=1, resample=growing)
    for epoch in range(3):
        batches = [next(stream)]  # which may begin the epoch
        batches += [next(stream) for _ in range(stream.batches_per_epoch - 1)]
        assert stream.epoch == epoch
        assert sorted(n for batch in batches for n in batch.indices.tolist()) == list(range(20))
        assert {token for batch in batches for token in batch.tgt_out.unique().tolist()} == {5 + epoch, 2}
        assert max(batch.src.size(1) for batch in batches) == 2 + epoch + 1
        assert all(batch.src.numel() <= 24 for batch in batches)
    assert growing.asked == [0, 0, 1, 2], "once for the corpus itself, then once an epoch"


def test_a_place_in_an_epoch_has_that_epoch_s_cut(growing):
    stream, resumed = (BatchStream(growing(0), 24, seed=1, resample=growing) for _ in range(2))
    while (stream.epoch, stream.taken) != (2, 3):
        next(stream)
    resumed.seek(2, 3)
    for _ in range(12):
        one, other = next(stream), next(resumed)
        assert torch.equal(one.src, other.src)
        assert torch.equal(one.tgt_out, other.tgt_out)


# ---- From text ----


class Words:
    """One id a word."""

    fingerprint = "words"

    def encode_batch(self, texts):
        return [[3 + len(word) for word in text.split()] for text in texts]


def test_pairs_too_long_are_left_out_and_counted():
    corpus = store_pairs([("a b", "c"), ("a b c", "d"), ("a", "b c d"), ("a b", "c d")], "text")
    kept = tokenise(corpus, TokenizerPair(Words(), Words()), max_length=3)
    assert (len(kept), kept.lines.tolist()) == (2, [1, 4])
    assert kept.src.lengths.tolist() == [3, 3]
    assert kept.tgt.lengths.tolist() == [2, 3]
    assert kept.reports[0].lines() == ["text: 2 of 4 pairs kept; left out 2: longer than 3 pieces (lines 2, 3)"]
    assert len(tokenise(corpus, TokenizerPair(Words(), Words()), max_length=None)) == 4
    with pytest.raises(DataError, match=r"no pair is left; raise data\.max_length \(now 2\)"):
        tokenise(corpus, TokenizerPair(Words(), Words()), max_length=2)


def test_a_side_of_which_normalisation_leaves_nothing_is_no_sentence_to_learn_from():
    """A zero-width space alone has no pieces: its pair would teach the model to say nothing."""
    pairs = [("a b", "c"), ("\u200b", "d"), ("a", "b c d b c d b c d"), ("e", "\u200b\u200b"), ("a b", "c d")]
    tokenizers = TokenizerPair.train(["a b c d e"] * 3, ["a b c d e"] * 3, TokenizerConfig(vocab_size=300))
    corpus = store_pairs(pairs, "text")
    kept = tokenise(corpus, tokenizers, max_length=6)
    assert kept.rows.tolist() == [0, 4]
    [reasons] = kept.reports[0].lines()
    assert "left out 2: nothing left of a side by tokenizer.normalization (lines 2, 4)" in reasons
    assert "left out 1: longer than 6 pieces (line 3)" in reasons
    assert len(tokenise(corpus, tokenizers, max_length=None)) == 5


# ---- Real text ----


@pytest.fixture(scope="module")
def multi30k():
    if not MULTI30K.is_dir():
        pytest.skip(f"no copy of Multi30k at {MULTI30K} (TFORMER_DATA may name its parent)")

    def lines(language):
        with gzip.open(MULTI30K / f"train.{language}.gz", "rt", encoding="utf-8", newline="\n") as file:
            return [line.strip() for line in file]

    pairs = list(zip(lines("en"), lines("de"), strict=True))
    tokenizers = TokenizerPair.train(*zip(*pairs, strict=True), TokenizerConfig(vocab_size=4000))
    return tokenise(store_pairs(pairs, "Multi30k"), tokenizers, max_length=256)


def share_of_padding(batches):
    cells = real = 0
    for batch in batches:
        cells += batch.src.numel() + batch.tgt_in.numel()
        real += int(batch.src_padding_mask.sum()) + int(batch.tgt_padding_mask.sum())
    return 1 - real / cells


def test_little_of_a_batch_is_padding(multi30k):
    assert share_of_padding(fixed_batches(multi30k, 4096)) < 0.06
    stream = BatchStream(multi30k, 4096, seed=1)
    assert share_of_padding(islice(stream, stream.batches_per_epoch)) < 0.06
    assert stream.epoch == 0
