"""The shape of the house: each library at home in one place, each module in a layer, each file short enough to read."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tformer"
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
HOMES = {
    "typer": "cli",
    "tqdm": "progress",
    "pydantic": "config",
    "pydantic_core": "config",
    "ruamel": "config",
    "sentencepiece": "data.tokenizer",
    "datasets": "data.corpus",
    "pyarrow": "data",
    "xxhash": "data",
    "py3langid": "data.languages",
    "sacrebleu": "decoding.score",
    "safetensors": "training.checkpoint",
    "rich": "inspection",
    "matplotlib": "inspection.picture",
}
EVERYWHERE = {"torch", "numpy"}
MAX_LINES = 450


def imports(path):
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module


def within(module, home):
    return module == home or module.startswith(f"{home}.")


@pytest.mark.parametrize("module", MODULES)
def test_each_library_has_one_home(module):
    libraries = {name.partition(".")[0] for name in imports(MODULES[module])}
    for library in libraries - sys.stdlib_module_names - EVERYWHERE - {"tformer"}:
        assert library in HOMES, f"{module} imports {library}, which has no home"
        assert within(module, HOMES[library]), f"{module} imports {library}, whose home is {HOMES[library]}"


@pytest.mark.parametrize("module", MODULES)
def test_processes_have_one_home(module):
    """A run of one process must meet nothing of it, and a reader of the model no word."""
    parallel = [name for name in imports(MODULES[module]) if re.match(r"torch\.(distributed|nn\.parallel)", name)]
    assert not parallel or module == "training.distributed"


def test_each_home_is_lived_in():
    for library, home in HOMES.items():
        rooms = [path for module, path in MODULES.items() if within(module, home)]
        assert any(name.partition(".")[0] == library for path in rooms for name in imports(path)), library


def test_each_module_stands_in_a_layer():
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    [layers] = re.findall(r"^layers = \[(.*?)^\]", settings, re.DOTALL | re.MULTILINE)
    layered = set(re.findall(r"[\w.]+", layers))
    outside = {"__init__", "__main__", "training", "decoding"}  # faces and folders
    for module in MODULES.keys() - outside:
        assert any(within(module, part) for part in layered), f"{module} stands in no layer of pyproject.toml"
    for part in layered:
        assert part in MODULES, f"pyproject.toml names {part}, which does not exist"


@pytest.mark.parametrize("module", MODULES)
def test_each_file_can_be_read_in_one_sitting(module):
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= MAX_LINES
