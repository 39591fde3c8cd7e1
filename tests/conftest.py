"""What the tests share: one thread, the profiles of hypothesis, tiny models and tiny corpora."""

import os

# before torch is imported, and inherited by subprocesses: models this small are fastest on one thread
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from hypothesis import settings

from tformer.config import ModelConfig
from tformer.data.corpus import CorpusReport
from tformer.data.store import Sentences, TokenisedCorpus
from tformer.model import Transformer

settings.register_profile("tformer", max_examples=25, deadline=None)
settings.register_profile("tformer-ci", settings.get_profile("tformer"), derandomize=True)
settings.load_profile("tformer-ci" if os.environ.get("CI") == "true" else "tformer")


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory):
    """Keeps the tests out of the user's cache, and the programs that they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


# The fixtures below are functions, made once: what they return is the test's own, and hypothesis may call them again.


@pytest.fixture(scope="session")
def tiny_config():
    """Settings of a model so small that a test can run hundreds of them."""

    def make(**settings):
        sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
        return ModelConfig(**{**sizes, "dropout": 0.0, "max_positions": 32, **settings})

    return make


@pytest.fixture(scope="session")
def perturb():
    """Moves the norms and biases of a module off 1 and 0, lest a wrong one go unnoticed."""

    def move(module):
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.dim() == 1:
                    parameter.add_(0.3 * torch.randn_like(parameter))
        return module

    return move


@pytest.fixture(scope="session")
def tiny_model(tiny_config, perturb):
    """A model of `tiny_config` in evaluation mode, the same one for the same seed."""

    def make(vocab_size=13, seed=0, **settings):
        torch.manual_seed(seed)
        return perturb(Transformer(tiny_config(**settings), vocab_size)).eval()

    return make


@pytest.fixture(scope="session")
def tokenised():
    """A corpus of ids, as if they had come from a tokenizer; EOS is added, as there. Sources take turns."""

    def make(src, tgt, weights=(1.0,)):
        sources = len(weights)
        return TokenisedCorpus(
            Sentences.pack(src),
            Sentences.pack(tgt),
            lines=np.arange(1, len(src) + 1),
            reports=tuple(CorpusReport(f"ids {number}", len(src[number::sources])) for number in range(sources)),
            source_of=np.arange(len(src), dtype=np.int16) % sources,
            weights=weights,
            rows=np.arange(len(src)),
        )

    return make
