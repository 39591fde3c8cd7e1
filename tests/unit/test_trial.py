"""The trial behind `check`: what a few steps tell about a run's memory and time."""

import numpy as np
import pytest
import torch

from tformer.config import ModelConfig, TrainingConfig
from tformer.data.batching import collate
from tformer.model import Transformer
from tformer.runtime import Runtime
from tformer.training.trial import Trial, activation_bytes, try_training

WIDTH = 64
VOCABULARY = 60
RUNTIME = Runtime(torch.device("cpu"), "fp32", 1, "")


@pytest.fixture
def model():
    """A small model in training."""
    torch.manual_seed(1)
    config = ModelConfig(d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    return Transformer(config, VOCABULARY).train()


@pytest.fixture
def corpus(tokenised):
    """Forty pairs of nine pieces and EOS."""
    rows = np.random.default_rng(1).integers(4, VOCABULARY, (40, 9)).tolist()
    return tokenised(rows, rows)


def test_a_trial_measures_steps_of_the_real_model(model, corpus):
    before = [parameter.clone() for parameter in model.parameters()]
    config = TrainingConfig(max_tokens_per_batch=100)
    trial = try_training(model, corpus, np.arange(40), config, RUNTIME)
    assert (trial.parameters, trial.steps, trial.tokens) == (model.num_parameters(), 5, 100)
    assert trial.seconds_per_token > 0
    assert trial.seconds_per_update > 0
    assert any(not torch.equal(was, now) for was, now in zip(before, model.parameters(), strict=True))


def test_pairs_that_training_leaves_out_are_not_tried(model, tokenised):
    long = [list(range(4, 54))] * 40
    rows = [*long, *([5, 6, 7] for _ in range(40))]
    mixed = tokenised(rows, rows)
    trial = try_training(model, mixed, np.arange(40, 80), TrainingConfig(max_tokens_per_batch=40), RUNTIME)
    assert trial.tokens == 40  # ten sentences of four


def test_activations_grow_with_the_batch_and_are_not_the_weights(model, corpus):
    sizes = {rows: activation_bytes(model, collate(corpus, np.arange(rows)), 0.1, RUNTIME) for rows in (1, 10, 20, 40)}
    assert sizes[40] - sizes[20] == pytest.approx(20 * (sizes[20] - sizes[10]) / 10, rel=0.01)
    weights = 4 * model.num_parameters()
    assert sizes[10] - (sizes[20] - sizes[10]) < weights / 2  # no weights among them, but for copies of some


class Exponential(torch.nn.Module):
    """Hidden vectors from a table, and how often their storage is saved: by exp itself, and again by a square of it."""

    def __init__(self, squared):
        super().__init__()
        self.table, self.squared = torch.nn.Embedding(VOCABULARY, WIDTH), squared
        self.output = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def hidden(self, src, tgt_in, src_padding_mask, tgt_padding_mask):
        y = self.table(tgt_in).exp()
        return y * y if self.squared else y


def test_a_storage_counts_once(corpus):
    batch = collate(corpus, np.arange(40))
    once, again = (activation_bytes(Exponential(squared), batch, 0.0, RUNTIME) for squared in (False, True))
    assert once == again
    hidden = 40 * 10 * WIDTH * 4
    gradient = VOCABULARY * WIDTH * 4
    assert (
        2 * hidden + gradient < once < 2.5 * hidden + gradient
    )  # what exp saves, and the gradients that the loss has made


def test_estimates_are_sums_of_what_grows_and_what_does_not():
    trial = Trial(1000, 5, 100, seconds_per_token=0.01, seconds_per_update=0.5, bytes_per_token=200.0)
    assert trial.seconds_per_step(50, 3) == pytest.approx(3 * 50 * 0.01 + 0.5)
    assert trial.memory_bytes(0) == 16_000
    assert trial.memory_bytes(50) == 26_000


def test_a_pair_alone_can_be_tried(model, corpus):
    trial = try_training(model, corpus, np.array([3]), TrainingConfig(max_tokens_per_batch=100), RUNTIME)
    assert (trial.steps, trial.tokens) == (5, 10)
    assert trial.bytes_per_token > 12 * VOCABULARY
