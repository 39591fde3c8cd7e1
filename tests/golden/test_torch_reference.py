"""Our layers against torch's own, with the same weights: attention, layers, stacks, the whole model."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tformer.attention import MultiHeadAttention, attention, fast_attention
from tformer.model import causal_mask, sinusoids

REAL = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] * 1 + [False] * 5])  # [batch, src_len], True = real
TGT_REAL = torch.tensor([[True] * 3 + [False] * 2, [True] * 5, [True] * 4 + [False]])
CAUSAL = causal_mask(0, 5, torch.device("cpu"))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(1)


# ---- Our weights in torch's modules ----


def copy_attention(ours, theirs):
    theirs.in_proj_weight.data = torch.cat([ours.w_q.weight, ours.w_k.weight, ours.w_v.weight]).detach()
    theirs.out_proj.weight.data = ours.w_o.weight.detach()
    for bias in (theirs.in_proj_bias, theirs.out_proj.bias):
        if bias is not None:
            nn.init.zeros_(bias)


def copy_rest(ours, theirs, *norms):
    theirs.linear1.load_state_dict(ours.feed_forward.w_1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.w_2.state_dict())
    for number, residual in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(residual.norm.state_dict())


def torch_layer(kind, config):
    return kind(
        config.d_model,
        config.num_heads,
        config.d_ff,
        dropout=0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=config.norm_placement == "pre",
    )


def encoder_reference(ours, config):
    theirs = torch_layer(nn.TransformerEncoderLayer, config)
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_rest(ours, theirs, ours.self_attention_residual, ours.feed_forward_residual)
    return theirs


def decoder_reference(ours, config):
    theirs = torch_layer(nn.TransformerDecoderLayer, config)
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_rest(ours, theirs, ours.self_attention_residual, ours.cross_attention_residual, ours.feed_forward_residual)
    return theirs


def stack_reference(make_reference, layers, final_norm, config):
    """torch's stack holds copies of one layer; ours replace them."""
    norm = None
    if config.norm_placement == "pre":
        norm = nn.LayerNorm(config.d_model)
        norm.load_state_dict(final_norm.state_dict())
    first = make_reference(layers[0], config)
    if isinstance(first, nn.TransformerEncoderLayer):
        stack = nn.TransformerEncoder(first, len(layers), norm, enable_nested_tensor=False)
    else:
        stack = nn.TransformerDecoder(first, len(layers), norm)
    stack.layers = nn.ModuleList(make_reference(layer, config) for layer in layers)
    return stack


# ---- Attention (3.2.1, 3.2.2) ----


@pytest.mark.parametrize("masked", [False, True])
def test_the_readable_formula_is_the_kernel(masked):
    query, key, value = torch.randn(3, 2, 5, 4), torch.randn(3, 2, 6, 4), torch.randn(3, 2, 6, 7)
    mask = REAL[:, None, None, :] & (torch.rand(3, 1, 5, 6) < 0.7) if masked else None
    if masked:
        mask[..., 0] = True  # every query sees something
    reference = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(attention(query, key, value, mask)[0], reference)
    torch.testing.assert_close(fast_attention(query, key, value, mask), reference)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_training_has_the_kernel_s_gradients(masked):
    """Where gradients are wanted, a CPU computes it by other operations than where they are not."""
    inputs = [torch.randn(3, 2, size, width, requires_grad=True) for size, width in ((5, 4), (6, 4), (6, 7))]
    mask = REAL[:, None, None, :] if masked else None
    reference = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    found = fast_attention(*inputs, mask)
    with torch.no_grad():
        torch.testing.assert_close(fast_attention(*inputs, mask), reference)
    torch.testing.assert_close(found, reference)
    upstream = torch.randn_like(found)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, upstream), torch.autograd.grad(reference, inputs, upstream), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_attention_in_bfloat16_takes_its_softmax_in_float32():
    """A softmax in bfloat16 of 200 like scores would lose what tells them apart."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 2, 200, 8).bfloat16().requires_grad_() for _ in range(3))
    exact = attention(query.double(), key.double(), value.double())[0]
    error = (fast_attention(query, key, value, None).double() - exact).norm() / exact.norm()
    assert error < 2**-7


def test_self_attention_with_padding_and_causal_mask(tiny_config):
    ours, theirs = MultiHeadAttention(tiny_config()), nn.MultiheadAttention(16, 2, bias=False, batch_first=True)
    copy_attention(ours, theirs)
    x = torch.randn(3, 5, 16)
    mask = CAUSAL & TGT_REAL[:, None, None, :]
    # a Boolean mask of nn.MultiheadAttention blocks where it is True
    expected, weights = theirs(x, x, x, key_padding_mask=~TGT_REAL, attn_mask=~CAUSAL, average_attn_weights=False)
    torch.testing.assert_close(ours(x, x, x, mask), expected)
    torch.testing.assert_close(ours.weights(x, x, mask), weights)


def test_cross_attention_with_padding(tiny_config):
    ours, theirs = MultiHeadAttention(tiny_config()), nn.MultiheadAttention(16, 2, bias=False, batch_first=True)
    copy_attention(ours, theirs)
    x, key, value = torch.randn(3, 5, 16), torch.randn(3, 6, 16), torch.randn(3, 6, 16)
    expected, _ = theirs(x, key, value, key_padding_mask=~REAL)
    torch.testing.assert_close(ours(x, key, value, REAL[:, None, None, :]), expected)


# ---- Layers, stacks, the model (3.1) ----

VARIANTS = pytest.mark.parametrize(
    "variant", [{}, {"norm_placement": "pre"}, {"activation": "gelu"}], ids=["paper", "pre-norm", "gelu"]
)


@VARIANTS
def test_encoder_layer(tiny_model, variant):
    model = tiny_model(**variant)
    layer, x = model.encoder_layers[0], torch.randn(3, 6, 16)
    expected = encoder_reference(layer, model.config)(x, src_key_padding_mask=~REAL)
    torch.testing.assert_close(layer(x, REAL[:, None, None, :])[REAL], expected[REAL])


@VARIANTS
def test_decoder_layer(tiny_model, variant):
    model = tiny_model(**variant)
    layer, x, memory = model.decoder_layers[0], torch.randn(3, 5, 16), torch.randn(3, 6, 16)
    expected = decoder_reference(layer, model.config)(
        x, memory, tgt_mask=~CAUSAL, tgt_key_padding_mask=~TGT_REAL, memory_key_padding_mask=~REAL
    )
    mask = CAUSAL & TGT_REAL[:, None, None, :]
    output, _ = layer(x, layer.start(memory), mask, REAL[:, None, None, :])
    torch.testing.assert_close(output[TGT_REAL], expected[TGT_REAL])


@VARIANTS
def test_stacks_and_model(tiny_model, variant):
    """Ids to logits; what torch has no module for is written out: √d_model · E + PE, and the tied output."""
    model = tiny_model(**variant)
    src, tgt_in = torch.randint(4, 13, (3, 6)) * REAL, torch.randint(4, 13, (3, 5)) * TGT_REAL
    table = model.target_embedding.table.weight
    embedded = [math.sqrt(16) * F.embedding(ids, table) + sinusoids(ids.size(1), 16) for ids in (src, tgt_in)]

    encoder = stack_reference(encoder_reference, model.encoder_layers, model.encoder_norm, model.config)
    memory = encoder(embedded[0], src_key_padding_mask=~REAL)
    torch.testing.assert_close(model.encode(src, REAL)[REAL], memory[REAL])

    decoder = stack_reference(decoder_reference, model.decoder_layers, model.decoder_norm, model.config)
    decoded = decoder(
        embedded[1], memory, tgt_mask=~CAUSAL, tgt_key_padding_mask=~TGT_REAL, memory_key_padding_mask=~REAL
    )
    logits = model(src, tgt_in, REAL, TGT_REAL)
    torch.testing.assert_close(logits[TGT_REAL], (decoded @ table.T)[TGT_REAL], rtol=1e-5, atol=1e-5)


# ---- Positions (3.5) ----


@pytest.mark.parametrize("d_model", [2, 16, 512])
def test_sinusoids_by_the_formula(d_model):
    table = sinusoids(10_000, d_model)
    assert table.dtype == torch.float32
    for position in (0, 1, 2, 50, 255, 256, 9_999):
        row = []
        for i in range(d_model // 2):
            angle = position / 10_000 ** (2 * i / d_model)
            row += [math.sin(angle), math.cos(angle)]
        torch.testing.assert_close(table[position], torch.tensor(row), rtol=0, atol=1e-7)
