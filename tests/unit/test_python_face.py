"""tformer as a library: `tformer.load(folder).translate(lines)`, and an import that costs nothing."""

import json
import subprocess
import sys

import pytest

import tformer
from tformer.config import Config, DataConfig, DecodingConfig, ModelConfig, TokenizerConfig, dump_config
from tformer.data.tokenizer import TokenizerPair
from tformer.errors import CheckpointError, ConfigError, TformerError
from tformer.training.checkpoint import ModelFolder, weights_of

LINES = ["The old cat sees the dog.", "A small child likes the house.", "Le vieux chat voit le chien."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_model, tiny_config):
    """A model folder that no run has made: a model that has learnt nothing."""
    tokenizers = TokenizerPair.train(LINES, [], TokenizerConfig(vocab_size=300))
    folder = ModelFolder(tmp_path_factory.mktemp("face") / "model", tokenizers.fingerprint)
    folder.save(1, weights_of(tiny_model(tokenizers.source.vocab_size)), {})
    tokenizers.save(folder.path)
    sizes = ModelConfig(**tiny_config().model_dump())
    config = Config(model=sizes, data=DataConfig(max_length=20), decoding=DecodingConfig(beam_size=2, max_length=8))
    folder.config.write_text(dump_config(config), encoding="utf-8")
    return folder.path


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_importing_is_light():
    loaded = run("import sys, json, tformer; print(json.dumps(sorted(sys.modules)))")
    assert not {"torch", "numpy", "pydantic", "sentencepiece", "datasets", "typer", "tqdm"} & set(loaded)


def test_loading_a_model_reads_no_corpus(folder):
    code = "import sys, json, tformer\n"
    code += f"found = tformer.load({str(folder)!r}, device='cpu').translate({LINES!r})\n"
    code += "print(json.dumps([found, sorted(sys.modules)]))"
    found, loaded = run(code)
    assert found == tformer.load(folder, device="cpu").translate(LINES)
    assert not {"datasets", "pyarrow", "sacrebleu", "typer"} & set(loaded)


def test_the_names_are_there():
    assert sorted(tformer.__all__) == ["Config", "Translator", "load", "load_config"]
    assert tformer.Config is Config
    assert tformer.load_config().model.d_model == Config().model.d_model
    with pytest.raises(AttributeError, match="module 'tformer' has no attribute 'lode'"):
        _ = tformer.lode


def test_a_model_is_loaded_with_its_own_settings_or_others(folder, capsys):
    translator = tformer.load(folder, device="cpu")
    assert isinstance(translator, tformer.Translator)
    assert translator.decoding == DecodingConfig(beam_size=2, max_length=8)
    assert translator.max_source_length == 20
    assert len(translator.translate([*LINES, ""])) == 4
    assert not translator.models[0].training
    other = tformer.load(str(folder), device="cpu", beam_size=1, length_penalty=None)
    assert other.decoding == DecodingConfig(beam_size=1, max_length=8)
    assert capsys.readouterr() == ("", "")


def test_several_models_vote(folder):
    assert len(tformer.load(folder, folder, device="cpu").models) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam_size": 0}, "decoding.beam_size must be a whole number of at least 1, got 0"),
        ({"beam": 4}, "decoding.beam is not a setting; did you mean decoding.beam_size?"),
        ({"length_penalty": float("nan")}, "decoding.length_penalty must be a number of at least 0"),
        ({"device": "tpu"}, "this machine has no 'tpu'"),
    ],
)
def test_settings_that_cannot_be_are_named(folder, settings, message):
    with pytest.raises(ConfigError) as error:
        tformer.load(folder, **{"device": "cpu", **settings})
    assert message in str(error.value)
    assert isinstance(error.value, TformerError)


def test_a_folder_that_is_no_model(folder, tmp_path):
    with pytest.raises(ConfigError, match="no such model folder"):
        tformer.load(tmp_path / "nope")
    with pytest.raises(CheckpointError, match="holds no model"):
        tformer.load(tmp_path)
