"""The decoding benchmark: rivals get the very same model, and its figures have the shape that they are read by."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tformer.model import Transformer

SCRIPTS = Path(__file__).parents[2] / "scripts"
NAMES = ["<blank>", "<s>", "</s>", "<unk>", *map(str, range(4, 30))]
# the rivals' own warnings are theirs to mend
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def missing(package):
    return importlib.util.find_spec(package) is None


needs_hf = pytest.mark.skipif(missing("transformers"), reason="transformers is not installed (make bench has it)")
needs_ctranslate2 = pytest.mark.skipif(
    missing("ctranslate2"), reason="ctranslate2 is not installed (make bench has it)"
)


@pytest.fixture(scope="module")
def rival_weights():
    spec = importlib.util.spec_from_file_location("rival_weights", SCRIPTS / "rival_weights.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def odd_model(tiny_config, perturb):
    """A model of so many kinds; where its tables differ, so do its vocabularies."""

    def make(**settings):
        torch.manual_seed(3)
        config = tiny_config(num_decoder_layers=1, **settings)
        return perturb(Transformer(config, 30, 30 if config.tie_embeddings == "all" else 25)).eval()

    return make


SRC = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])
TGT_IN = torch.tensor([[1, 4, 5, 6], [1, 7, 8, 9]])
TGT_OUT = torch.tensor([[4, 5, 6, 2], [7, 8, 9, 2]])

KINDS = [
    {"norm_placement": "post", "tie_embeddings": "all"},
    {"norm_placement": "post", "tie_embeddings": "decoder", "positions": "learned"},
    {"norm_placement": "post", "tie_embeddings": "none", "activation": "gelu"},
    {"norm_placement": "pre", "tie_embeddings": "all"},
    {"norm_placement": "pre", "tie_embeddings": "all", "positions": "learned", "activation": "gelu"},
]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))


@needs_hf
@kinds
def test_hf_gives_the_logits_of_the_model_it_was_made_from(kind, odd_model, rival_weights):
    model = odd_model(**kind)
    other = rival_weights.to_hf(model, 40)
    with torch.inference_mode():
        ours = model(SRC, TGT_IN, SRC != 0)
        theirs = other(input_ids=SRC, attention_mask=(SRC != 0).long(), decoder_input_ids=TGT_IN).logits
    torch.testing.assert_close(theirs[..., 2:], ours[..., 2:], atol=1e-5, rtol=0)
    assert torch.isinf(theirs[..., :2]).all()  # PAD and BOS are never chosen


@needs_hf
def test_hf_says_that_it_has_no_pre_norm_with_untied_embeddings(odd_model, rival_weights):
    with pytest.raises(rival_weights.UnsupportedError, match="only where all embeddings are tied"):
        rival_weights.to_hf(odd_model(norm_placement="pre", tie_embeddings="none"), 40)


@needs_ctranslate2
@pytest.mark.parametrize(
    "kind",
    [*KINDS, {"norm_placement": "pre", "tie_embeddings": "none"}],
    ids=lambda kind: "-".join(kind.values()),
)
def test_ctranslate2_scores_a_translation_as_the_model_it_was_made_from(kind, odd_model, rival_weights, tmp_path):
    import ctranslate2

    model = odd_model(**kind)
    rival_weights.save_for_ctranslate2(model, 40, NAMES, tmp_path)
    other = ctranslate2.Translator(str(tmp_path), compute_type="float32", intra_threads=1)
    with torch.inference_mode():
        choosable = model(SRC, TGT_IN, SRC != 0)[..., 2:]  # all but PAD and BOS
        ours = choosable.log_softmax(-1).gather(2, TGT_OUT.unsqueeze(2) - 2).squeeze(2)
    scored = other.score_batch(
        [[NAMES[index] for index in row if index] for row in SRC.tolist()],
        [[NAMES[index] for index in row[1:]] for row in TGT_IN.tolist()],
    )
    torch.testing.assert_close(torch.tensor([each.log_probs for each in scored]), ours, atol=1e-5, rtol=0)


@pytest.mark.parametrize("widths", [{"d_v": 16}, {"d_k": 16, "d_v": 16}], ids=["values", "keys-and-values"])
def test_heads_wider_than_their_share_are_refused(widths, odd_model, rival_weights, tmp_path):
    model = odd_model(**widths)
    with pytest.raises(rival_weights.UnsupportedError, match="d_model / num_heads"):
        rival_weights.to_hf(model, 40)
    with pytest.raises(rival_weights.UnsupportedError, match="d_model / num_heads"):
        rival_weights.save_for_ctranslate2(model, 40, NAMES, tmp_path)


@pytest.fixture(scope="module")
def bench(trained, harbour):
    """Runs the script on the trained model, in a process of its own."""

    def call(*options):
        command = [sys.executable, SCRIPTS / "bench_decoding.py", "--model", trained, "--input", harbour / "test.en"]
        command += ["--rounds", "2", "--seconds", "0.01", "--threads", "1", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    return call


def test_json_alone_is_on_stdout_and_says_pace_spread_and_memory_of_each_beam(bench):
    done = bench("--beam", "1", "3", "--rivals", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert list(result["beams"]) == ["1", "3"]
    assert {"model", "lines", "device", "threads", "machine"} <= set(result)
    for found in result["beams"].values():
        ours = found["tformer"]
        low, high = ours["spread"]
        assert 0 < low <= ours["sentences_per_second"] <= high
        assert ours["pieces_per_second"] > ours["sentences_per_second"]
        assert ours["peak_mb"] is None or ours["peak_mb"] > 50
        assert found["rivals"] == found["ratio"] == found["same_output"] == {}


@pytest.mark.parametrize(("rival", "package"), [("hf", "transformers"), ("ctranslate2", "ctranslate2")])
def test_a_rival_is_measured_beside_tformer_or_left_out_in_one_line(bench, rival, package):
    done = bench("--beam", "1", "--rivals", rival, "--batch-sizes", "8", "32", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["beams"]["1"]
    if missing(package):
        assert f"{rival} left out: {package} is not installed\n" in done.stderr
        assert found["rivals"] == {}
        return
    ours, theirs = found["tformer"], found["rivals"][rival]
    assert found["same_output"] == {rival: 1.0}
    assert found["ratio"][rival] == pytest.approx(ours["sentences_per_second"] / theirs["sentences_per_second"])
    assert theirs["batch_size"] in (8, 32)
    # as the translations are the same, so are the pieces that are counted
    ours, theirs = (each["pieces_per_second"] / each["sentences_per_second"] for each in (ours, theirs))
    assert ours == pytest.approx(theirs)


def test_blank_and_overlong_lines_are_left_out_and_the_rest_repeated_for_the_command(bench, harbour, tmp_path):
    lines = [*(harbour / "test.en").read_text(encoding="utf-8").splitlines()[:5], "", "the " * 2000]
    (tmp_path / "odd.en").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = bench("--input", tmp_path / "odd.en", "--rivals", "--beam", "1", "--rounds", "1", "--lines", "12")
    assert done.stderr.startswith("2 lines left out: ")
    assert ", 5 lines, cpu, 1 threads\n" in done.stdout
    assert re.search(r"^beam 1 .*\ntformer +[0-9.,]+ \([0-9.,]+ to [0-9.,]+\) ", done.stdout, re.MULTILINE)
    assert re.search(r"^tformer translate .* 12 lines in [0-9.]+ s, [0-9.]+ s of it", done.stdout, re.MULTILINE)


def test_a_model_that_is_not_there_is_one_message_and_exit_code_2(bench, tmp_path):
    done = bench("--model", tmp_path / "nowhere")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "nowhere") in done.stderr
