"""A trace holds what the model computed: every number in it, computed again in numpy from the saved tensors."""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import save_file

from tformer.errors import ConfigError
from tformer.inspection.record import Pair, record
from tformer.inspection.trace import find_token, trace_example, trace_pair
from tformer.model import Transformer

SRC, TGT = [5, 9, 4, 9, 7, 2], [6, 8, 11, 3, 2]
PADDING = 2
VOCABULARY = [f"p{index}" for index in range(13)]
MODELS = {
    "the paper's": {},
    "pre-norm, learned positions, untied, GELU": {
        "norm_placement": "pre",
        "positions": "learned",
        "tie_embeddings": "none",
        "activation": "gelu",
    },
    "unlike widths and depths, two vocabularies": {
        "d_k": 5,
        "d_v": 3,
        "num_heads": 3,
        "num_encoder_layers": 3,
        "num_decoder_layers": 1,
        "tie_embeddings": "decoder",
        "src_vocab_size": 17,
    },
}


def close(found, expected, tolerance=2e-5):
    np.testing.assert_allclose(np.array(found, dtype=float), expected, rtol=0, atol=tolerance)


@pytest.fixture(params=MODELS)
def case(request, tiny_config, perturb, tmp_path):
    """A model, the pair, and its tensors as any other program would read them from the file."""
    settings = dict(MODELS[request.param])
    torch.manual_seed(3)
    src_vocab_size = settings.pop("src_vocab_size", 13)
    model = perturb(Transformer(tiny_config(**settings), src_vocab_size, 13)).eval()
    tensors = {name: tensor.contiguous().clone() for name, tensor in model.state_dict().items()}
    save_file(tensors, tmp_path / "model.safetensors")
    pair = Pair(SRC, [f"s{index}" for index in SRC], TGT, [VOCABULARY[index] for index in TGT])
    return model, pair, Reference(load_file(tmp_path / "model.safetensors"), model.config)


class Reference:
    """Section 3 of the paper once more, for one sentence pair, in float64 and in numpy alone."""

    def __init__(self, tensors, config):
        self.tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        self.config = config

    def embed(self, ids, side):
        config = self.config
        row = self.tensors[f"{side}_embedding.table.weight"][ids]
        learned = self.tensors.get(f"{side}_embedding.learned_positions.weight")
        if learned is None:
            signal = np.zeros((len(ids), config.d_model))
            for position in range(len(ids)):
                for i in range(config.d_model // 2):
                    angle = position / 10000 ** (2 * i / config.d_model)
                    signal[position, 2 * i], signal[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
        else:
            signal = learned[: len(ids)]
        return row, signal, math.sqrt(config.d_model) * row + signal

    def norm(self, x, name):
        weight, bias = (self.tensors[f"{name}.{each}"] for each in ("weight", "bias"))
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias

    def attend(self, name, query, memory, allowed):
        """Every head: queries, keys, values, scores, weights, mixed values; then what W^O makes of them."""

        def heads(x, projection):
            projected = x @ self.tensors[f"{name}.{projection}.weight"].T
            return projected.reshape(len(x), self.config.num_heads, -1).transpose(1, 0, 2)

        q, k, v = heads(query, "w_q"), heads(memory, "w_k"), heads(memory, "w_v")
        scores = q @ k.transpose(0, 2, 1)
        shares = np.where(allowed, np.exp(scores / math.sqrt(q.shape[-1])), 0.0)
        weights = shares / shares.sum(-1, keepdims=True)
        mixed = weights @ v
        joined = mixed.transpose(1, 0, 2).reshape(len(query), -1)
        return q, k, v, scores, weights, mixed, joined, joined @ self.tensors[f"{name}.w_o.weight"].T

    def feed(self, x, name):
        hidden = x @ self.tensors[f"{name}.w_1.weight"].T + self.tensors[f"{name}.w_1.bias"]
        if self.config.activation == "gelu":
            active = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        else:
            active = np.maximum(0, hidden)
        return hidden, active, active @ self.tensors[f"{name}.w_2.weight"].T + self.tensors[f"{name}.w_2.bias"]

    def sublayer(self, x, name, compute):
        """LayerNorm(x + sublayer(x)), or x + sublayer(LayerNorm(x)): what it read, its sum, what came out."""
        pre = self.config.norm_placement == "pre"
        read = self.norm(x, f"{name}_residual.norm") if pre else x
        facts = compute(read)
        total = x + facts[-1]
        return read, facts, total, total if pre else self.norm(total, f"{name}_residual.norm")

    def encode(self):
        x, layers = self.embed(SRC, "source")[2], []
        for number in range(self.config.num_encoder_layers):
            layer, name = {"x": x}, f"encoder_layers.{number}"
            attend = f"{name}.self_attention"
            layer["attention"] = self.sublayer(x, attend, lambda read, at=attend: self.attend(at, read, read, True))
            middle = layer["attention"][3]
            feed = f"{name}.feed_forward"
            layer["feed"] = self.sublayer(middle, feed, lambda read, at=feed: self.feed(read, at))
            x = layer["feed"][3]
            layers.append(layer)
        memory = self.norm(x, "encoder_norm") if self.config.norm_placement == "pre" else x
        return layers, memory

    def decode(self, memory):
        x, own, cross = self.embed([1, *TGT[:-1]], "target")[2], [], []
        causal = np.tril(np.ones((len(TGT), len(TGT)), dtype=bool))
        for number in range(self.config.num_decoder_layers):
            name = f"decoder_layers.{number}"
            at = f"{name}.self_attention"
            _, facts, _, x = self.sublayer(x, at, lambda read, at=at: self.attend(at, read, read, causal))
            own.append(facts[4])
            at = f"{name}.cross_attention"
            _, facts, _, x = self.sublayer(x, at, lambda read, at=at: self.attend(at, read, memory, True))
            cross.append(facts[4])
            at = f"{name}.feed_forward"
            _, _, _, x = self.sublayer(x, at, lambda read, at=at: self.feed(read, at))
        if self.config.norm_placement == "pre":
            x = self.norm(x, "decoder_norm")
        logits = x @ self.tensors["output.weight"].T
        return own, cross, logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def steps_of(model, pair, part, *, layer=2, head=2, token="3", label_smoothing=None):
    found = trace_pair(model, pair, layer, head, token, VOCABULARY, label_smoothing).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found[part]


def test_the_encoders_numbers_are_those_of_the_saved_tensors(case):
    model, pair, reference = case
    position, head = 3, 1
    steps = {step["step"]: step for step in steps_of(model, pair, "encoder")}
    row, signal, x = reference.embed(SRC, "source")
    layers, memory = reference.encode()
    layer = layers[1]
    assert steps["pieces"]["ids"] == SRC
    close(steps["embedding"]["row"], row[position])
    close(steps["embedding"]["scaled"], 4 * row[position])  # √16
    close(steps["position"]["position_signal"], signal[position])
    close(steps["position"]["x"], x[position])

    read, (q, k, v, scores, weights, mixed, joined, output), total, after = layer["attention"]
    close(steps["layer_input"]["x"], layer["x"][position])
    if reference.config.norm_placement == "pre":
        close(steps["layer_input"]["norm"], read[position])
    close(steps["projections"]["query"], q[head, position])
    close(steps["projections"]["keys"], k[head])
    close(steps["projections"]["values"], v[head])
    attention = steps["attention"]
    close(attention["scores"], scores[head, position])
    close(attention["scaled"], scores[head, position] / math.sqrt(q.shape[-1]))
    close(attention["weights"], weights[head, position])
    assert attention["weights_sum"] == pytest.approx(1.0, abs=1e-6)
    close(attention["mixed"], mixed[head, position])
    close(steps["heads"]["mixed"], mixed[:, position])
    close(steps["heads"]["concat"], joined[position])
    close(steps["heads"]["output"], output[position])
    close(steps["self_attention_residual"]["x"], layer["x"][position])
    close(steps["self_attention_residual"]["sublayer"], output[position])
    close(steps["self_attention_residual"]["sum"], total[position])

    _, (hidden, active, fed), fed_total, end = layer["feed"]
    close(steps["feed_forward"]["hidden"], hidden[position])
    close(steps["feed_forward"]["active"], active[position])
    close(steps["feed_forward"]["output"], fed[position])
    if reference.config.activation == "relu":
        assert f" {(hidden[position] <= 0).sum()} become 0" in steps["feed_forward"]["note"]
    close(steps["feed_forward_residual"]["x"], after[position])
    close(steps["feed_forward_residual"]["sum"], fed_total[position])
    for step, value in (("self_attention_residual", after), ("feed_forward_residual", end)):
        if reference.config.norm_placement == "post":
            close(steps[step]["norm"], value[position])
        else:
            assert "norm" not in steps[step]
    close(steps["memory"]["outputs"], [each["feed"][3][position] for each in layers])
    close(steps["memory"]["memory"], memory[position])


def test_each_written_piece_is_followed_with_the_numbers_of_the_saved_tensors(case):
    model, pair, reference = case
    overview, _, *writes = steps_of(model, pair, "decoder")
    layer, head = min(2, reference.config.num_decoder_layers) - 1, 1
    own, cross, log_probs = reference.decode(reference.encode()[1])
    assert overview["causal_mask"]["allowed"] == [[key <= query for key in range(5)] for query in range(5)]
    assert len(writes) == len(TGT)
    for place, step in enumerate(writes):
        assert step["prefix"].split() == ["<s>", *pair.tgt_pieces][: place + 1]
        close(step["self_attention"]["shares"], own[layer][head, place])
        assert step["self_attention"]["shares"][place + 1 :] == [0.0] * (len(TGT) - place - 1)
        close(step["cross_attention"]["shares"], cross[layer][head, place])
        for kind in ("self_attention", "cross_attention"):
            assert sum(step[kind]["shares"]) == pytest.approx(1.0, abs=1e-6)
        best = np.argsort(-log_probs[place])[:5]
        assert step["next"]["pieces"] == [VOCABULARY[index] for index in best]
        close(step["next"]["shares"], np.exp(log_probs[place, best]))
        assert step["chosen"]["pieces"] == [pair.tgt_pieces[place]]
        close(step["chosen"]["shares"], [np.exp(log_probs[place, TGT[place]])])
        assert ("likeliest" in step.get("note", "")) == (best[0] != TGT[place])


def test_the_training_view_has_the_losses_of_the_saved_tensors(case):
    model, pair, reference = case
    shift, masks, loss = steps_of(model, pair, "training", label_smoothing=0.1)
    _, _, log_probs = reference.decode(reference.encode()[1])
    assert shift["tgt_in"] == ["<s>", *pair.tgt_pieces[:-1]]
    assert shift["tgt_out"] == pair.tgt_pieces
    right = log_probs[np.arange(len(TGT)), TGT]
    smoothed = -0.9 * right - 0.1 * log_probs.mean(axis=1)
    close(loss["probabilities"], np.exp(right))
    close(loss["nll"], -right)
    close(loss["loss"], smoothed)
    assert loss["nll_sum"] == pytest.approx(-right.sum(), abs=1e-4)
    assert loss["loss_sum"] == pytest.approx(smoothed.sum(), abs=1e-4)
    assert loss["mean_loss"] == pytest.approx(smoothed.mean(), abs=1e-4)
    assert loss["perplexity"] == pytest.approx(math.exp(-right.mean()), rel=1e-4)

    size = len(TGT) + PADDING
    expected = [[key <= query and key < len(TGT) for key in range(size)] for query in range(size)]
    assert masks["tgt_mask"]["allowed"] == expected
    assert masks["src_padding_mask"]["allowed"] == [[True] * len(SRC) + [False] * PADDING]


def test_what_is_recorded_is_the_pass_itself(case):
    model, pair, _ = case
    with torch.inference_mode():
        src, tgt_in = (torch.tensor([ids]) for ids in (pair.src, pair.tgt_in))
        logits = model(src, tgt_in, src > 0)[0]
    for padding in (0, PADDING):
        heard = record(model, pair, padding)
        torch.testing.assert_close(heard.logits[: len(TGT)], logits, rtol=0, atol=1e-5)
        attended = [*heard.encoder_self, *heard.decoder_self, *heard.cross]
        assert len(attended) == len(model.encoder_layers) + 2 * len(model.decoder_layers)
        for each in attended:
            torch.testing.assert_close(each.weights @ each.value, each.output, rtol=0, atol=1e-5)
            torch.testing.assert_close(each.weights.sum(dim=-1), torch.ones_like(each.weights[..., 0]))
            assert (each.weights[:, ~each.mask] == 0).all()
            assert (each.weights[:, each.mask] > 0).all()
    assert not any(module._forward_hooks for module in model.modules())


def test_a_token_is_found_by_its_piece_or_position():
    pieces = ["▁The", "it", "▁it", "3", "</s>"]
    assert [find_token(pieces, token) for token in (None, "▁it", "it", "The", "3", "2", "</s>")] == [
        0,
        2,
        1,
        0,
        3,
        2,
        4,
    ]
    for token in ("they", "5", "-1"):
        with pytest.raises(ConfigError, match=r"--token .*0 ▁The, 1 it, 2 ▁it, 3 3, 4 </s>"):
            find_token(pieces, token)


def test_layers_and_heads_that_are_not_there_are_refused(case):
    model, pair, _ = case
    for options in ({"layer": 4}, {"head": 4}):
        with pytest.raises(ConfigError, match=f"--{next(iter(options))} 4: expected a number from 1 to"):
            steps_of(model, pair, "encoder", **options)


def test_the_articles_example_is_computed_operation_by_operation():
    given, calculation, equal, larger, blocked = trace_example("attention").to_json()["example"]
    assert (given["query"], given["keys"]) == ([1, 0], [[1, 0], [0, 1], [1, 1]])
    assert given["values"] == [[2, 0], [0, 2], [2, 2]]
    assert calculation["scores"] == [1, 0, 1]
    close(calculation["scaled"], [0.7071, 0, 0.7071], 5e-5)
    close(calculation["weights"], [0.4011, 0.1978, 0.4011], 5e-5)
    close(calculation["mixed"], [1.6044, 1.1978], 5e-5)
    close(equal["weights"], [1 / 3] * 3)
    close(equal["mixed"], [4 / 3, 4 / 3])
    assert larger["weights"][0] > 0.8
    assert blocked["allowed"] == [True, True, False]
    assert blocked["weights"][2] == 0
    close(blocked["weights"][:2], [0.4011 / 0.5989, 0.1978 / 0.5989], 1e-4)


@pytest.mark.parametrize("label_smoothing", [None, 0.1])
def test_a_trace_fits_a_hundred_columns(case, label_smoothing):
    model, _, _ = case
    src, tgt = [3 + index % 9 for index in range(30)], [3 + index % 10 for index in range(30)]
    long = Pair(
        [*src, 2], [f"▁piece{index}" for index in [*src, 2]], [*tgt, 2], [f"▁{index}" * 3 for index in [*tgt, 2]]
    )
    lines = trace_pair(model, long, 1, 1, "7", VOCABULARY, label_smoothing).lines()
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    for section in ("§3.1", "§3.2.1, Eq. 1", "§3.2.2", "§3.2.3", "§3.3, Eq. 2", "§3.4", "§3.5", "§5.1"):
        assert section in text
    assert ("§5.4" in text.partition("training step")[2]) == (label_smoothing is not None)
