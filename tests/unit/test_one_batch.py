"""The whole way from ids to learnt weights on one batch: it is learnt by heart, however it is cut."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tformer.config import TrainingConfig
from tformer.data.batching import collate
from tformer.decoding.search import greedy_search
from tformer.runtime import Runtime
from tformer.training.loss import corpus_nll
from tformer.training.step import train_step

CPU = Runtime(torch.device("cpu"), "fp32", 1, "")
EIGHT = np.arange(8)


@pytest.fixture
def corpus(tokenised):
    """Eight pairs in which no source tells its target's next token by itself."""
    random = np.random.default_rng(0)
    src = [random.integers(4, 20, size).tolist() for size in (3, 5, 1, 4, 6, 2, 5, 3)]
    tgt = [random.integers(4, 20, size).tolist() for size in (4, 2, 3, 6, 5, 1, 3, 4)]
    return tokenised(src, tgt)


@pytest.fixture
def model(tiny_model):
    return tiny_model(vocab_size=20, d_model=32, d_ff=64).train()


def weights_after(model, batches, config, optimizer_type=torch.optim.SGD, rate=0.1):
    """The weights after one update, of a copy."""
    copied = type(model)(model.config, 20).train()
    copied.load_state_dict(model.state_dict())
    sums = train_step(copied, batches, optimizer_type(copied.parameters(), lr=rate), config, CPU)
    return torch.nn.utils.parameters_to_vector(copied.parameters()).detach(), sums


def test_one_batch_is_learnt_by_heart(model, corpus):
    batch, config = collate(corpus, EIGHT), TrainingConfig(label_smoothing=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)
    for _ in range(200):
        train_step(model, [batch], optimizer, config, CPU)
    model.eval()
    assert corpus_nll(model, [batch], CPU.device) < 0.01

    def step(tokens, state):
        logits, state = model.decode(tokens.unsqueeze(1), state)
        return F.log_softmax(logits[:, -1], dim=-1), state

    with torch.inference_mode():
        memory = model.encode(batch.src, batch.src_padding_mask)
        found = greedy_search(step, model.start(memory, batch.src_padding_mask), torch.full((8,), 20))
    assert [hypothesis.tokens for hypothesis in found] == [corpus.tgt[index].tolist()[:-1] for index in EIGHT]
    assert all(hypothesis.finished for hypothesis in found)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_batch_is_its_parts_accumulated(model, corpus, smoothing):
    """Parts of unequal token counts: a mean of means would be another step."""
    config = TrainingConfig(label_smoothing=smoothing)
    whole, whole_sums = weights_after(model, [collate(corpus, EIGHT)], config)
    parts = [collate(corpus, EIGHT[start : start + 2]) for start in range(0, 8, 2)]
    assert len({part.num_tokens for part in parts}) > 1
    cut, cut_sums = weights_after(model, parts, config)
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-6)
    for one, other in zip(whole_sums, cut_sums, strict=True):
        assert float(one) == pytest.approx(float(other), rel=1e-6)
    assert whole_sums.num_tokens == sum(part.num_tokens for part in parts)


def test_an_update_is_the_gradient_of_the_mean_over_tokens(model, corpus):
    batch = collate(corpus, EIGHT)
    logits = model(batch.src, batch.tgt_in, batch.src_padding_mask, batch.tgt_padding_mask)
    loss = F.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=0, label_smoothing=0.1)
    gradient = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])
    before = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    after, _ = weights_after(model, [batch], TrainingConfig(label_smoothing=0.1))
    torch.testing.assert_close(after, before - 0.1 * gradient, rtol=0, atol=1e-6)


def test_clipping_bounds_the_whole_gradient(model, corpus):
    """Of all parts together, not of each; and a bound that is not reached changes nothing."""
    parts = [collate(corpus, EIGHT[start : start + 4]) for start in (0, 4)]
    before = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    free, _ = weights_after(model, parts, TrainingConfig(), rate=1.0)
    clipped, _ = weights_after(model, parts, TrainingConfig(clip_norm=0.01), rate=1.0)
    unreached, _ = weights_after(model, parts, TrainingConfig(clip_norm=1000.0), rate=1.0)
    assert (free - before).norm() > 0.1
    torch.testing.assert_close((clipped - before).norm(), torch.tensor(0.01), rtol=1e-3, atol=0)
    torch.testing.assert_close(F.cosine_similarity(clipped - before, free - before, dim=0), torch.tensor(1.0))
    assert torch.equal(unreached, free)


def test_nothing_is_carried_from_one_update_to_the_next(model, corpus):
    batch, config = collate(corpus, EIGHT), TrainingConfig()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for _ in range(2):
        sums = train_step(model, [batch], optimizer, config, CPU)
        assert all(parameter.grad is None for parameter in model.parameters())
        assert not sums.loss.requires_grad


def test_under_bfloat16_weights_and_sums_stay_float32(model, corpus):
    batch, config = collate(corpus, EIGHT), TrainingConfig()
    exact, exact_sums = weights_after(model, [batch], config)
    runtime = dataclasses.replace(CPU, precision="bf16")
    sums = train_step(model, [batch], torch.optim.SGD(model.parameters(), lr=0.1), config, runtime)
    after = torch.nn.utils.parameters_to_vector(model.parameters())
    assert after.dtype == sums.loss.dtype == sums.nll.dtype == torch.float32
    assert sums.loss.item() == pytest.approx(exact_sums.loss.item(), rel=0.01)
    assert sums.loss.item() != exact_sums.loss.item()
    torch.testing.assert_close(after, exact, rtol=0, atol=0.01)
