"""The model's parts, alone and together: what each adds, what padding may not do, what decoding carries along."""

import pytest
import torch
from torch.nn import functional as F

from tformer import attention as attention_module
from tformer.attention import MultiHeadAttention
from tformer.model import Dropout, Embedding, Residual, Transformer, causal_mask, sinusoids
from tformer.training.loss import sequence_loss
from tformer.vocabulary import PAD_ID

SRC = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0], [8, 9, 2, 0]])
TGT_IN = torch.tensor([[1, 5, 0, 0, 0], [1, 6, 7, 8, 9], [1, 10, 11, 0, 0]])
TGT_OUT = torch.tensor([[5, 2, 0, 0, 0], [6, 7, 8, 9, 2], [10, 11, 2, 0, 0]])


def logits_of(model):
    return model(SRC, TGT_IN, SRC != PAD_ID, TGT_IN != PAD_ID)


# ---- Attention ----


@pytest.mark.parametrize("widths", [{}, {"d_k": 3, "d_v": 5}])
def test_the_weights_shown_are_those_used(tiny_config, widths):
    torch.manual_seed(0)
    module = MultiHeadAttention(tiny_config(**widths))
    query, key = torch.randn(3, 5, 16), torch.randn(3, 4, 16)
    mask = (SRC != PAD_ID)[:, None, None, :]
    weights = module.weights(query, key, mask)
    assert (weights.masked_select(~mask) == 0).all()
    mixed = weights @ module.project_memory(key).value
    joined = torch.cat([mixed[:, head] for head in range(2)], dim=-1)
    torch.testing.assert_close(module.w_o(joined), module(query, key, key, mask))


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_the_source_weights_shown_are_those_that_a_pass_uses(tiny_model, monkeypatch, placement):
    used = []

    def watched(query, key, value, attention_mask):
        mixed, weights = attention_module.attention(query, key, value, attention_mask)
        used.append(weights)
        return mixed

    model = tiny_model(norm_placement=placement, num_decoder_layers=3)
    batch = SRC, TGT_IN, SRC != PAD_ID, TGT_IN != PAD_ID
    monkeypatch.setattr(attention_module, "fast_attention", watched)
    model(*batch)
    expected = used[2 + 1 :: 2]  # behind two encoder layers, each decoder layer looks at the prefix, then at the source
    shown = model.cross_attention(*batch)
    assert shown.shape == (3, 3, 2, 5, 4)  # layers, batch, heads, target, source
    torch.testing.assert_close(shown, torch.stack(expected))


def test_heads_have_the_widths_asked_for(tiny_config):
    module = MultiHeadAttention(tiny_config(d_k=3, d_v=5))
    key, value = module.project_memory(torch.randn(3, 4, 16))
    assert key.shape == (3, 2, 4, 3)
    assert value.shape == (3, 2, 4, 5)
    assert {name: tuple(weight.shape) for name, weight in module.named_parameters()} == {
        "w_q.weight": (6, 16),
        "w_k.weight": (6, 16),
        "w_v.weight": (10, 16),
        "w_o.weight": (16, 10),
    }


def test_causal_mask_of_a_chunk_behind_a_prefix():
    assert causal_mask(2, 2, torch.device("cpu")).tolist() == [[True, True, True, False], [True] * 4]


# ---- Embeddings and positions ----


def test_embeddings_are_scaled_and_know_their_position(tiny_model):
    embedding = tiny_model().source_embedding
    expected = 4.0 * embedding.table.weight[7] + sinusoids(9, 16)[8]  # 4 = sqrt(16)
    torch.testing.assert_close(embedding(torch.tensor([[7]]), first_position=8)[0, 0], expected)


def test_each_stack_learns_its_own_positions(tiny_model):
    model, ids = tiny_model(positions="learned"), torch.tensor([[7, 7]])
    for embedding in (model.source_embedding, model.target_embedding):
        expected = 4.0 * embedding.table.weight[7] + embedding.learned_positions.weight[3:5]
        torch.testing.assert_close(embedding(ids, first_position=3)[0], expected)
    assert model.source_embedding.learned_positions is not model.target_embedding.learned_positions


def test_learned_positions_end(tiny_model):
    model = tiny_model(positions="learned", max_positions=6)
    ids = torch.full((1, 6), 5)
    model.source_embedding(ids)
    with pytest.raises(ValueError, match=r"7 positions asked for; model\.max_positions is 6"):
        model.target_embedding(ids, first_position=1)


@pytest.mark.parametrize("length", [257, 700])
def test_sinusoids_never_end(tiny_model, length):
    embedding = tiny_model().source_embedding
    ids = torch.full((1, length), 5)
    expected = 4.0 * embedding.table.weight[5] + sinusoids(length, 16)
    torch.testing.assert_close(embedding(ids)[0], expected)
    torch.testing.assert_close(embedding(ids[:, :3])[0], expected[:3])


def test_positions_that_grew_while_translating_can_be_trained_with(tiny_model):
    model = tiny_model()
    ids = torch.full((1, 300), 5)
    with torch.inference_mode():
        model.encode(ids, ids != PAD_ID)
    model.train()(ids, ids, ids != PAD_ID).sum().backward()
    assert model.output.weight.grad.isfinite().all()


def test_no_fixed_table_is_saved(tiny_model):
    assert not [name for name in tiny_model().state_dict() if "sinusoids" in name]


def test_first_embeddings_are_of_unit_size(tiny_model):
    for settings in ({}, {"tie_embeddings": "none"}):
        model = tiny_model(vocab_size=2000, d_model=64, **settings)
        for embedding in (model.source_embedding, model.target_embedding):
            assert (embedding.table.weight * embedding.scale).std().item() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("tied", ["decoder", "none"])
def test_two_vocabularies_are_read_and_scored_each_on_its_side(tiny_config, tied):
    torch.manual_seed(0)
    model = Transformer(tiny_config(tie_embeddings=tied), 2000, 3000).eval()
    src, tgt_in = torch.tensor([[1999, 2]]), torch.tensor([[1, 2999]])
    logits = model(src, tgt_in, src != PAD_ID)
    assert logits.shape == (1, 2, 3000)
    logits[0, 1, 2999].backward()
    assert model.source_embedding.table.weight.grad.shape == (2000, 16)
    for embedding in (model.source_embedding, model.target_embedding):
        assert (embedding.table.weight * embedding.scale).std().item() == pytest.approx(1.0, abs=0.02)
    with pytest.raises(ValueError, match="needs one vocabulary, got 2000 and 3000"):
        Transformer(tiny_config(tie_embeddings="all"), 2000, 3000)


# ---- Dropout, norms, activation ----


def test_dropout_acts_in_training_alone(tiny_model):
    model = tiny_model(dropout=0.5)
    assert torch.equal(logits_of(model), logits_of(model))
    model.train()
    assert not torch.equal(logits_of(model), logits_of(model))


def test_dropout_falls_on_the_sum_of_embedding_and_position(tiny_config):
    torch.manual_seed(0)
    embedding = Embedding(torch.nn.Embedding(13, 16), tiny_config(dropout=0.5))
    ids = torch.full((1, 200), 5)
    kept = embedding.train()(ids)
    whole = embedding.eval()(ids)
    assert (kept == 0).float().mean() == pytest.approx(0.5, abs=0.05)
    torch.testing.assert_close(kept, torch.where(kept == 0, 0.0, 2 * whole))


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_dropout_falls_on_the_sublayer_before_it_is_added(tiny_config, placement):
    torch.manual_seed(0)
    residual = Residual(tiny_config(dropout=0.5, norm_placement=placement)).train()
    x, found = torch.randn(4, 50, 16), torch.randn(4, 50, 16)
    torch.manual_seed(1)
    total = x + Dropout(0.5).train()(found)
    torch.manual_seed(1)
    torch.testing.assert_close(residual.add(x, found), total if placement == "pre" else F.layer_norm(total, (16,)))


def test_where_the_norm_stands(tiny_config, perturb):
    torch.manual_seed(0)
    x, found = torch.randn(2, 3, 16), torch.randn(2, 3, 16)
    post, pre = (perturb(Residual(tiny_config(norm_placement=placement))) for placement in ("post", "pre"))
    assert torch.equal(post.enter(x), x)
    torch.testing.assert_close(post.add(x, found), post.norm(x + found))
    torch.testing.assert_close(pre.enter(x), pre.norm(x))
    assert torch.equal(pre.add(x, found), x + found)


# ---- Padding ----


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_no_gradient_through_padding(tiny_model, placement):
    model, embedded = tiny_model(tie_embeddings="none", norm_placement=placement), []

    def keep(_module, _arguments, output):
        output.retain_grad()
        embedded.append(output)

    for embedding in (model.source_embedding, model.target_embedding):
        embedding.register_forward_hook(keep)
    sequence_loss(logits_of(model), TGT_OUT, int((TGT_OUT != PAD_ID).sum()), label_smoothing=0.1).loss.backward()
    for output, real in zip(embedded, (SRC != PAD_ID, TGT_IN != PAD_ID), strict=True):
        assert (output.grad[~real] == 0).all()
        assert (output.grad[real].abs().amax(dim=-1) > 0).all()
    assert (model.source_embedding.table.weight.grad[PAD_ID] == 0).all()
    assert (model.target_embedding.table.weight.grad[PAD_ID] == 0).all()


def test_every_parameter_is_trained(tiny_model):
    for settings in ({}, {"norm_placement": "pre", "positions": "learned", "tie_embeddings": "none"}):
        model = tiny_model(**settings)
        sequence_loss(logits_of(model), TGT_OUT, int((TGT_OUT != PAD_ID).sum()), label_smoothing=0.1).loss.backward()
        untrained = [name for name, parameter in model.named_parameters() if not parameter.grad.abs().sum() > 0]
        assert untrained == []


# ---- Decoding step by step ----


def test_select_takes_rows_in_the_order_given(tiny_model):
    model, rows = tiny_model(), torch.tensor([2, 0, 0, 1])
    src_real = SRC != PAD_ID
    tokens = torch.tensor([[1, 4], [1, 5], [1, 6]])
    _, state = model.decode(tokens, model.start(model.encode(SRC, src_real), src_real))
    chosen = state.select(rows)
    assert chosen.prefix_length == 2
    more = torch.tensor([[7], [8], [9], [10]])
    after, _ = model.decode(more, chosen)
    expected = model(SRC[rows], torch.cat([tokens[rows], more], dim=1), src_real[rows])[:, -1:]
    torch.testing.assert_close(after, expected)
    for old, new in zip(state.layers, chosen.layers, strict=True):
        for before, taken in zip((*old.memory, *old.prefix), (*new.memory, *new.prefix), strict=True):
            assert torch.equal(taken, before[rows])
    assert torch.equal(chosen.memory_mask, state.memory_mask[rows])


def test_select_before_the_first_step(tiny_model):
    model, src_real = tiny_model(), SRC != PAD_ID
    state = model.start(model.encode(SRC, src_real), src_real).select(torch.tensor([1, 1]))
    logits, _ = model.decode(torch.tensor([[1], [1]]), state)
    torch.testing.assert_close(logits, model(SRC[[1, 1]], torch.tensor([[1], [1]]), src_real[[1, 1]]))


def test_a_state_is_not_changed_by_a_step(tiny_model):
    """Two continuations of one prefix do not see each other."""
    model, src_real = tiny_model(), SRC != PAD_ID
    _, state = model.decode(TGT_IN[:, :1], model.start(model.encode(SRC, src_real), src_real))
    once, _ = model.decode(torch.full((3, 1), 5), state)
    model.decode(torch.full((3, 1), 9), state)
    again, _ = model.decode(torch.full((3, 1), 5), state)
    assert torch.equal(once, again)


def test_what_goes_on_from_one_prefix_twice_keeps_apart(tiny_model):
    model, src_real = tiny_model(), SRC != PAD_ID
    _, state = model.decode(TGT_IN[:, :2], model.start(model.encode(SRC, src_real), src_real))
    ways, more = (torch.full((3, 1), 5), torch.full((3, 1), 9)), torch.full((3, 1), 7)
    states = [model.decode(way, state)[1] for way in ways]
    for way, own in zip(ways, states, strict=True):
        logits, _ = model.decode(more, own)
        full = model(SRC, torch.cat([TGT_IN[:, :2], way, more], dim=1), src_real)
        torch.testing.assert_close(logits, full[:, -1:])


def test_the_hypotheses_of_a_sentence_share_its_memory(tiny_model):
    """Two sentences, three hypotheses each; then the second sentence alone goes on."""
    model, src_real = tiny_model(), SRC != PAD_ID
    _, state = model.decode(TGT_IN[:, :1], model.start(model.encode(SRC, src_real), src_real))
    owners, prefix = torch.tensor([0, 0, 0, 2, 2, 2]), TGT_IN[[0, 0, 0, 2, 2, 2], :1]
    state = state.select(owners, torch.tensor([0, 2]))
    memories = [layer.memory.key for layer in state.layers]
    for order in ([0, 2, 2, 3, 5, 4], [1, 0, 0, 5, 5, 3]):
        more = torch.tensor([[4], [5], [6], [7], [8], [9]])
        logits, state = model.decode(more, state)
        prefix = torch.cat([prefix, more], dim=1)
        torch.testing.assert_close(logits, model(SRC[owners], prefix, src_real[owners])[:, -1:])
        state, prefix = state.select(torch.tensor(order), torch.tensor([0, 1])), prefix[order]
    assert all(layer.memory.key is memory for layer, memory in zip(state.layers, memories, strict=True))
    rows = torch.tensor([4, 4, 3])
    logits, _ = model.decode(torch.tensor([[6], [5], [4]]), state.select(rows, torch.tensor([1])))
    full = model(SRC[[2] * 3], torch.cat([prefix[rows], torch.tensor([[6], [5], [4]])], dim=1), src_real[[2] * 3])
    torch.testing.assert_close(logits, full[:, -1:])


def test_the_memory_is_projected_once(tiny_model, monkeypatch):
    model, src_real = tiny_model(), SRC != PAD_ID
    state = model.start(model.encode(SRC, src_real), src_real)
    for layer in model.decoder_layers:
        monkeypatch.setattr(layer.cross_attention, "project_memory", None)
    _, state = model.decode(TGT_IN[:, :1], state)
    logits, _ = model.decode(TGT_IN[:, 1:2], state)
    assert logits.shape == (3, 1, 13)


def test_dropout_keeps_the_mean_drops_its_share_and_scales_the_rest():
    torch.manual_seed(3)
    x = torch.ones(400, 501)
    dropped = Dropout(0.3).train()(x)
    share = (dropped == 0).double().mean().item()
    assert abs(share - 0.3) < 4 * (0.3 * 0.7 / x.numel()) ** 0.5
    assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / 0.7), rtol=1e-4)
    # neighbours share 64 random bits, but not their fate
    pairs = (dropped.flatten()[:-1] == 0) & (dropped.flatten()[1:] == 0)
    assert abs(pairs.double().mean().item() - 0.09) < 0.005


def test_dropout_follows_the_seed_and_its_saved_state():
    x = torch.ones(7, 13)
    dropout = Dropout(0.5).train()
    torch.manual_seed(1)
    first = dropout(x)
    state = torch.get_rng_state()
    second = dropout(x)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)
    torch.set_rng_state(state)
    assert torch.equal(dropout(x), second)
    assert not torch.equal(first, second)


def test_dropout_passes_the_gradient_of_what_it_keeps():
    x = torch.ones(9, 5, requires_grad=True)
    torch.manual_seed(0)
    dropped = Dropout(0.4).train()(x)
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())
    assert torch.equal(Dropout(0.4).eval()(x), x)
    assert torch.equal(Dropout(0.0).train()(x), x)
