"""What is no finite number reaches no weight; a batch that does not fit is halved, and the update is the same."""

import copy
import math

import numpy as np
import pytest
import torch

from tformer.config import TrainingConfig
from tformer.data.batching import collate
from tformer.runtime import Runtime
from tformer.training.memory import does_not_fit, halved, is_out_of_memory
from tformer.training.step import train_step, update_where

CPU = Runtime(torch.device("cpu"), "fp32", 1, "")


@pytest.fixture
def corpus(tokenised):
    pairs = [[4 + (start + offset) % 9 for offset in range(1 + start % 6)] for start in range(12)]
    return tokenised(pairs, pairs[::-1])


@pytest.fixture
def model(tiny_model):
    return tiny_model(seed=1).train()


@pytest.fixture
def adam():
    return lambda model: torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.98), fused=True)


def everything(model, optimizer):
    moments = [tensor.clone() for state in optimizer.state.values() for tensor in state.values()]
    return [parameter.detach().clone() for parameter in model.parameters()] + moments


def spoil_gradient(model, value):
    return model.output.weight.register_hook(lambda gradient: gradient * value)


def spoil_loss(model, value):
    return model.decoder_norm.register_forward_hook(lambda _, __, output: output * value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("spoil", [spoil_gradient, spoil_loss])
@pytest.mark.parametrize("clip_norm", [None, 1.0])
def test_what_is_not_finite_changes_neither_weights_nor_moments(model, corpus, adam, spoil, value, clip_norm):
    optimizer, config = adam(model), TrainingConfig(clip_norm=clip_norm)
    batches = [collate(corpus, np.arange(6)), collate(corpus, np.arange(6, 12))]
    train_step(model, batches, optimizer, config, CPU)
    before = everything(model, optimizer)
    hook = spoil(model, value)
    sums = train_step(model, batches, optimizer, config, CPU)
    hook.remove()
    assert math.isnan(sums.loss)
    assert all(map(torch.equal, before, everything(model, optimizer)))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert math.isfinite(train_step(model, batches, optimizer, config, CPU).loss)
    assert not all(map(torch.equal, before, everything(model, optimizer)))


@pytest.mark.parametrize("first", [True, False])
def test_the_kernel_of_a_gpu_passes_over_an_update_without_being_asked_about_it(model, adam, first):
    """The fused kernel of a CPU does the same by the same flag."""
    other = copy.deepcopy(model)
    optimizer, plain = adam(model), adam(other)
    for step in range(4):
        wanted = step % 2 == first
        for one, same in zip(model.parameters(), other.parameters(), strict=True):
            one.grad = torch.full_like(one, 0.5 if wanted else math.nan)
            same.grad = torch.full_like(same, 0.5)
        update_where(torch.tensor(wanted), optimizer)
        if wanted:
            plain.step()
    assert all(map(torch.equal, model.parameters(), other.parameters()))
    assert [int(state["step"]) for state in optimizer.state.values()] == [2] * len(optimizer.state)


# ---- Memory ----


def test_halves_are_the_same_update(model, corpus):
    """Whatever lies in which half: 12 pairs of unequal lengths, and one that has nothing to be cut."""
    batches, config = [collate(corpus, np.arange(11)), collate(corpus, np.array([11]))], TrainingConfig()
    parts = halved(batches)
    assert [len(part.indices) for part in parts] == [5, 6, 1]
    assert sum(part.num_tokens for part in parts) == sum(batch.num_tokens for batch in batches)
    losses, weights = [], []
    for cut in (batches, parts):
        copied = copy.deepcopy(model)
        losses.append(train_step(copied, cut, torch.optim.SGD(copied.parameters(), lr=1.0), config, CPU).loss.item())
        weights.append(torch.nn.utils.parameters_to_vector(copied.parameters()).detach())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    torch.testing.assert_close(*weights, rtol=0, atol=1e-6)


def test_running_out_of_memory_is_told_from_other_errors():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**50)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("size mismatch"))


def test_what_does_not_fit_is_told_in_numbers(corpus):
    config = TrainingConfig(max_tokens_per_batch=4096, accumulate_batches=2)
    message = does_not_fit([collate(corpus, np.arange(12)), collate(corpus, np.arange(3))], config, CPU.device)
    assert "out of memory, with 12 pairs of up to 7 and 7 pieces at once; set " in message
    assert "training.max_tokens_per_batch: 1024 and training.accumulate_batches: 8 for the same updates" in message
