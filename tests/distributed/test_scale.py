"""What scripts/scale.py computes on paper, beside a model and a plan that are there."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tformer.config import ModelConfig
from tformer.model import Transformer

SCRIPT = Path(__file__).parents[2] / "scripts" / "scale.py"


@pytest.fixture(scope="module")
def scale():
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("scale", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["scale"] = module  # where its dataclass looks itself up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["scale"]


SIZES = [(16, 32, 2, 1, 1), (16, 48, 4, 3, 2)]


@pytest.mark.parametrize("sizes", SIZES)
def test_parameters_and_operations_are_those_of_a_model(scale, sizes):
    names = ("d_model", "d_ff", "num_heads", "num_encoder_layers", "num_decoder_layers")
    config = ModelConfig(**dict(zip(names, sizes, strict=True)), dropout=0.0)
    model = Transformer(config, 50)
    assert scale.parameters(config, 50) == model.num_parameters()
    src, tgt = torch.randint(4, 50, (3, 7)), torch.randint(4, 50, (3, 9))
    with FlopCounterMode(display=False) as counter:
        model(src, tgt, torch.ones_like(src, dtype=torch.bool)).sum().backward()
    assert 3 * scale.flops(config, 50, 7, 9) == counter.get_total_flops()


def test_the_paper_s_models_have_the_paper_s_sizes(scale):
    """Table 3: 65 and 213 million, with tables of about 37,000 pieces."""
    counts = {name: scale.parameters(config, 37_000) / 1e6 for name, config in scale.MODELS.items()}
    assert counts == pytest.approx({"base": 65, "big": 213, "1 B": 1000}, rel=0.06)


@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_what_is_shared_adds_up(scale, sharding):
    config = scale.MODELS["base"]
    alone, four = (scale.memory(config, 37_000, 1000, devices, sharding) for devices in (1, 4))
    share = 4 if sharding == "fsdp" else 1
    assert all(four[name] == alone[name] / share for name in ("weights", "gradients", "Adam"))
    assert sum(alone[name] for name in ("weights", "gradients", "Adam")) == 16 * scale.parameters(config, 37_000)
    assert four["activations"] == alone["activations"]


@pytest.mark.parametrize("arguments", [[], ["--plan", "20000"]])
def test_its_tables_are_printed(arguments):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "1,024" in done.stdout or arguments
