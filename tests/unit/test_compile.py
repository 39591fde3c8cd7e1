"""Training compiled: one graph for batches of all shapes, and the same loss and gradients as without."""

from functools import partial

import numpy as np
import pytest
import torch

from tformer.config import TrainingConfig
from tformer.data.batching import collate
from tformer.runtime import Runtime, prepare
from tformer.training.step import Objective


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_one_graph_serves_all_shapes_and_changes_nothing(tiny_model, tokenised, monkeypatch, placement):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend, fullgraph=True))
    random = np.random.default_rng(0)
    sides = [[random.integers(4, 13, size).tolist() for size in random.integers(17, 40, 30)] for _ in range(2)]
    corpus, model = tokenised(*sides), tiny_model(norm_placement=placement).train()
    compiled, plain = (
        Objective(model, TrainingConfig().label_smoothing, Runtime(torch.device("cpu"), "fp32", 1, "", compile))
        for compile in (True, False)
    )
    for rows in (4, 9, 30):
        batch = collate(corpus, np.arange(rows))
        one, other = compiled(batch), plain(batch)
        torch.testing.assert_close(one.loss, other.loss)
        for ours, theirs in zip(
            torch.autograd.grad(one.loss, list(model.parameters())),
            torch.autograd.grad(other.loss, list(model.parameters())),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs)
    assert len(graphs) == 1


def test_a_cpu_does_not_compile_unless_it_is_told_to():
    chosen = prepare("cpu", "auto", "auto")
    assert not chosen.compile
    assert "compile false (slower here than as it is)" in chosen.reasons
    assert prepare("cpu", "auto", "auto", compiled=True).compile
