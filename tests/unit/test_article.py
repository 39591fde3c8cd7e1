"""What "Attention Is All You Need, Explained from the Ground Up" says of attention, blocks and training, held true."""

import math

import pytest
import torch
from torch.nn import functional as F

from tformer.attention import MultiHeadAttention, attention
from tformer.model import EncoderLayer, FeedForward, causal_mask
from tformer.training.loss import sequence_loss
from tformer.vocabulary import PAD_ID

QUERY = torch.tensor([[1.0, 0.0]])
KEYS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
VALUES = torch.tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])


# ---- A complete calculation with tiny numbers ----


def test_the_worked_example():
    output, weights = attention(QUERY, KEYS, VALUES)
    torch.testing.assert_close(weights, torch.tensor([[0.4011, 0.1978, 0.4011]]), rtol=0, atol=5e-5)
    torch.testing.assert_close(output, torch.tensor([[1.6044, 1.1978]]), rtol=0, atol=5e-5)


def test_equal_scores_give_the_mean_of_the_values():
    output, weights = attention(torch.zeros(1, 2), KEYS, VALUES)
    torch.testing.assert_close(weights, torch.full((1, 3), 1 / 3))
    torch.testing.assert_close(output, VALUES.mean(dim=0, keepdim=True))


def test_a_larger_score_moves_the_result_toward_its_value():
    shares = [attention(torch.tensor([[0.0, size]]), KEYS[:2], VALUES[:2])[0][0, 1].item() for size in (0, 1, 4, 20)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(1.0)
    assert shares[-1] == pytest.approx(2.0, abs=1e-4)


def test_a_blocked_key_has_exactly_no_weight_and_the_others_are_renormalised():
    _, free = attention(QUERY, KEYS, VALUES)
    output, weights = attention(QUERY, KEYS, VALUES, torch.tensor([[True, True, False]]))
    assert weights[0, 2] == 0
    torch.testing.assert_close(weights[0, :2], free[0, :2] / free[0, :2].sum())
    torch.testing.assert_close(output, weights[:, :2] @ VALUES[:2])


def test_a_score_of_zero_would_not_block():
    scores = QUERY @ KEYS.T / math.sqrt(2)
    scores[0, 2] = 0.0
    assert scores.softmax(dim=-1)[0, 2] > 0.1
    assert attention(QUERY, KEYS, VALUES, torch.tensor([[True, True, False]]))[1][0, 2] == 0


def test_rows_of_weights_sum_to_one_and_columns_need_not():
    torch.manual_seed(0)
    _, weights = attention(torch.randn(4, 8), torch.randn(5, 8), torch.randn(5, 8))
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(4))
    assert (weights.sum(dim=0) - 1).abs().max() > 0.1


def test_a_query_that_sees_no_key_is_refused():
    with pytest.raises(ValueError, match="at least one visible key"):
        attention(torch.randn(2, 2), KEYS, VALUES, torch.tensor([[True, False, True], [False, False, False]]))


@pytest.mark.parametrize("d_k", [4, 64, 1024])
def test_products_vary_with_their_width_and_the_scaling_undoes_it(d_k):
    torch.manual_seed(0)
    query, keys = torch.randn(200, d_k), torch.randn(400, d_k)
    assert (query @ keys.T).var() == pytest.approx(d_k, rel=0.1)
    _, weights = attention(query, keys, keys)
    # a row's log-weights are its scores minus a constant
    assert weights.log().var(dim=1).mean() == pytest.approx(1.0, abs=0.1)


# ---- Heads, masks, positions ----


def test_shapes_of_the_heads(tiny_config):
    module = MultiHeadAttention(tiny_config(d_model=512, num_heads=8))
    query, memory = torch.randn(2, 5, 512), torch.randn(2, 7, 512)
    key, value = module.project_memory(memory)
    assert key.shape == value.shape == (2, 8, 7, 64)
    assert module.weights(query, memory).shape == (2, 8, 5, 7)
    assert module(query, memory, memory).shape == (2, 5, 512)


def test_the_position_of_love_does_not_read_maths(tiny_config):
    """tgt_in is BOS, I, love, maths: at "love" the label is "maths"."""
    mask = causal_mask(0, 4, torch.device("cpu"))
    assert mask.tolist() == [[key <= query for key in range(4)] for query in range(4)]
    assert mask[2].tolist() == [True, True, True, False]
    torch.manual_seed(0)
    x = torch.randn(1, 4, 16)
    weights = MultiHeadAttention(tiny_config()).weights(x, x, mask)
    assert (weights.triu(diagonal=1) == 0).all()
    assert (weights.tril()[:, :, 2, :3] > 0).all()


def test_without_positions_reordering_the_input_reorders_the_output(tiny_config, tiny_model):
    torch.manual_seed(0)
    order = torch.tensor([3, 0, 4, 1, 2])
    layer, x = EncoderLayer(tiny_config()).eval(), torch.randn(1, 5, 16)
    all_seen = torch.ones(1, 1, 1, 5, dtype=torch.bool)
    torch.testing.assert_close(layer(x[:, order], all_seen), layer(x, all_seen)[:, order])

    model, src = tiny_model(), torch.tensor([[4, 5, 6, 7, 8]])
    with_positions = model.encode(src, all_seen[:, 0, 0])[:, order]
    assert (model.encode(src[:, order], all_seen[:, 0, 0]) - with_positions).abs().max() > 0.1


def test_the_feed_forward_network_does_not_mix_positions(tiny_config):
    torch.manual_seed(0)
    feed_forward, x = FeedForward(tiny_config()), torch.randn(1, 4, 16)
    alone = torch.cat([feed_forward(x[:, [position]]) for position in range(4)], dim=1)
    torch.testing.assert_close(feed_forward(x), alone)


def test_the_norm_of_a_token_does_not_see_its_neighbours(tiny_model):
    residual, x = tiny_model().encoder_layers[0].feed_forward_residual, torch.randn(1, 4, 16)
    changed = x.clone()
    changed[0, 1:] = 100 * torch.randn(3, 16)
    nothing = torch.zeros_like(x)
    torch.testing.assert_close(residual.add(changed, nothing)[:, 0], residual.add(x, nothing)[:, 0])


# ---- The training step ----


def test_the_training_step(tiny_config, tiny_model):
    model = tiny_model(vocab_size=16).train()
    source = torch.tensor([[3, 4, 2, 0], [5, 6, 7, 2]])
    target = torch.tensor([[1, 8, 9, 2, 0], [1, 10, 11, 12, 2]])
    decoder_input, labels = target[:, :-1], target[:, 1:]

    def loss_of(logits, labels):
        return sequence_loss(logits, labels, int((labels != PAD_ID).sum()), label_smoothing=0.0).loss / 7

    logits = model(source, decoder_input, source != PAD_ID, decoder_input != PAD_ID)
    logits.retain_grad()
    assert logits.shape == (2, 4, 16)
    loss = loss_of(logits, labels)
    expected = F.cross_entropy(logits.reshape(-1, 16), labels.reshape(-1), ignore_index=0)
    torch.testing.assert_close(loss, expected)

    elsewhere = logits.detach().clone()
    elsewhere[0, 3] = 1000 * torch.randn(16)
    assert loss_of(elsewhere, labels) == loss

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss.backward()
    assert (logits.grad[0, 3] == 0).all()
    assert (logits.grad[labels != PAD_ID].abs().amax(dim=-1) > 0).all()
    optimizer.step()
    assert loss_of(model(source, decoder_input, source != PAD_ID, decoder_input != PAD_ID), labels) < loss
