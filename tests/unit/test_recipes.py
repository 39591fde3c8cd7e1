"""What is chosen for a corpus: settings that suit its size and the machine, in a file that reads back as meant."""

import dataclasses
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tformer.config import Config, load_config, shipped_config
from tformer.data.facts import CorpusFacts, gather_facts
from tformer.recipes import SIZES, TIERS, Setting, choose, render

NEWS = CorpusFacts(
    num_pairs=30_000,
    num_sources=29_500,
    num_duplicates=0,
    mean_characters=120,
    longest_characters=400,
    num_alphabet=150,
)
IN_EACH_TIER = [120, 1_000, 10_000, 30_000, 150_000, 1_000_000, 20_000_000]
SECTIONS = ["data", "tokenizer", "model", "training"]


def of_size(num_pairs, **facts):
    return dataclasses.replace(NEWS, num_pairs=num_pairs, num_sources=num_pairs, **facts)


def chosen(facts, device="cpu", minutes=None):
    """The whole of what a recipe amounts to, defaults included."""
    settings = {setting.key: setting.value for setting in choose(facts, device, minutes).settings}

    def get(key):
        section, name = key.split(".")
        return settings.get(key, getattr(getattr(Config(), section), name))

    return get


# ---- What is chosen ----


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_thousand_thirty_thousand_and_a_million_pairs_get_settings_of_their_own(device):
    sizes = of_size(1_000, mean_characters=40), NEWS, of_size(1_000_000)
    small, middle, large = (chosen(facts, device) for facts in sizes)
    for key in ("tokenizer.vocab_size", "training.max_tokens_per_batch", "training.warmup_steps"):
        assert small(key) < middle(key) < large(key), key
    assert small("training.max_minutes") < middle("training.max_minutes") < large("training.max_minutes")
    assert small("model.dropout") >= middle("model.dropout") >= large("model.dropout")
    assert small("model.dropout") > large("model.dropout")
    assert small("model.d_model") < middle("model.d_model") <= large("model.d_model")
    for key in ("training.validate_every_steps", "training.save_every_steps"):
        assert small(key) <= middle(key), key
        assert small(key) < large(key), key
    held_out = [choose(facts, device).held_out for facts in sizes]
    assert held_out == sorted(set(held_out))


def test_what_was_measured_on_captions_is_what_is_chosen_for_captions():
    captions = dataclasses.replace(NEWS, num_pairs=29_000, mean_characters=62, longest_characters=160)
    measured = load_config("multi30k-en-de.yaml")
    get = chosen(captions, "cpu")
    for key in (
        "d_model",
        "d_ff",
        "num_heads",
        "num_encoder_layers",
        "num_decoder_layers",
        "dropout",
        "norm_placement",
    ):
        assert get(f"model.{key}") == getattr(measured.model, key), key
    for key in ("max_tokens_per_batch", "learning_rate", "warmup_steps"):
        assert get(f"training.{key}") == getattr(measured.training, key), key
    assert get("tokenizer.vocab_size") == measured.tokenizer.vocab_size


def test_only_what_differs_from_the_base_is_said():
    base = load_config()
    for count in IN_EACH_TIER:
        for setting in choose(of_size(count), "cpu").settings:
            section, name = setting.key.split(".")
            assert setting.value != getattr(getattr(base, section), name), setting
            assert setting.reason


def test_a_model_too_slow_for_the_time_gives_way_to_a_smaller_one():
    widths = [chosen(of_size(1_000_000), "cpu", minutes)("model.d_model") for minutes in (10, 1_000, 100_000)]
    assert widths[0] < widths[-1]
    assert widths == sorted(widths)
    assert widths[0] == 128
    assert chosen(of_size(1_000_000), "cuda")("model.d_model") > chosen(of_size(1_000_000), "cpu")("model.d_model")


def test_the_minutes_that_a_person_gives_count():
    get = chosen(NEWS, "cpu", 7.5)
    assert get("training.max_minutes") == 7.5


def test_few_minutes_want_few_pieces():
    facts = of_size(140_000, mean_characters=34)
    assert chosen(facts, "cpu", 10)("tokenizer.vocab_size") == 4_000
    assert chosen(facts, "cpu", 600)("tokenizer.vocab_size") == chosen(facts, "cuda")("tokenizer.vocab_size") == 8_000
    signs = dataclasses.replace(facts, num_alphabet=9_000, spaced=False)
    assert chosen(signs, "cpu", 10)("tokenizer.vocab_size") > 9_000


def test_what_is_seen_many_times_is_seen_with_more_dropout():
    assert chosen(NEWS, "cuda")("model.dropout") > chosen(NEWS, "cpu")("model.dropout")


def test_few_pairs_bound_the_steps_and_many_leave_it_to_the_minutes():
    get = chosen(of_size(120, mean_characters=30), "cuda")
    assert get("training.max_steps") <= 1_000
    assert get("training.warmup_steps") < get("training.max_steps") / 4
    assert get("training.validate_every_steps") < get("training.max_steps")
    long = chosen(of_size(1_000_000), "cpu")
    assert long("training.max_steps") >= 5 * long("training.validate_every_steps")


def test_a_small_corpus_still_fills_several_batches_each_as_long_as_a_sentence():
    for count, characters in [(300, 36), (120, 30), (3_000, 30), (120, 400)]:
        facts = of_size(count, mean_characters=characters, longest_characters=2 * characters)
        get = chosen(facts)
        batch = get("training.max_tokens_per_batch")
        assert batch >= get("data.max_length")
        assert batch <= max(count * characters / 3 / 10, 128, get("data.max_length") * 2)


@pytest.mark.parametrize("num_alphabet", [900, 1_001, 2_500, 7_000])
def test_a_vocabulary_has_room_for_all_characters_the_bytes_and_whole_words(num_alphabet):
    get = chosen(dataclasses.replace(NEWS, num_alphabet=num_alphabet, spaced=False))
    spare = 1_000 if num_alphabet > 1_000 else 500
    assert get("tokenizer.vocab_size") >= num_alphabet + 256 + spare
    assert get("tokenizer.byte_fallback")


@pytest.mark.parametrize(("characters", "spaced", "pieces"), [
    (20, True, 64), (300, True, 128), (300, False, 224), (10**6, True, 512),
])  # fmt: skip
def test_the_longest_sentence_is_the_corpuss_own_within_bounds(characters, spaced, pieces):
    facts = dataclasses.replace(NEWS, longest_characters=characters, spaced=spaced)
    assert chosen(facts)("data.max_length") == pieces


@pytest.mark.parametrize(("num_sources", "held_out"), [
    (20, 2), (120, 12), (500, 50), (1_000, 50), (1_600, 80), (3_000, 100), (30_000, 1_000), (10**6, 2_000),
])  # fmt: skip
def test_what_is_held_out_leaves_most_to_learn_from(num_sources, held_out):
    assert choose(of_size(num_sources), "cpu").held_out == held_out


def test_duplicates_are_dropped_where_there_are_some_and_counted():
    assert not chosen(NEWS)("data.drop_duplicates")
    [setting] = [each for each in choose(dataclasses.replace(NEWS, num_duplicates=1_234), "cpu").settings
                 if each.key == "data.drop_duplicates"]  # fmt: skip
    assert setting.value is True
    assert "1,234" in setting.reason


def test_the_tables_grow_from_row_to_row():
    assert [tier.up_to for tier in TIERS] == sorted({tier.up_to for tier in TIERS})
    assert TIERS[-1].up_to == math.inf
    assert [tier.size for tier in TIERS] == sorted(tier.size for tier in TIERS)
    assert [size.d_model * size.d_ff * size.num_layers for size in SIZES] == sorted(
        size.d_model * size.d_ff * size.num_layers for size in SIZES
    )


# ---- How it is written down ----


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps"])
@pytest.mark.parametrize("num_pairs", IN_EACH_TIER)
def test_what_is_written_reads_back_as_it_was_meant(tmp_path, num_pairs, device):
    recipe = choose(of_size(num_pairs, num_duplicates=3), device)
    path = tmp_path / "mine.yaml"
    path.write_text(render(recipe.settings, ["A corpus"]), encoding="utf-8")
    config = load_config(path)
    for setting in recipe.settings:
        section, name = setting.key.split(".")
        assert getattr(getattr(config, section), name) == setting.value, setting


@pytest.mark.parametrize("num_pairs", IN_EACH_TIER)
def test_each_line_has_its_reason_beside_those_of_its_section_within_the_page(num_pairs):
    text = render(choose(of_size(num_pairs, num_alphabet=5_000, num_duplicates=77_777), "cpu").settings, ["A corpus"])
    assert all(len(line) <= 120 for line in text.splitlines())
    for section in text.split("\n\n")[1:]:
        name, *lines = section.rstrip("\n").split("\n")
        assert name[:-1] in SECTIONS
        assert all(re.fullmatch(r"  \w+: \S+ +# \S.*", line) for line in lines), section
        assert len({line.index("#") for line in lines}) == 1


def test_a_long_line_has_its_reason_above_it():
    files = {"source": "a" * 60, "target": "b" * 50}
    text = render([Setting("data.train", files, "these"), Setting("data.test", None, "none")], [])
    assert text.endswith(
        f"data:\n  # these\n  train: {{source: {'a' * 60}, target: {'b' * 50}}}\n  test: null  # none\n"
    )


def names():
    odd = st.sampled_from(
        ["no", "NO", "null", "~", "1e3", "a b", "a: b", "#x", "'", '"', "{", "[a, b]", "é.sw", "- x", "é"]
    )
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
    return st.one_of(odd, text).filter(lambda name: name.strip("/. ") and not name.startswith("~"))


@given(names(), names())
def test_whatever_a_file_is_called_its_name_comes_back(tmp_path_factory, source, target):
    folder = tmp_path_factory.mktemp("names")
    settings = [
        Setting("data.source_lang", "no", "Norwegian"),
        Setting("data.train", {"source": source, "target": target}, "the pairs"),
    ]
    (folder / "mine.yaml").write_text(render(settings, []), encoding="utf-8")
    config = load_config(folder / "mine.yaml")
    assert config.data.source_lang == "no"
    [files] = config.data.sources("train")
    assert [path.name for path in files.files] == [(folder / name).name for name in (source, target)]


def test_control_characters_in_a_name_are_escaped():
    assert r'"a\tb\u0085.en"' in render([Setting("data.train", {"tsv": "a\tb\x85.en"}, "it")], [])


def test_it_extends_the_base_that_ships():
    assert render([], ["One", "two"]) == "# One\n# two\nextends: base.yaml\n"
    assert shipped_config("base.yaml")


# ---- What a corpus is like ----


def test_facts_count_pairs_sources_duplicates_lengths_and_characters():
    rows = [(1, "aa bb", "c"), (2, "aa bb", "c"), (4, "aa bb", "dddd d"), (5, "e", "f")]
    facts = gather_facts(rows)
    assert (facts.num_pairs, facts.num_sources, facts.num_duplicates) == (4, 2, 1)
    assert facts.mean_characters == (5 + 5 + 5 + 1 + 1 + 1 + 6 + 1) / 8
    assert facts.longest_characters == 6
    assert facts.num_alphabet == len(set("aa bbcdddd def"))
    assert facts.sample == (("aa bb", "aa bb", "aa bb", "e"), ("c", "c", "dddd d", "f"))


def test_the_longest_is_that_of_all_but_one_in_a_thousand():
    rows = [(number, "a" * (900 if number < 2 else 10), "b") for number in range(3_000)]
    assert gather_facts(rows).longest_characters == 10
    assert gather_facts([*rows, *rows[:9]]).longest_characters == 900


def test_a_language_without_spaces_is_seen_as_such():
    assert gather_facts([(1, "I am a cat.", "Je suis un chat."), (2, "Go.", "Va.")]).spaced
    assert not gather_facts(
        [
            (
                1,
                "I am a cat that has no name as yet.",
                "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。",
            )
        ]
    ).spaced
