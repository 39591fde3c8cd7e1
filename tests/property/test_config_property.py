import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    FilePair,
    HubSplit,
    JsonlFile,
    ModelConfig,
    ParquetFile,
    TokenizerConfig,
    TrainingConfig,
    TsvFile,
    dump_config,
    load_config,
)
from tformer.errors import ConfigError

SECTIONS = {name: type(part).model_fields for name, part in Config() if hasattr(part, "model_dump")}
KEYS = [
    *(name for name in Config.model_fields if name not in SECTIONS),
    *(f"{s}.{k}" for s, keys in SECTIONS.items() for k in keys),
]

TWINS = [  # so alike that a typo may come as near to either
    {"training.adam_beta_1", "training.adam_beta_2"},
    {"model.num_encoder_layers", "model.num_decoder_layers"},
]

counts = st.integers(1, 10**6)
fractions = st.floats(0, 1, exclude_max=True)
positives = st.floats(1e-12, 1e12)
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1) | st.sampled_from(
    ["no", "1e5", "null", "1_0", " a: #b", "2030-01-01"]
)
paths = st.text(st.sampled_from("abc é-:#'{"), min_size=1).map(lambda name: Path("/", "corpus", name))
sources = st.one_of(
    st.builds(FilePair, source=paths, target=paths),
    st.builds(TsvFile, tsv=paths),
    st.builds(JsonlFile, jsonl=paths),
    st.builds(ParquetFile, parquet=paths),
    st.builds(HubSplit, hub=words, name=st.none() | words, split=words),
)
configs = st.builds(
    Config,
    seed=st.integers(0, 2**63 - 1),
    device=st.sampled_from(["auto", "cpu", "cuda", "cuda:7", "mps"]),
    precision=st.sampled_from(["auto", "fp32", "bf16"]),
    threads=st.just("auto") | counts,
    data=st.builds(
        DataConfig,
        source_lang=words,
        target_lang=words,
        folder=st.none() | paths,
        train=st.just("toy") | sources,
        validation=st.none() | st.just("toy") | sources,
        test=st.none() | st.just("toy") | sources,
        max_length=st.integers(1, 512),
    ),
    tokenizer=st.builds(TokenizerConfig, vocab_size=counts, byte_fallback=st.booleans()),
    model=st.builds(
        lambda heads, width, **others: ModelConfig(num_heads=heads, d_model=2 * heads * width, **others),
        heads=st.integers(1, 64),
        width=st.integers(1, 64),
        d_k=st.none() | counts,
        dropout=fractions,
        positions=st.sampled_from(["sinusoidal", "learned"]),
        max_positions=st.integers(512, 9999),
    ),
    training=st.builds(
        TrainingConfig,
        max_minutes=st.none() | positives,
        learning_rate=st.none() | positives,
        adam_epsilon=positives,
        label_smoothing=fractions,
        patience=st.none() | counts,
    ),
    decoding=st.builds(DecodingConfig, length_penalty=st.floats(0, 1e9), max_length=st.none() | counts),
)
in_one_folder = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_one_folder
@given(configs)
def test_a_dumped_config_is_read_back_equal(tmp_path, config):
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config), encoding="utf-8")
    assert load_config(path) == config


@st.composite
def misspelt(draw):
    """A key, and the same with one letter lost, added or changed in its last name."""
    key = draw(st.sampled_from([key for key in KEYS if len(key.rpartition(".")[2]) > 4]))
    section, dot, name = key.rpartition(".")
    place = draw(st.integers(0, len(name) - 1))
    letter = draw(st.sampled_from(["", *string.ascii_lowercase]))
    typo = name[:place] + letter + name[place + draw(st.integers(0, 1)) :]
    assume(f"{section}{dot}{typo}" not in KEYS and typo not in SECTIONS)
    return key, f"{section}{dot}{typo}"


@settings(deadline=None, max_examples=200)
@given(misspelt())
def test_one_wrong_letter_is_refused_with_the_right_name(names):
    key, typo = names
    with pytest.raises(ConfigError) as caught:
        load_config(None, [f"{typo}=1"])
    twins = [pair for pair in TWINS if key in pair]
    wanted = twins[0] if twins else {key}
    assert (
        str(caught.value).removeprefix(f"--set {typo}=1: {typo} is not a setting; did you mean ").rstrip("?") in wanted
    )


@in_one_folder
@given(configs)
def test_set_says_the_same_as_a_file(tmp_path, config):
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config), encoding="utf-8")
    overrides = [f"{key}={'null' if value is None else value}" for key, value in config.training]
    assert load_config(None, [f"training.{override}" for override in overrides]).training == load_config(path).training
