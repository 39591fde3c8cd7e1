"""`tformer report` on real runs, and TensorBoard's event files: what is shown is what the run has written."""

import json
import re
import shutil
from html import unescape

import pytest

from tformer.errors import ConfigError
from tformer.training import events
from tformer.training.lock import holder, only_one


@pytest.fixture
def text_of():
    """The words of a page, without its markup, style and script, and the data that its script draws."""

    def read(path):
        page = path.read_text(encoding="utf-8")
        [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
        body = re.sub(r"<script.*?</script>", "", page.partition("<body>")[2], flags=re.DOTALL)
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", body))), json.loads(data)

    return read


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the trained model, to be spoilt."""
    return shutil.copytree(trained, tmp_path / "runs" / "copied", symlinks=True)


def test_a_report_has_what_the_run_and_its_model_show(tformer, trained, tmp_path, text_of):
    page = tmp_path / "page.html"
    result = tformer("report", "--model", trained, "--output", page)
    assert (result.code, result.out) == (0, f"{page}\n")
    text, data = text_of(page)
    evaluated = json.loads(tformer("eval", "--model", trained, "--json").out)
    for part in (f"{evaluated['bleu']:.2f}", evaluated["signature"], f"{evaluated['perplexity']:.2f}", "beam 4"):
        assert part in text
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    last = [line for line in lines if line["split"] == "validation"][-1]
    for source, reference, _ in last["samples"]:
        assert source in text
        assert reference in text
    assert "140 of at most 140 steps, finished" in text
    titles = ["Loss and NLL", "Perplexity", "BLEU and chrF", "Learning rate", "Speed"]
    assert [chart["title"] for chart in data["charts"]] == titles
    loss = data["charts"][0]["series"][0]["points"]
    assert [point[2] for point in loss] == [line["loss"] for line in lines if line["split"] == "train"]
    facts = json.loads((trained / "corpus.json").read_text(encoding="utf-8"))
    sizes = {source["split"]: source["pairs_read"] for source in facts["sources"]}
    assert sum(facts["lengths"]["source"]) == sum(facts["lengths"]["target"]) <= sizes["train"]
    assert sizes.keys() == {"train", "validation", "test"}


def test_two_models_are_compared(tformer, trained, copied, tmp_path, text_of):
    page = tmp_path / "page.html"
    assert tformer("report", "--model", copied, "--compare", trained, "--output", page).code == 0
    text, data = text_of(page)
    assert data["runs"] == ["model", "copied"]
    assert "copied beside model" in text
    assert " 1.0000 " in text  # the same model twice: chance explains all


def test_a_run_that_goes_on_is_shown_as_far_as_it_has_come(tformer, copied, tmp_path, text_of, monkeypatch):
    shutil.rmtree(copied / "checkpoints")
    for name in ("averaged", "best", "last"):
        path = copied / name
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
    content = (copied / "metrics.jsonl").read_bytes()
    (copied / "metrics.jsonl").write_bytes(content[: len(content) // 2])
    monkeypatch.chdir(tmp_path)
    with only_one(copied):
        result = tformer("report")
    assert (result.code, result.out) == (0, "report.html\n")
    text, _ = text_of(tmp_path / "report.html")
    assert re.search(r"\d+ of at most 140 steps, going on \(process \d+ on ", text)
    assert "There is no checkpoint yet" in text


def test_a_test_set_that_cannot_be_read_is_told_of(tformer, copied, tmp_path, text_of):
    config = copied / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("test.en", "gone.en"), encoding="utf-8")
    result = tformer("report", "--model", copied, "--output", tmp_path / "page.html")
    assert result.code == 0
    text, data = text_of(tmp_path / "page.html")
    assert "The test set was not translated:" in text
    assert "gone.en" in text
    assert len(data["charts"]) == 5


def test_training_text_that_is_gone_costs_the_words_alone(tformer, copied, tmp_path, text_of):
    config = copied / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("train.en", "gone.en"), encoding="utf-8")
    assert tformer("report", "--model", copied, "--output", tmp_path / "page.html").code == 0
    text, _ = text_of(tmp_path / "page.html")
    assert "The training corpus, whose words would be counted, cannot be read:" in text
    assert "By the length of the source" in text


@pytest.mark.parametrize("options", [["--model", "nowhere"], ["--compare", "nowhere"], ["--output", "no/such/x.html"]])
def test_what_is_not_there_is_named(tformer, trained, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    model = [] if "--model" in options else ["--model", trained]
    result = tformer("report", *model, *options)
    assert (result.code, result.out) == (2, "")
    assert options[1].partition("/")[0] in result.err
    assert not list(tmp_path.glob("*.html"))


def test_without_any_run_there_is_no_report(tformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tformer("report")
    assert (result.code, result.out) == (2, "")
    assert f"no run in {tmp_path / 'runs'}; begin one (tformer train), or name its folder" in result.err


def test_a_lock_tells_who_trains(tmp_path):
    assert holder(tmp_path) is None
    with only_one(tmp_path):
        assert holder(tmp_path).startswith("process ")
    assert holder(tmp_path) is None
    (tmp_path / "train.lock").write_text("process 1 on elsewhere", encoding="utf-8")  # left by a killed one
    assert holder(tmp_path) is None


# ---- TensorBoard ----


def test_event_files_say_what_the_metrics_say(train, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = tmp_path / "model"
    assert train(folder, training__tensorboard=True, training__max_steps=6).code == 0
    assert train(folder, "--resume", training__tensorboard=True, training__max_steps=12).code == 0
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    found = accumulator.EventAccumulator(str(folder / events.EVENTS))
    found.Reload()
    for name in ("loss", "nll", "learning_rate", "tokens_per_second"):
        events_of_name = [(event.step, event.value) for event in found.Scalars(f"train/{name}")]
        expected = [(line["step"], pytest.approx(line[name])) for line in lines if line["split"] == "train"]
        assert events_of_name == expected
    scores = [(event.step, event.value) for event in found.Scalars("validation/perplexity")]
    last = [line for line in lines if line["split"] == "validation" and line["weights"] == "last"]
    assert scores[-1] == (12, pytest.approx(last[-1]["perplexity"]))


def test_without_the_package_one_message_says_what_to_install(train, tmp_path, monkeypatch):
    monkeypatch.setattr(events, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'tformer\[tensorboard\]'"):
        events.check_tensorboard()
    result = train(tmp_path / "model", training__tensorboard=True)
    assert (result.code, result.out) == (2, "")
    assert "tformer: training.tensorboard: expected the package tensorboard" in result.err
    assert not (tmp_path / "model").exists()
    assert train(tmp_path / "other").code == 0
    assert not (tmp_path / "other" / events.EVENTS).exists()
