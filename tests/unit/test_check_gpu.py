"""The script that tries a GPU, on a CPU: what a part gives and what it says when it fails."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def script():
    path = Path(__file__).parents[2] / "scripts" / "check_gpu.py"
    spec = importlib.util.spec_from_file_location("check_gpu", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_part_gives_its_json(script):
    found = script.run([sys.executable, "-c", "print('{\"bleu\": 3}')"], seconds=60)
    assert (found["code"], found["result"]) == (0, {"bleu": 3})


def test_a_part_that_fails_says_how_it_ended(script):
    found = script.run(
        [sys.executable, "-c", "import sys; print('first', file=sys.stderr); sys.exit('why')"], seconds=60
    )
    assert found["code"] == 1
    assert found["said"] == ["first", "why"]


def test_a_part_that_never_ends_is_stopped(script):
    found = script.run([sys.executable, "-c", "import signal; signal.pause()"], seconds=0.2)
    assert found["code"] == -1
    assert "timed out" in found["said"][0]


def test_the_gradient_in_bfloat16_is_near_that_in_float32(script):
    loss, gradient = script.gradients("cpu", "fp32", compiled=False)
    other_loss, other = script.gradients("cpu", "bf16", compiled=False)
    assert other_loss == pytest.approx(loss, rel=1e-3)
    error = ((other - gradient).norm() / gradient.norm()).item()
    assert 0 < error < 0.1
