"""The sizes of the paper's models, counted by hand, against the shipped configs; on the meta device, without memory."""

import pytest
import torch

from tformer.config import load_config
from tformer.model import Transformer

VOCAB_SIZE = 37_000
BASE = 63_045_632

COUNTS = {
    "paper/base": BASE,
    "paper/table3-base": BASE,
    "paper/table3-A-heads-1": BASE,
    "paper/table3-A-heads-32": BASE,
    "paper/table3-B-d_k-16": 55_967_744,
    "paper/table3-B-d_k-32": 58_327_040,
    "paper/table3-C-layers-2": 33_644_544,
    "paper/table3-C-layers-4": 48_345_088,
    "paper/table3-C-layers-8": 77_746_176,
    "paper/table3-C-d_model-256": 26_816_512,
    "paper/table3-C-d_model-1024": 163_815_424,
    "paper/table3-C-d_ff-1024": 50_450_432,
    "paper/table3-C-d_ff-4096": 88_236_032,
    "paper/table3-D-dropout-0.2": BASE,
    "paper/table3-E-learned-positions": BASE + 2 * 512 * 512,  # one table of max_positions rows a stack
    "paper/table3-big": 214_171_648,
    "paper/big": 214_171_648,
}


def make(name, *overrides):
    config = load_config(name, overrides)
    assert config.tokenizer.vocab_size == VOCAB_SIZE
    with torch.device("meta"):
        return Transformer(config.model, VOCAB_SIZE)


@pytest.mark.parametrize(("name", "count"), COUNTS.items(), ids=COUNTS)
def test_count(name, count):
    assert make(name).num_parameters() == count


def test_base_by_hand():
    width, inner = 512, 2048
    attention = 4 * width * width  # no biases
    feed_forward = width * inner + inner + inner * width + width
    norm = 2 * width
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    assert VOCAB_SIZE * width + 6 * encoder_layer + 6 * decoder_layer == BASE


@pytest.mark.parametrize(("tied", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_untied_tables_count_each(tied, tables):
    model = make("paper/base", f"model.tie_embeddings={tied}")
    assert model.num_parameters() == BASE + (tables - 1) * VOCAB_SIZE * 512


@pytest.mark.parametrize(
    ("tied", "source", "output"), [("all", True, True), ("decoder", False, True), ("none", False, False)]
)
def test_tied_matrices_are_one_tensor(tied, source, output):
    model = make("paper/base", f"model.tie_embeddings={tied}")
    table = model.target_embedding.table.weight
    assert (model.source_embedding.table.weight is table) == source
    assert (model.output.weight is table) == output
    assert model.output.bias is None


@pytest.mark.parametrize(("tied", "target_tables"), [("decoder", 1), ("none", 2)])
def test_two_vocabularies_count_each_on_its_side(tied, target_tables):
    config = load_config("paper/base", ["tokenizer.shared=false", f"model.tie_embeddings={tied}"])
    with torch.device("meta"):
        model = Transformer(config.model, 20_000, 30_000)
    without_tables = BASE - VOCAB_SIZE * 512
    assert model.num_parameters() == without_tables + (20_000 + target_tables * 30_000) * 512
    assert model.source_embedding.table.weight.shape == (20_000, 512)
    assert model.target_embedding.table.weight.shape == (30_000, 512)
    assert model.output.weight.shape == (30_000, 512)
    assert (model.output.weight is model.target_embedding.table.weight) == (tied == "decoder")


def test_pre_norm_adds_one_norm_a_stack():
    assert make("paper/base", "model.norm_placement=pre").num_parameters() == BASE + 2 * 2 * 512
