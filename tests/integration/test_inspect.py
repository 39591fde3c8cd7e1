"""`tformer trace` and `tformer attention` on trained models: what is shown, where it goes, and what is refused."""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import torch

import tformer as package
from tformer.vocabulary import BOS_ID, EOS_ID

TEXT = "The boat is in the harbour."


@pytest.fixture(scope="module")
def separate(trained, tmp_path_factory):
    """A model with a vocabulary for each language, pre-norm, learned positions, averaged weights."""
    from tformer import runs

    settings = ["tokenizer.shared=false", "tokenizer.vocab_size=300", "model.tie_embeddings=none"]
    settings += ["model.norm_placement=pre", "model.positions=learned", "training.max_steps=30"]
    settings += ["training.validate_every_steps=30", "training.save_every_steps=10"]
    folder = tmp_path_factory.mktemp("separate") / "model"
    return runs.train(str(trained.parent / "harbour.yaml"), settings, folder, resume=False, overwrite=False).path


def test_a_trace_is_of_the_models_own_translation(tformer, trained):
    result = tformer("trace", TEXT, "--model", trained, "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert found["text"] == TEXT
    assert found["translation"] == tformer("translate", TEXT, "--model", trained).out.rstrip("\n")
    pieces = found["encoder"][0]["pieces"]
    assert "".join(pieces[:-1]).replace("▁", " ").strip() == TEXT
    written = [step["chosen"]["pieces"][0] for step in found["decoder"] if step["step"] == "write"]
    assert "".join(written).replace("▁", " ").removesuffix("</s>").strip() == found["translation"]


@pytest.mark.parametrize("options", [[], ["--target", "El barco está en el puerto."]])
def test_a_trace_reads_well_and_is_plain_text(tformer, trained, options):
    result = tformer("trace", TEXT, "--model", trained, "--token", "boat", "--layer", "1", "--head", "4", *options)
    assert (result.code, result.err) == (0, "")
    assert not re.search("[\0-\x09\x0b-\x1f\x7f]", result.out)
    assert max(map(len, result.out.splitlines()[4:])) <= 100
    for words in ("√d_model · E[id]", "softmax(Q Kᵀ / √d_k) V", "§3.2.1, Eq. 1", "§3.3, Eq. 2", "▁boat"):
        assert words in result.out
    for words in ("five best", "chosen") if not options else ("tgt_in", "tgt_out", "padding", "−ln P", "sum"):
        assert words in result.out


def test_odd_text_stays_one_line_that_can_be_shown(tformer, trained, tmp_path):
    odd, shown = "The\nboat\u2028is \udcff here.", "The boat is \ufffd here."
    found = json.loads(tformer("trace", odd, "--target", "El\nbarco", "--model", trained, "--json").out)
    assert (found["text"], found["target"]) == (shown, "El barco")
    out = tmp_path / "maps.html"
    assert tformer("attention", odd, "--model", trained, "--output", out).code == 0
    assert shown in out.read_text(encoding="utf-8")


def test_the_articles_example_needs_no_model(shell):
    result = shell("trace", "--example", "attention")
    assert (result.code, result.err) == (0, "")
    for words in ("0.707", "0.401", "0.198", "1.604", "1.198", "Block the third key", "−∞"):
        assert words in result.out


@pytest.mark.parametrize("kind", ["trained", "separate"])
def test_the_maps_are_the_attention_of_the_weights_that_translate(tformer, request, tmp_path, kind):
    folder = request.getfixturevalue(kind)
    out = tmp_path / "maps.json"
    result = tformer("attention", TEXT, "--model", folder, "--output", out)
    assert (result.code, result.out) == (0, f"{out}\n")
    [found] = json.loads(out.read_text(encoding="utf-8"))
    translator = package.load(folder, device="cpu")
    [best] = translator.translations([TEXT])[0][:1]
    source, model = translator.tokenizers.source, translator.models[0]
    assert found["translation"] == best.text
    assert found["source"] == [*source.pieces(source.encode(TEXT)), "</s>"]
    assert found["target_read"] == ["<s>", *best.tokens][: len(found["target_written"])]
    src, tgt_in = torch.tensor([[*source.encode(TEXT), EOS_ID]]), torch.tensor([[BOS_ID, *best.ids]])
    with torch.inference_mode():
        cross = model.cross_attention(src, tgt_in, torch.ones_like(src, dtype=torch.bool))[:, 0]
    np.testing.assert_allclose(np.array(found["cross"]), cross[:, :, : len(found["target_written"])], rtol=0, atol=1e-6)
    averaged = (folder / "averaged").is_dir()
    assert ("averaged" in result.err) == averaged


def test_sentences_may_be_several_and_have_translations_of_ones_own(tformer, trained, tmp_path):
    out = tmp_path / "page.html"
    targets = ["--target", "El barco.", "--target", "El puerto."]
    assert tformer("attention", "The boat.", "The harbour.", *targets, "--model", trained, "--output", out).code == 0
    page = out.read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert [each["translation"] for each in data["sentences"]] == ["El barco.", "El puerto."]
    assert [each["written"]["pieces"][-1] for each in data["sentences"]] == ["</s>", "</s>"]
    assert not re.search(r"(src|href)=|https?:|@import|url\(", page)


def test_a_terminal_map_is_plain_text_where_it_is_piped(shell, trained):
    result = shell("attention", TEXT, "--model", trained, "--pattern", "decoder", "--head", "2")
    assert result.code == 0
    assert "Decoder self-attention" in result.out
    assert "·: blocked by the causal mask" in result.out
    assert "\x1b" not in result.out


def test_a_reader_that_goes_ends_both_quietly(trained):
    for command in (["attention", TEXT], ["trace", TEXT]):
        line = shlex.join([sys.executable, "-m", "tformer", *command, "--model", str(trained)])
        done = subprocess.run(["bash", "-o", "pipefail", "-c", f"{line} | head -1"], capture_output=True, timeout=120)
        assert done.returncode == 0
        assert TEXT in done.stdout.decode()
        assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trace"], "give one"),
        (["trace", "Hi.", "--example", "attention"], "give one"),
        (["trace", "--example", "norm"], "--example norm: expected attention"),
        (["trace", "  "], "TEXT is blank"),
        (["trace", "Hi.", "--target", ""], "--target is blank"),
        (["trace", "Hi.", "--layer", "9"], "--layer 9: expected a number from 1 to 1"),
        (["trace", "Hi.", "--head", "9"], "--head 9: expected a number from 1 to 4"),
        (["trace", "Hi.", "--token", "boat"], "--token boat: expected one of"),
        (["trace", "boat " * 300], "at most 255 at once"),
        (["attention", "Hi.", "--pattern", "self"], "--pattern self: expected encoder, decoder, cross"),
        (["attention", "Hi.", "--target", "a", "--target", "b"], "one --target for each sentence, got 2 for 1"),
        (["attention", "Hi.", "--output", "maps.pdf"], "expected a .html, .png, .svg or .json, got .pdf"),
        (["attention", "Hi.", "--output", "maps"], "got no ending"),
        (["attention", "Hi.", "--output", "nowhere/maps.html"], "does not exist"),
    ],
)
def test_what_cannot_be_shown_is_one_message(tformer, trained, arguments, words):
    result = tformer(*arguments, *([] if "--example" in arguments else ["--model", trained]))
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert len([line for line in result.err.splitlines() if not line.startswith("model: ")]) == 1


def test_a_model_that_is_not_there_is_refused(tformer, tmp_path):
    for command in ("trace", "attention"):
        result = tformer(command, "Hi.", "--model", tmp_path / "none")
        assert (result.code, result.out) == (2, "")
        assert "no such model folder" in result.err


def test_a_picture_without_matplotlib_is_refused_before_the_model_is_opened(tformer, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = tformer("attention", "Hi.", "--model", tmp_path, "--output", tmp_path / "maps.png")
    assert result.code == 2
    assert "pip install 'tformer[plot]'" in result.err
