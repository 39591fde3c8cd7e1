"""tformer: the Transformer of *Attention Is All You Need*, trained and used from the command line or from Python.

    import tformer

    translator = tformer.load("runs/demo")
    translator.translate(["I love maths."])

`load`, `Translator`, `Config` and `load_config` are fetched when they are first used, so that importing tformer stays
cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tformer.config import Config, load_config
    from tformer.decoding.translator import Translator
    from tformer.runs import load

__all__ = ["Config", "Translator", "load", "load_config"]
__version__ = "0.1.0"

_HOMES = {
    "Config": "tformer.config",
    "Translator": "tformer.decoding.translator",
    "load": "tformer.runs",
    "load_config": "tformer.config",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tformer' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
