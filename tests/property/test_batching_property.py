"""What holds for every plan and every batch, whatever the lengths."""

from itertools import pairwise

import numpy as np
from hypothesis import given, reject
from hypothesis import strategies as st

from tformer.data.batching import BatchStream, collate, fixed_batches, plan_batches
from tformer.errors import DataError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

sentences = st.lists(st.integers(3, 20), max_size=9)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=30)
lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=60)
budgets = st.integers(1, 120)
seeds = st.integers(0, 2**31)


def corpus_of(tokenised, pairs):
    return tokenised([source for source, _ in pairs], [target for _, target in pairs])


@given(lengths, budgets)
def test_a_plan_holds_each_pair_once_within_the_budget(lengths, budget):
    src, tgt = (np.array(side, dtype=np.int64) for side in zip(*lengths, strict=True))
    plan = plan_batches(src, tgt, budget)
    assert sorted(np.concatenate(plan).tolist()) == list(range(len(lengths)))
    for indices in plan:
        assert len(indices) >= 1
        padded = max(len(indices) * src[indices].max(), len(indices) * tgt[indices].max())
        assert padded <= budget or len(indices) == 1


@given(lengths, budgets)
def test_a_plan_is_not_cut_before_it_must_be(lengths, budget):
    """One more pair of the next batch would break the budget."""
    src, tgt = (np.array(side, dtype=np.int64) for side in zip(*lengths, strict=True))
    plan = plan_batches(src, tgt, budget)
    for indices, following in pairwise(plan):
        together = np.append(indices, following[0])
        assert len(together) * max(src[together].max(), tgt[together].max()) > budget


@given(pairs, st.data())
def test_a_batch_can_be_read_back(tokenised, pairs, data):
    corpus = corpus_of(tokenised, pairs)
    chosen = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=6))
    batch = collate(corpus, np.array(chosen))
    assert batch.indices.tolist() == chosen
    assert batch.num_tokens == batch.tgt_padding_mask.sum() == (batch.tgt_out != PAD_ID).sum()
    for row, index in enumerate(chosen):
        source, target = pairs[index]
        src_real, tgt_real = batch.src_padding_mask[row], batch.tgt_padding_mask[row]
        assert batch.src[row][src_real].tolist() == [*source, EOS_ID]
        assert batch.tgt_in[row][tgt_real].tolist() == [BOS_ID, *target]
        assert batch.tgt_out[row][tgt_real].tolist() == [*target, EOS_ID]
        for ids, real in ((batch.src, src_real), (batch.tgt_in, tgt_real), (batch.tgt_out, tgt_real)):
            assert (ids[row][~real] == PAD_ID).all()
            assert real.tolist() == sorted(real.tolist(), reverse=True)  # PAD stands behind
    assert batch.src_padding_mask.all(dim=0)[0]
    assert batch.src.size(1) == max(len(pairs[index][0]) + 1 for index in chosen)
    assert batch.tgt_in.size(1) == max(len(pairs[index][1]) + 1 for index in chosen)


@given(pairs, budgets, seeds, st.integers(0, 5))
def test_an_epoch_holds_each_pair_once_within_the_budget(tokenised, pairs, budget, seed, epoch):
    stream = BatchStream(corpus_of(tokenised, pairs), budget, seed)
    stream.seek(epoch, 0)
    batches = [next(stream) for _ in range(stream.batches_per_epoch)]
    assert stream.epoch == epoch
    assert sorted(index for batch in batches for index in batch.indices.tolist()) == list(range(len(pairs)))
    for batch in batches:
        assert max(batch.src.numel(), batch.tgt_in.numel()) <= budget or len(batch.indices) == 1


@given(pairs, budgets, seeds, st.lists(st.floats(0.2, 3.5), min_size=1, max_size=3), st.integers(0, 5))
def test_an_epoch_shows_each_source_as_often_as_its_weight_says(tokenised, pairs, budget, seed, weights, epoch):
    corpus = tokenised([source for source, _ in pairs], [target for _, target in pairs], tuple(weights))
    try:
        stream = BatchStream(corpus, budget, seed)
    except DataError:  # a pair or two, of small weights
        reject()
    stream.seek(epoch, 0)
    batches = [next(stream).indices.numpy() for _ in range(stream.batches_per_epoch)]
    assert stream.epoch == epoch
    times = np.bincount(np.concatenate(batches), minlength=len(pairs))
    for number, weight in enumerate(weights):
        own = times[corpus.source_of == number]
        assert own.sum() == int(weight) * len(own) + round((weight - int(weight)) * len(own))
        assert set(own.tolist()) <= {int(weight), int(weight) + 1}


@given(pairs, budgets)
def test_evaluation_takes_each_pair_once(tokenised, pairs, budget):
    batches = list(fixed_batches(corpus_of(tokenised, pairs), budget))
    assert sorted(index for batch in batches for index in batch.indices.tolist()) == list(range(len(pairs)))
    assert sum(batch.num_tokens for batch in batches) == sum(len(target) + 1 for _, target in pairs)


@given(pairs, budgets, seeds, st.integers(0, 20), st.integers(1, 20))
def test_any_place_in_the_order_can_be_taken_up(tokenised, pairs, budget, seed, before, after):
    corpus = corpus_of(tokenised, pairs)
    stream = BatchStream(corpus, budget, seed)
    for _ in range(before):
        next(stream)
    resumed = BatchStream(corpus, budget, seed)
    resumed.seek(stream.epoch, stream.taken)
    for _ in range(after):
        assert next(resumed).indices.tolist() == next(stream).indices.tolist()
    assert (resumed.epoch, resumed.taken) == (stream.epoch, stream.taken)
