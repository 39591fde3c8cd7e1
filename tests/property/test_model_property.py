"""What holds for any batch and any variant of the model: causality, padding, neighbours, steps."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence

from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

VOCAB_SIZE = 13

variants = st.fixed_dictionaries(
    {
        "norm_placement": st.sampled_from(["post", "pre"]),
        "positions": st.sampled_from(["sinusoidal", "learned"]),
        "d_k": st.sampled_from([None, 3]),
        "d_v": st.sampled_from([None, 5]),
        "seed": st.integers(0, 3),
    }
)
sentences = st.lists(st.integers(3, VOCAB_SIZE - 1), max_size=7)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=5)


def padded(rows):
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD_ID)


def inputs(pairs):
    """src, tgt_in and their masks, as a batch has them."""
    src = padded([[*source, EOS_ID] for source, _ in pairs])
    tgt_in = padded([[BOS_ID, *target] for _, target in pairs])
    return src, tgt_in, src != PAD_ID, tgt_in != PAD_ID


@given(variants, pairs, st.data())
def test_the_past_does_not_see_the_future(tiny_model, variant, pairs, data):
    src, tgt_in, src_real, _ = inputs(pairs)
    changed_from = data.draw(st.integers(0, tgt_in.size(1) - 1))
    changed = tgt_in.clone()
    changed[:, changed_from:] = data.draw(st.integers(3, VOCAB_SIZE - 1))
    model = tiny_model(**variant)
    before, after = (model(src, ids, src_real)[:, :changed_from] for ids in (tgt_in, changed))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-6)


@given(variants, pairs, st.integers(0, 4), st.integers(0, 4))
def test_padding_changes_nothing(tiny_model, variant, pairs, src_extra, tgt_extra):
    src, tgt_in, src_real, tgt_real = inputs(pairs)
    model = tiny_model(**variant)
    wide_src = torch.nn.functional.pad(src, (0, src_extra), value=PAD_ID)
    wide_tgt = torch.nn.functional.pad(tgt_in, (0, tgt_extra), value=PAD_ID)
    wide = model(wide_src, wide_tgt, wide_src != PAD_ID, wide_tgt != PAD_ID)[:, : tgt_in.size(1)]
    narrow = model(src, tgt_in, src_real, tgt_real)
    torch.testing.assert_close(wide[tgt_real], narrow[tgt_real], rtol=0, atol=1e-5)


@given(variants, pairs, st.integers(3, VOCAB_SIZE - 1))
def test_what_stands_under_padding_is_never_read(tiny_model, variant, pairs, junk):
    src, tgt_in, src_real, tgt_real = inputs(pairs)
    model = tiny_model(**variant)
    clean = model(src, tgt_in, src_real, tgt_real)
    dirty = model(src.masked_fill(~src_real, junk), tgt_in.masked_fill(~tgt_real, junk), src_real, tgt_real)
    torch.testing.assert_close(dirty[tgt_real], clean[tgt_real], rtol=0, atol=1e-6)


@given(variants, pairs)
def test_a_batch_is_its_sentences_one_by_one(tiny_model, variant, pairs):
    model = tiny_model(**variant)
    together = model(*inputs(pairs))
    for row, pair in enumerate(pairs):
        alone = model(*inputs([pair]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, rtol=0, atol=1e-5)


@given(variants, pairs)
def test_source_weights_sum_to_one_and_are_those_of_a_sentence_alone(tiny_model, variant, pairs):
    model = tiny_model(**variant)
    together = model.cross_attention(*inputs(pairs))
    torch.testing.assert_close(together.sum(-1), torch.ones(together.shape[:-1]), rtol=0, atol=1e-5)
    for row, pair in enumerate(pairs):
        alone = model.cross_attention(*inputs([pair]))[:, 0]
        tgt_len, src_len = alone.shape[-2:]
        torch.testing.assert_close(together[:, row, :, :tgt_len, :src_len], alone, rtol=0, atol=1e-5)
        assert not together[:, row, :, :, src_len:].any()


@given(variants, pairs, st.randoms(use_true_random=False))
def test_the_order_of_a_batch_does_not_matter(tiny_model, variant, pairs, random):
    order = list(range(len(pairs)))
    random.shuffle(order)
    batch = inputs(pairs)
    model = tiny_model(**variant)
    reordered = model(*(tensor[order] for tensor in batch))
    torch.testing.assert_close(reordered, model(*batch)[order], rtol=0, atol=1e-5)


@given(variants, pairs, st.data())
def test_cached_steps_are_the_full_pass(tiny_model, variant, pairs, data):
    """One position at a time, or in chunks, with rows as short as they come: the mask covers prefix and chunk."""
    src, tgt_in, src_real, tgt_real = inputs(pairs)
    length = tgt_in.size(1)
    one_by_one = data.draw(st.booleans(), label="one by one")
    inner = range(1, length)
    cuts = list(inner) if one_by_one else sorted(data.draw(st.sets(st.sampled_from(inner)) if inner else st.just([])))
    model = tiny_model(**variant)
    state, parts = model.start(model.encode(src, src_real), src_real), []
    for start, end in zip([0, *cuts], [*cuts, length], strict=True):
        logits, state = model.decode(tgt_in[:, start:end], state, tgt_real[:, :end])
        parts.append(logits)
    assert state.prefix_length == length
    full = model(src, tgt_in, src_real, tgt_real)
    torch.testing.assert_close(torch.cat(parts, dim=1)[tgt_real], full[tgt_real], rtol=0, atol=1e-5)


@given(variants, pairs, st.data())
def test_selected_rows_go_on_as_if_they_had_always_stood_there(tiny_model, variant, pairs, data):
    src, tgt_in, src_real, _ = inputs(pairs)
    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=6)))
    more = torch.tensor(data.draw(st.lists(st.integers(3, VOCAB_SIZE - 1), min_size=len(rows), max_size=len(rows))))
    model = tiny_model(**variant)
    _, state = model.decode(tgt_in, model.start(model.encode(src, src_real), src_real))
    stepped, _ = model.decode(more.unsqueeze(1), state.select(rows))
    full = model(src[rows], torch.cat([tgt_in[rows], more.unsqueeze(1)], dim=1), src_real[rows])
    torch.testing.assert_close(stepped, full[:, -1:], rtol=0, atol=1e-5)
