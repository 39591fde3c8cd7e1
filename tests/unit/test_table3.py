"""The miniature of Table 3: what it plants breaks what it says, and its statistics are those of a hand's arithmetic."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "scripts" / "table3.py"


@pytest.fixture(scope="module")
def table3():
    spec = importlib.util.spec_from_file_location("table3", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:  # dataclasses look their module up
        patch.setitem(sys.modules, "table3", module)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def logits(tiny_model):
    """What a tiny model says of a source and a prefix."""
    model = tiny_model(seed=3)

    def compute(src, tgt_in):
        src, tgt_in = torch.tensor([src]), torch.tensor([tgt_in])
        with torch.no_grad():
            return model(src, tgt_in, torch.ones_like(src, dtype=torch.bool))[0]

    return compute


SRC, TGT_IN = [5, 6, 7, 2], [1, 8, 9, 10]


def test_without_positions_the_order_of_the_source_is_unknown(table3, logits):
    turned = [7, 5, 6, 2]
    assert not torch.allclose(logits(SRC, TGT_IN), logits(turned, TGT_IN), atol=1e-3)
    with table3.without_positions():
        torch.testing.assert_close(logits(SRC, TGT_IN), logits(turned, TGT_IN))


def test_without_a_mask_the_future_is_seen(table3, logits):
    other = [*TGT_IN[:-1], 11]
    torch.testing.assert_close(logits(SRC, TGT_IN)[0], logits(SRC, other)[0])
    with table3.without_mask():
        assert not torch.allclose(logits(SRC, TGT_IN)[0], logits(SRC, other)[0], atol=1e-3)


def test_without_scaling_the_scores_are_as_if_queries_were_longer(table3, tiny_model):
    attention = tiny_model(seed=3).encoder_layers[0].self_attention
    x = torch.randn(1, 4, 16)
    with torch.no_grad():
        scaled = attention(x, x, x)
        with table3.without_scaling():
            unscaled = attention(x, x, x)
        assert not torch.allclose(scaled, unscaled, atol=1e-3)
        attention.w_q.weight.mul_(8**0.5)  # d_k = 16 / 2
        torch.testing.assert_close(unscaled, attention(x, x, x))


def test_without_residual_connections_a_sub_layer_gives_its_own_alone(table3, tiny_model):
    residual = tiny_model(seed=3).encoder_layers[0].feed_forward_residual
    x, own = torch.randn(1, 4, 16), torch.randn(1, 4, 16)
    with torch.no_grad(), table3.without_residual():
        torch.testing.assert_close(residual.add(x, own), residual.norm(own))


def test_what_was_planted_is_gone_afterwards(table3, logits):
    before = logits(SRC, TGT_IN)
    for row in table3.ROWS:
        with row.plant():
            pass
    assert torch.equal(before, logits(SRC, TGT_IN))


def test_the_spread_is_the_standard_deviation_of_a_sample(table3):
    assert table3.spread([1.0, 2.0, 3.0], 2) == "2.00 ± 1.00"  # √((1 + 0 + 1) / 2)
    assert table3.spread([2.0, 4.0], 3) == "3.000 ± 1.414"  # √((1 + 1) / 1)
    assert table3.spread([7.25], 1) == "7.2"
    assert table3.spread([], 1) == "–"


def test_a_torn_result_costs_that_one_alone(table3, tmp_path):
    path, budget = tmp_path / "deep" / "table3.jsonl", table3.Budget(3.0, None, ())
    results = [{"row": "base", "seed": seed, "budget": budget.key(), "bleu": seed} for seed in (1, 2, 3)]
    table3.add_result(path, results[0])
    with path.open("ab") as file:
        file.write(json.dumps(results[1]).encode()[:20])
    table3.add_result(path, results[2])
    assert table3.read_results(path, budget) == [results[0], results[2]]
    assert table3.read_results(path, table3.Budget(4.0, None, ())) == []
    assert table3.read_results(path, table3.Budget(3.0, 300, ())) == []
    assert table3.read_results(path, table3.Budget(3.0, None, ("model.dropout=0",))) == []


def test_the_table_shows_means_beside_the_papers_figures(table3):
    common = {"row": "base", "parameters": 1_639_936, "steps": 100}
    rows = [{**common, "seed": seed, "perplexity": 1.0 + seed, "bleu": 90.0 + seed} for seed in (1, 2, 3)]
    rows.append({"row": "no-residual", "seed": 1, "failed": "step 7: the loss is nan"})
    _, _, base, lost = table3.table(rows)
    assert base.split(" | ")[2:6] == ["1.64 M", "100", "3.000 ± 1.000", "92.00 ± 1.00"]
    assert base.endswith("| 65 M | 4.92 | 25.8 |")
    assert "no residual connections (1 of 1 went astray)" in lost


def test_every_row_is_a_config_that_can_be(table3):
    from tformer.config import load_config

    names = [row.name for row in table3.ROWS]
    assert len(set(names)) == len(names)
    for row in table3.ROWS:
        config = load_config("base.yaml", table3.Budget(3.0, None, ("seed=7",)).overrides(row, 2))
        assert (config.training.max_minutes, config.training.average_last, config.seed) == (3.0, 1, 7)
        for key, value in row.settings.items():
            section, name = key.split(".")
            assert getattr(getattr(config, section), name) == value
