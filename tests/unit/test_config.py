import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from tformer.config import (
    Config,
    DataConfig,
    FilePair,
    FromTrain,
    HubSplit,
    JsonlFile,
    ModelConfig,
    ParquetFile,
    TsvFile,
    differences,
    dump_config,
    load_config,
    shipped_config,
)
from tformer.errors import ConfigError

BASE = shipped_config("base")
assert BASE is not None
SHIPPED = {path.relative_to(BASE.parent).as_posix(): path for path in BASE.parent.rglob("*.yaml")}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, text):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return name


def faults(path=None, overrides=()):
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value).splitlines()


# ---- Shipped configs ----


def test_base_yaml_holds_the_schema_defaults():
    assert load_config() == load_config("base.yaml") == load_config("base") == Config()


def test_base_yaml_explains_every_setting():
    settings = YAML().load(BASE)
    lines = BASE.read_text(encoding="utf-8").splitlines()
    sections = {name: part for name, part in Config() if hasattr(part, "model_dump")}
    assert list(settings) == list(Config.model_fields)
    assert all(list(settings[name]) == list(type(part).model_fields) for name, part in sections.items())
    keys = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert [line for line in keys if " # " not in line] == [f"{name}:" for name in sections]


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_shipped_configs_load_by_path_and_name(name):
    assert load_config(SHIPPED[name]) == load_config(name) == load_config(name.removesuffix(".yaml"))
    assert shipped_config(name) == SHIPPED[name]


def test_paper_base_is_the_paper():
    config = load_config("paper/base")
    model, training, decoding = config.model, config.training, config.decoding
    assert (model.d_model, model.d_ff, model.num_heads, model.head_key_width, model.head_value_width) == (
        512,
        2048,
        8,
        64,
        64,
    )
    assert (model.num_encoder_layers, model.num_decoder_layers, model.dropout) == (6, 6, 0.1)
    assert (training.max_steps, training.warmup_steps, training.label_smoothing) == (100_000, 4000, 0.1)
    assert (training.adam_beta_1, training.adam_beta_2, training.adam_epsilon) == (0.9, 0.98, 1e-9)
    assert (training.schedule, training.learning_rate, training.average_last) == ("paper", None, 5)
    assert (decoding.beam_size, decoding.length_penalty, decoding.max_extra_tokens) == (4, 0.6, 50)
    assert config.tokenizer.vocab_size == 37_000
    assert config.data.train == HubSplit(hub="wmt14", name="de-en", split="train")


def test_paper_big_is_the_paper():
    config = load_config("paper/big")
    assert (config.model.d_model, config.model.d_ff, config.model.num_heads, config.model.dropout) == (
        1024,
        4096,
        16,
        0.3,
    )
    assert (config.training.max_steps, config.training.average_last, config.training.warmup_steps) == (
        300_000,
        20,
        4000,
    )


@pytest.mark.parametrize(
    ("name", "changes"),
    {
        "A-heads-1": {"num_heads": 1},
        "A-heads-4": {"num_heads": 4},
        "A-heads-16": {"num_heads": 16},
        "A-heads-32": {"num_heads": 32},
        "B-d_k-16": {"d_k": 16},
        "B-d_k-32": {"d_k": 32},
        "C-layers-2": {"num_encoder_layers": 2, "num_decoder_layers": 2},
        "C-layers-4": {"num_encoder_layers": 4, "num_decoder_layers": 4},
        "C-layers-8": {"num_encoder_layers": 8, "num_decoder_layers": 8},
        "C-d_model-256": {"d_model": 256},
        "C-d_model-1024": {"d_model": 1024},
        "C-d_ff-1024": {"d_ff": 1024},
        "C-d_ff-4096": {"d_ff": 4096},
        "D-dropout-0": {"dropout": 0},
        "D-dropout-0.2": {"dropout": 0.2},
        "D-label-smoothing-0": {"label_smoothing": 0},
        "D-label-smoothing-0.2": {"label_smoothing": 0.2},
        "E-learned-positions": {"positions": "learned"},
    }.items(),
)
def test_table_3_rows_differ_from_the_base_in_one_thing(name, changes):
    row, base = load_config(f"paper/table3-{name}").model_dump(), load_config("paper/base").model_dump()
    section = "training" if "label_smoothing" in changes else "model"
    base["training"]["average_last"] = 1
    base[section] |= changes
    assert row == base


def test_no_table_3_row_is_untested():
    assert sum(name.startswith("paper/table3-") for name in SHIPPED) == 18 + 2  # and the rows base and big


def test_shipped_config_finds_nothing_outside_its_folder():
    assert shipped_config("../pyproject.toml") is None
    assert shipped_config(str(BASE)) is None


# ---- What overrides what ----


def test_settings_come_from_defaults_then_extends_then_file_then_set(here):
    write("a.yaml", "seed: 2\nmodel: {dropout: 0.2, d_ff: 100}\ntraining: {max_steps: 7}\n")
    write("b.yaml", "extends: a.yaml\nmodel: {dropout: 0.3}\n")
    config = load_config("b.yaml", ["training.max_steps=8", "training.max_steps=9"])
    assert (config.seed, config.model.d_ff, config.model.dropout, config.training.max_steps) == (2, 100, 0.3, 9)
    assert config.model.num_heads == ModelConfig().num_heads


def test_extends_is_relative_to_its_file_before_it_is_a_shipped_name(here):
    write("sub/near.yaml", "seed: 5\n")
    write("sub/a.yaml", "extends: near.yaml\n")
    write("sub/b.yaml", "extends: paper/base\n")
    assert load_config("sub/a.yaml").seed == 5
    assert load_config("sub/b.yaml").model.d_model == 512


def test_a_path_goes_before_a_shipped_name_which_a_copy_can_extend(here):
    write("base.yaml", "extends: base.yaml\nseed: 6\n")
    assert load_config("base.yaml").seed == 6


def test_extends_in_a_circle_is_refused(here):
    write("a.yaml", "extends: b.yaml\n")
    write("b.yaml", "seed: 1\nextends: a.yaml\n")
    assert faults("a.yaml") == [
        f"b.yaml:2: {here}/a.yaml extends {here}/b.yaml extends {here}/a.yaml, a circle; take one extends out"
    ]


def test_extends_of_itself_is_a_circle(here):
    write("mine.yaml", "extends: mine.yaml\n")
    assert "a circle" in faults("mine.yaml")[0]


@pytest.mark.parametrize("value", ["", "[a.yaml]", "{a: b}"])
def test_extends_takes_one_path(here, value):
    write("a.yaml", f"extends: {value}\n")
    assert faults("a.yaml") == ["a.yaml:1: extends must be the path of one config, or the name of a shipped one"]


def test_sources_replace_each_other_whole(here):
    write("a.yaml", "data: {train: {source: a, target: b}}\n")
    write("b.yaml", "extends: a.yaml\ndata: {train: {tsv: c}}\n")
    assert load_config("b.yaml").data.train == TsvFile(tsv=here / "c")
    assert load_config("b.yaml", ["data.train=toy"]).data.train == "toy"


def test_set_of_a_mapping_replaces_a_section_whole(here):
    write("a.yaml", "model: {dropout: 0.3, d_ff: 100}\n")
    assert load_config("a.yaml", ["model={d_ff: 64}"]).model == ModelConfig(d_ff=64)


def test_set_reaches_into_a_source(here):
    write("a.yaml", "data: {train: {hub: x, split: train}}\n")
    assert load_config("a.yaml", ["data.train.split=dev"]).data.train == HubSplit(hub="x", split="dev")
    overrides = ["data.train.source=a", "data.train.target=b"]
    assert load_config(None, overrides).data.train == FilePair(source=here / "a", target=here / "b")


def test_set_reads_yaml(here):
    config = load_config(
        None, ["data.target_lang=no", "model.d_k=", "training.clip_norm=1e-1", "data.source_lang='a=b'"]
    )
    assert (config.data.target_lang, config.data.source_lang) == ("no", "a=b")
    assert (config.model.d_k, config.training.clip_norm) == (None, 0.1)


@pytest.mark.parametrize("override", ["model.dropout", "=3", "model.=3", ".dropout=3", "model..dropout=3", ""])
def test_set_without_key_or_value_is_refused(override):
    assert faults(None, [override]) == [f"--set {override}: expected section.key=value, as in training.max_steps=100"]


def test_a_section_with_all_lines_commented_out_is_empty(here):
    write("a.yaml", "model:\n#  dropout: 0.3\ntraining:\n  max_steps: 3\n")
    assert load_config("a.yaml").model == ModelConfig()


# ---- Paths ----


def test_paths_start_at_the_config_that_wrote_them(here):
    write("deep/a.yaml", "data: {train: {jsonl: ../a.jsonl}, test: {parquet: t.parquet}}\n")
    write("b.yaml", "extends: deep/a.yaml\ndata: {validation: {tsv: v.tsv}}\n")
    data = load_config("b.yaml").data
    assert data.train == JsonlFile(jsonl=here / "a.jsonl")
    assert data.test == ParquetFile(parquet=here / "deep/t.parquet")
    assert data.validation == TsvFile(tsv=here / "v.tsv")


def test_files_start_in_the_data_folder(here):
    write("deep/a.yaml", "data: {folder: corpus, train: {source: a.en, target: /b.de}}\n")
    data = load_config("deep/a.yaml").data
    assert (data.folder, data.train) == (
        here / "deep/corpus",
        FilePair(source=here / "deep/corpus/a.en", target=Path("/b.de")),
    )


def test_set_moves_all_splits_from_the_current_folder(here):
    write("deep/a.yaml", "data: {folder: corpus, train: {tsv: a.tsv}, test: {tsv: t.tsv}}\n")
    data = load_config("deep/a.yaml", ["data.folder=mine", "data.test={tsv: near.tsv}"]).data
    assert (data.folder, data.train, data.test) == (
        here / "mine",
        TsvFile(tsv=here / "mine/a.tsv"),
        TsvFile(tsv=here / "near.tsv"),
    )


def test_each_fault_is_one_line_whatever_is_in_it():
    assert faults(None, ["se\u2028ed=\n1"]) == [
        "--set se\\u2028ed=\\n1: se\\u2028ed is not a setting; did you mean seed?"
    ]


def test_a_list_of_sources_keeps_its_order_and_its_paths(here):
    path = write(
        here / "sub" / "mine.yaml",
        """
        data:
          folder: corpora
          train:
            - {tsv: a.tsv, weight: 2}
            - {source: [b.en, c.en], target: [b.fr, c.fr]}
            - hub: some/set
              split: train
              streaming: true
          validation: {from_train: 0.02}
          test: {from_train: 100}
        """,
    )
    data, folder = load_config(path).data, here / "sub" / "corpora"
    tsv, files, hub = data.sources("train")
    assert tsv == TsvFile(tsv=folder / "a.tsv", weight=2)
    assert files.pairs == [(folder / "b.en", folder / "b.fr"), (folder / "c.en", folder / "c.fr")]
    assert hub == HubSplit(hub="some/set", split="train", streaming=True)
    assert (data.validation, data.test) == (FromTrain(from_train=0.02), FromTrain(from_train=100))
    assert data.sources("validation") == data.sources("test") == []
    copy = write(here / "copy.yaml", dump_config(load_config(path)))
    assert load_config(copy) == load_config(path)


def test_faults_inside_a_list_of_sources_name_their_lines(here):
    path = write(here / "mine.yaml", "data:\n  train:\n    - tsv: a.tsv\n    - tvs: b.tsv\n")
    assert faults(path) == [f"{path}:4: data.train.1.tvs is not a setting; did you mean data.train.tsv?"]


def test_as_many_files_on_both_sides(here):
    path = write(here / "mine.yaml", "data:\n  train: {source: [a, b], target: [c]}\n")
    assert faults(path) == [f"{path}:2: data.train must name as many source as target files, got 2 and 1"]


def test_columns_are_numbers_or_names_not_both():
    assert faults(None, ["data.train={tsv: /a, source_field: en}"]) == [
        "--set data.train={tsv: /a, source_field: en}: data.train must have both fields as numbers, or both as names"
    ]


def test_what_is_split_off_leaves_something():
    settings = [f"data.{split}={{from_train: 0.5}}" for split in ("validation", "test")]
    assert faults(None, ["data.train={tsv: /a}", *settings]) == [
        f"--set {settings[1]}: data.validation and data.test must leave something of data.train"
    ]


def test_one_matrix_for_all_needs_one_vocabulary():
    [fault] = faults(None, ["tokenizer.shared=false"])
    assert fault.endswith("model.tie_embeddings must be decoder or none where tokenizer.shared is false, got all")
    load_config(None, ["tokenizer.shared=false", "model.tie_embeddings=decoder"])


def test_a_tilde_is_the_home_folder(here, monkeypatch):
    monkeypatch.setenv("HOME", str(here / "home"))
    write("a.yaml", "data: {folder: ~/corpus}\n")
    assert load_config("a.yaml").data.folder == here / "home/corpus"


def test_toy_beside_another_corpus_means_none(here):
    write("a.yaml", "data: {train: {tsv: a.tsv}, test: toy}\n")
    data = load_config("a.yaml").data
    assert (data.validation, data.test) == (None, None)
    assert load_config(None, ["data.test=null"]).data == DataConfig(test=None)
    assert DataConfig(train=TsvFile(tsv=here)).validation is None


# ---- YAML ----


def test_no_is_norwegian(here):
    write("a.yaml", "data: {source_lang: on, target_lang: no}\n")
    data = load_config("a.yaml").data
    assert (data.source_lang, data.target_lang) == ("on", "no")


def test_a_date_is_text(here):
    write("a.yaml", "data: {train: {hub: crawl, split: 2030-01-01}}\n")
    assert load_config("a.yaml").data.train == HubSplit(hub="crawl", split="2030-01-01")


def test_numbers_are_read_as_yaml_1_2_does(here):
    write(
        "a.yaml",
        "training: {adam_epsilon: 1E-9, learning_rate: 1e-4, max_tokens_per_batch: 1_000, label_smoothing: .5}\n",
    )
    write("b.yaml", "extends: a.yaml\ntraining: {patience: 010, max_steps: 2e1, clip_norm: 1e5, warmup_steps: 5.0}\n")
    training = load_config("b.yaml").training
    assert (training.adam_epsilon, training.learning_rate, training.clip_norm) == (1e-9, 1e-4, 1e5)
    assert (training.max_tokens_per_batch, training.label_smoothing, training.patience) == (1000, 0.5, 10)
    assert (training.max_steps, training.warmup_steps) == (20, 5)
    assert isinstance(training.max_steps, int)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data:\n\tsource_lang: en\n", "2:1: a tab cannot indent a line; use spaces"),
        ("seed: 1\n...\nthreads: 2\n", "3:1: a second document starts here; take out the '...' or '---' above it"),
        ("", "1:1: the file is empty; expected settings, `key: value`, as in base.yaml"),
        ("# nothing but this\n", "1:1: the file is empty; expected settings, `key: value`, as in base.yaml"),
        ("- a\n- list\n", "1:1: expected settings, `key: value`, as in base.yaml; got a list"),
        ("\nword\n", "2:1: expected settings, `key: value`, as in base.yaml; got a single value"),
        ("seed: a: b\n", "1:8: not YAML: mapping values are not allowed here"),
        ("seed: 1\nthreads: \x01\n", "2:10: a character that cannot be printed; take it out"),
        (
            "seed: 1\ndevice: cpu\nseed: 2\n",
            "3: seed is given twice: first on line 1, again in column 1; keep one of them",
        ),
        (
            "model: {d_ff: 2,\n d_ff: 3}\n",
            "2: model.d_ff is given twice: first on line 1, again in column 2; keep one of them",
        ),
        ("model.d_ff: 3\n", "1: model.d_ff cannot be a key; a key is one name, and further names go one level deeper"),
        ("seed: !secret 3\n", "1: seed has a value that YAML does not define, '3'; put text in quotes"),
        ("seed: -_\n", "1: seed has a value that YAML does not define, '-_'; put text in quotes"),
        ("model: &m {d_ff: *m}\n", "1: model.d_ff.d_ff is not a setting; model.d_ff takes a single value"),
    ],
)
def test_odd_yaml_is_named_with_its_place(here, text, message):
    write("odd.yaml", text)
    assert faults("odd.yaml")[0] == f"odd.yaml:{message}"


@pytest.mark.parametrize("opening", ["[", "{tsv: ", "- ", "? "])
def test_depth_without_end_is_refused(here, opening):
    too_deep = "hundreds of levels deep; no setting is deeper than data.train.0.source.0"
    write("deep.yaml", f"data:\n  {opening * 2000}")
    assert faults("deep.yaml") == [f"deep.yaml: {too_deep}"]
    setting = f"data={opening * 2000}".strip()
    assert faults(None, [setting]) == [f"--set {setting}: {too_deep}"]


def test_a_file_in_another_encoding_is_named(here):
    Path("latin.yaml").write_bytes("# café\n".encode("latin-1"))
    assert faults("latin.yaml") == ["latin.yaml: expected UTF-8 text, byte 5 is none; save it as UTF-8"]


def test_a_byte_order_mark_and_windows_line_ends_are_read(here):
    Path("dos.yaml").write_bytes(b"\xef\xbb\xbfseed: 3\r\nmodel:\r\n  d_ff: 64\r\n")
    assert load_config("dos.yaml") == Config(seed=3, model=ModelConfig(d_ff=64))


# ---- Faults ----


def test_all_faults_are_reported_at_once_in_the_order_of_the_sources(here):
    write("parent.yaml", "model: {heads: 4}\nmax_steps: 5\n")
    write("child.yaml", "extends: parent.yaml\ntraining:\n  warmup_step: 60\n  max_steps: 1.5\nmodel: {dropout: abc}\n")
    assert faults("child.yaml", ["model.droput=0", "threads=0"]) == [
        "parent.yaml:1: model.heads is not a setting; did you mean model.num_heads?",
        "parent.yaml:2: max_steps is not a setting; did you mean training.max_steps?",
        "child.yaml:3: training.warmup_step is not a setting; did you mean training.warmup_steps?",
        "child.yaml:4: training.max_steps must be a whole number of at least 1, got 1.5",
        "child.yaml:5: model.dropout must be a number from 0 to below 1, got 'abc'",
        "--set model.droput=0: model.droput is not a setting; did you mean model.dropout?",
        "--set threads=0: threads must be auto or a whole number of at least 1, got 0",
    ]


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("model.warmup_steps", "did you mean training.warmup_steps?"),
        ("training.seed", "did you mean seed?"),
        ("data.src_lang", "did you mean data.source_lang?"),
        ("training.adam_eps", "did you mean training.adam_epsilon?"),
        ("training.batch_tokens", "did you mean training.max_tokens_per_batch?"),
        ("modle", "did you mean model?"),
        ("modle.d_ff", "did you mean model?"),
        ("data.train.sorce", "did you mean data.train.source?"),
        (
            "decoding.zzz",
            "there are decoding.beam_size, decoding.length_penalty, decoding.max_extra_tokens, decoding.max_length, "
            "decoding.no_repeat_ngram",
        ),
        ("seed.value", "seed takes a single value"),
    ],
)
def test_unknown_settings_get_the_nearest_name(key, advice):
    unknown = "modle" if key.startswith("modle") else key
    assert faults(None, [f"{key}=1"]) == [f"--set {key}=1: {unknown} is not a setting; {advice}"]


FORMS = (
    "toy, {source: FILE, target: FILE}, {tsv: FILE}, {jsonl: FILE}, {parquet: FILE}, {tmx: FILE} or "
    "{hub: NAME, split: SPLIT}"
)
SHAPES = f"{FORMS}, or a list of such sources"
HELD_OUT = f"{FORMS}, a list of such sources, {{from_train: NUMBER or SHARE}}, or null"
COUNT = "a whole number of at least 1"
TEXT = "text, in quotes where it looks like something else"


@pytest.mark.parametrize(
    ("override", "expected", "got"),
    [
        ("seed=-1", "a whole number from 0 to below 2^63", "-1"),
        ("seed=9223372036854775808", "a whole number from 0 to below 2^63", "9223372036854775808"),
        ("seed=true", "a whole number from 0 to below 2^63", "true"),
        ("device=gpu", "auto, cpu, cuda, cuda:N or mps", "'gpu'"),
        ("device=cuda:x", "auto, cpu, cuda, cuda:N or mps", "'cuda:x'"),
        ("precision=fp16", "auto or fp32 or bf16", "'fp16'"),
        ("data.source_lang=5", TEXT, "5"),
        ("data.source_lang=", TEXT, "null"),
        ("data.folder=3", "the path of a folder or null", "3"),
        ("data.train=train.en", SHAPES, "'train.en'"),
        ("data.train=null", SHAPES, "null"),
        ("data.train={source: /a}", SHAPES, "{source: /a}"),
        ("data.train={source: /a, target: 3}", SHAPES, "{source: /a, target: 3}"),
        ("data.train={tsv: /a, jsonl: /b}", SHAPES, "{tsv: /a, jsonl: /b}"),
        ("data.train={tsv: ''}", SHAPES, "{tsv: ''}"),
        ("data.train=[]", SHAPES, "a list"),
        ("data.train=[{tsv: /a}, toy]", SHAPES, "[{tsv: /a}, 'toy']"),
        ("data.train={tsv: /a, weight: 0}", SHAPES, "{tsv: /a, weight: 0}"),
        ("data.train={from_train: 5}", SHAPES, "{from_train: 5}"),
        ("data.validation={from_train: 0}", HELD_OUT, "{from_train: 0}"),
        ("data.validation={from_train: 1.5}", HELD_OUT, "{from_train: 1.5}"),
        ("data.test={}", HELD_OUT, "{}"),
        ("data.test={hub: 3, split: a}", HELD_OUT, "{hub: 3, split: 'a'}"),
        ("data.max_length=0", COUNT, "0"),
        ("tokenizer.vocab_size='1000'", COUNT, "'1000'"),
        ("tokenizer.byte_fallback=1", "true or false", "1"),
        ("tokenizer.byte_fallback=yes", "true or false", "'yes'"),
        ("model.d_model=null", COUNT, "null"),
        ("model.d_k=0", f"{COUNT} or null", "0"),
        ("model.dropout=1", "a number from 0 to below 1", "1"),
        ("model.dropout=-0.1", "a number from 0 to below 1", "-0.1"),
        ("model.dropout=.nan", "a number from 0 to below 1", "nan"),
        ("model.norm_placement=before", "post or pre", "'before'"),
        ("training.max_minutes=0", "a number above 0 or null", "0"),
        ("training.max_minutes=.inf", "a number above 0 or null", "inf"),
        ("training.adam_beta_2=1.0", "a number from 0 to below 1", "1.0"),
        ("training.label_smoothing=false", "a number from 0 to below 1", "false"),
        ("training.max_steps=[1]", COUNT, "a list"),
        ("decoding.beam_size=1.5", COUNT, "1.5"),
        ("decoding.length_penalty=-1", "a number of at least 0", "-1"),
        ("decoding.max_extra_tokens=-1", "a whole number of at least 0", "-1"),
        ("model=3", "a mapping of settings", "3"),
    ],
)
def test_impossible_values_say_what_was_expected(override, expected, got):
    key = override.partition("=")[0]
    assert faults(None, [override]) == [f"--set {override}: {key} must be {expected}, got {got}"]


def test_bounds_themselves_are_allowed():
    overrides = [
        "model.dropout=0",
        "seed=0",
        "seed=9223372036854775807",
        "decoding.length_penalty=0",
        "decoding.max_extra_tokens=0",
    ]
    assert load_config(None, [*overrides, "device=cuda:1"]).device == "cuda:1"


def test_settings_that_cannot_stand_together_are_reported_with_the_others(here):
    write("a.yaml", "model:\n  d_model: 33\n  num_heads: 4\n  d_ff: x\n  positions: learned\n  max_positions: 100\n")
    assert faults("a.yaml", ["training.max_steps=0"]) == [
        "a.yaml:3: model.d_model, 33, must be a multiple of model.num_heads, 4, "
        "unless model.d_k and model.d_v are both given",
        "a.yaml:4: model.d_ff must be a whole number of at least 1, got 'x'",
        "a.yaml:6: model.max_positions, 100, must not be below data.max_length, 256, where model.positions is learned",
        "--set training.max_steps=0: training.max_steps must be a whole number of at least 1, got 0",
    ]


def test_a_fault_does_not_bring_another_with_it():
    assert len(faults(None, ["model.num_heads=abc", "model.d_model=130"])) == 1
    assert len(faults(None, ["data.train={sorce: a, target: b}"])) == 1


@pytest.mark.parametrize(
    "overrides",
    [
        ["model.d_model=33", "model.positions=learned", "model.d_k=8", "model.d_v=8"],
        ["training.schedule=linear", "training.warmup_steps=400", "training.max_steps=10"],
        ["model.positions=learned", "model.max_positions=256"],
    ],
)
def test_neighbours_of_a_conflict_are_allowed(overrides):
    load_config(None, overrides)


@pytest.mark.parametrize("given", ["model.d_k=8", "model.d_v=8"])
def test_one_given_width_does_not_do_for_both(given):
    assert "must be a multiple of model.num_heads" in faults(None, ["model.d_model=30", given])[0]


def test_sinusoids_need_an_even_width():
    overrides = ["model.d_model=33", "model.d_k=8", "model.d_v=8"]
    assert faults(None, overrides) == [
        f"--set {overrides[0]}: model.d_model, 33, must be even where model.positions is sinusoidal"
    ]


def test_messages_are_our_own(here):
    write("a.yaml", "model: {droput: 1, dropout: x, d_model: 33}\ndata: {train: {tsv: 1}}\n")
    text = "\n".join(faults("a.yaml"))
    assert not [word for word in ("pydantic", "http", "Input should", "validation error") if word in text]


def test_missing_configs_are_named_in_full_with_a_near_name(here):
    write("mine.yaml", "seed: 1\nextends: bsae.yaml\n")
    assert faults("mien.yaml") == [f"{here}/mien.yaml does not exist; did you mean mine.yaml?"]
    assert faults("paper/bse") == [f"{here}/paper/bse does not exist; did you mean paper/base?"]
    assert faults("mine.yaml") == [f"mine.yaml:2: extends: {here}/bsae.yaml does not exist; did you mean base.yaml?"]
    assert faults("qqqqqq") == [
        f"{here}/qqqqqq does not exist; give the path of a config, or a name from {BASE.parent}"
    ]
    assert faults("a\u2028b") == [
        f"{here}/a\\u2028b does not exist; give the path of a config, or a name from {BASE.parent}"
    ]
    for name in ("x" * 300, "a/" * 3000 + "b"):  # longer than a file's name, or path, can be
        assert f"{name} does not exist; " in faults(name)[0]
    write("nul.yaml", 'extends: "a\\0b"\n')
    assert faults("nul.yaml")[0].startswith(f"nul.yaml:1: extends: {here}/a\\x00b does not exist; ")
    assert faults(here) == [f"{here} is a folder; name the config file in it"]
    with pytest.raises(ConfigError) as caught:
        load_config("mien.yaml")
    assert caught.value.exit_code == 2


# ---- In Python ----


def test_head_widths_follow_from_the_model_unless_given():
    assert (ModelConfig(d_model=32).head_key_width, ModelConfig(d_model=32).head_value_width) == (8, 8)
    assert (ModelConfig(d_k=5, d_v=7).head_key_width, ModelConfig(d_k=5, d_v=7).head_value_width) == (5, 7)


def test_configs_are_frozen_and_checked_in_python():
    with pytest.raises(ValidationError):
        Config().seed = 2
    with pytest.raises(ValueError, match=r"model\.d_model, 30, must be a multiple of model\.num_heads, 4"):
        ModelConfig(d_model=30)
    with pytest.raises(ValidationError):
        ModelConfig(d_modle=32)


def test_a_dumped_config_stands_on_its_own(here):
    write(
        "deep/a.yaml",
        "extends: paper/base\ndata: {folder: c, train: {source: a, target: b}, test: null, target_lang: no}\n",
    )
    config = load_config("deep/a.yaml")
    write("elsewhere/config.yaml", dump_config(config))
    assert load_config("elsewhere/config.yaml") == config


def test_a_dumped_config_keeps_the_order_of_the_schema():
    dumped = YAML().load(dump_config(Config()))
    assert list(dumped) == list(Config.model_fields)
    assert list(dumped["model"]) == list(ModelConfig.model_fields)


def test_differences_name_each_setting_that_changed():
    now = Config(seed=2, model=ModelConfig(d_k=5))
    assert differences(Config(), now) == {"model.d_k": ("null", "5"), "seed": ("1", "2")}
    assert differences(now, now) == {}


def test_importing_the_config_is_light():
    code = "import sys, tformer.config; print([name for name in ('torch', 'numpy', 'datasets') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
