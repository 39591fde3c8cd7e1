"""What goes where: splitting off is stable and loses nothing, and each pair taken out of training is counted."""

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tformer.config import DataConfig
from tformer.data.corpus import LeftOut
from tformer.data.splits import Splits, read_split, read_splits
from tformer.errors import ConfigError, DataError


@pytest.fixture(scope="session")
def write(tmp_path_factory):
    """Writes pairs to a TSV file and gives its source."""

    def make(pairs, **settings):
        path = tmp_path_factory.mktemp("tsv") / "train.tsv"
        path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
        return {"tsv": path, **settings}

    return make


@pytest.fixture(scope="session")
def split(write):
    """Reads the splits of these pairs."""

    def make(train, **settings):
        settings = {"validation": None, "test": None, **settings}
        held = {name: write(pairs) for name, pairs in settings.items() if isinstance(pairs, list)}
        return read_splits(DataConfig.model_validate({"train": write(train), **settings, **held}))

    return make


def sentences(count, start=0):
    """Distinct sentences, every third with two translations."""
    numbers = range(start, start + count)
    return [(f"line {n}", f"Zeile {n} {m}") for n in numbers for m in range(2 if n % 3 == 0 else 1)]


def texts(corpus):
    return {source for source, _ in corpus.pairs()}


# ---- Split off ----


def test_a_number_of_sentences_is_split_off_with_all_their_pairs(split):
    pairs = sentences(100)
    splits = split(pairs, validation={"from_train": 10}, test={"from_train": 7})
    assert [len(texts(corpus)) for corpus in (splits.train, splits.validation, splits.test)] == [83, 10, 7]
    for corpus in (splits.validation, splits.test):
        assert corpus.pairs() == [pair for pair in pairs if pair[0] in texts(corpus)], "all their pairs, in order"
    together = splits.train.pairs() + splits.validation.pairs() + splits.test.pairs()
    assert sorted(together) == sorted(pairs)


def test_what_is_split_off_is_counted_on_both_sides(split):
    pairs = sentences(100)
    splits = split(pairs, validation={"from_train": 10}, test={"from_train": 0.1})
    [train], [validation], [test] = (corpus.reports for corpus in (splits.train, splits.validation, splits.test))
    assert train.left_out == (
        LeftOut.of("split off for validation", splits.validation.lines.tolist()),
        LeftOut.of("split off for test", splits.test.lines.tolist()),
    )
    assert train.pairs_read - sum(item.count for item in train.left_out) == len(splits.train)
    for report, corpus in ((validation, splits.validation), (test, splits.test)):
        count = len(texts(corpus))
        assert report.pairs_read == len(corpus)
        assert report.lines()[1].startswith(
            f"train.tsv: split off training: {count} sentences, {len(corpus)} pairs (lines {corpus.lines[0]}, "
        )
    assert splits.test.place(0) == f"train.tsv, line {splits.test.lines[0]}"


def test_it_is_not_the_corpus_s_order_that_chooses(split):
    pairs = sentences(90)  # 120 lines
    lines = [split(rows, validation={"from_train": 30}).validation for rows in (pairs, pairs[::-1])]
    assert texts(lines[0]) == texts(lines[1])
    assert np.unique((lines[0].lines - 1) // 30).tolist() == [0, 1, 2, 3], "from all over the corpus"


def test_a_sentence_s_case_and_spaces_do_not_tear_it_apart(split):
    pairs = [
        (form.format(n), f"Zeile {n}") for n in range(50) for form in ("The line  {}", " the  LINE {} ", "the line {}")
    ]
    splits = split(pairs, validation={"from_train": 10}, test={"from_train": 0.2})
    assert len(splits.validation) == 30
    numbers = [{target for _, target in corpus.pairs()} for corpus in (splits.train, splits.validation, splits.test)]
    assert sum(map(len, numbers)) == 50 == len(set.union(*numbers))


@given(st.floats(0.05, 0.4), st.floats(0.05, 0.4), st.integers(0, 300))
def test_a_share_does_not_move_when_the_corpus_grows(split, validation, test, more):
    shares = {"validation": {"from_train": validation}, "test": {"from_train": test}}
    small, large = split(sentences(100), **shares), split(sentences(100 + more), **shares)
    for name in ("train", "validation", "test"):
        assert texts(getattr(small, name)) <= texts(getattr(large, name)), name


def test_shares_are_about_what_was_asked_for(split):
    splits = split(sentences(3000), validation={"from_train": 0.1}, test={"from_train": 0.3})
    assert 250 <= len(texts(splits.validation)) <= 350
    assert 820 <= len(texts(splits.test)) <= 980


def test_numbers_grow_by_the_smallest_hashes(split):
    fewer, more = (split(sentences(100), validation={"from_train": count}).validation for count in (5, 9))
    assert texts(fewer) < texts(more)
    both = split(sentences(100), validation={"from_train": 5}, test={"from_train": 4})
    assert texts(both.validation) | texts(both.test) == texts(more), "test takes the next"


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("xyz")), min_size=3, max_size=40), st.data())
def test_nothing_is_lost_or_comes_twice(split, pairs, data):
    amounts = st.integers(1, 4) | st.floats(0.1, 0.6)
    validation, test = data.draw(amounts), data.draw(amounts)
    if isinstance(validation, float) and isinstance(test, float):
        test = min(test, 0.95 - validation)
    try:
        splits = split(pairs, validation={"from_train": validation}, test={"from_train": test})
    except DataError:  # too few sentences for all three
        reject()
    corpora = (splits.train, splits.validation, splits.test)
    assert sorted(pair for corpus in corpora for pair in corpus.pairs()) == sorted(pairs)
    assert sum(len(texts(corpus)) for corpus in corpora) == len({source for source, _ in pairs})


def test_too_much_is_an_error_and_so_is_nothing(split):
    with pytest.raises(DataError, match=r"nothing is left to train on: all 20 .*data\.validation: \{from_train: 30\}"):
        split(sentences(20), validation={"from_train": 30})
    with pytest.raises(DataError, match=r"data\.test: expected sentences, got none of the 20 .* from_train 4"):
        split(sentences(20), validation={"from_train": 30}, test={"from_train": 4})
    with pytest.raises(DataError, match=r"data\.validation: expected sentences, got none .* from_train 1e-09"):
        split(sentences(20), validation={"from_train": 1e-9})


# ---- Repeats and overlap ----


def test_repeats_are_left_out_but_the_first(split):
    pairs = [("a", "A"), ("b", "B"), ("a", "A"), ("a", "other"), ("A", "A"), ("b", "B"), ("b", "B")]
    splits = split(pairs, drop_duplicates=True)
    assert splits.train.pairs() == [("a", "A"), ("b", "B"), ("a", "other"), ("A", "A")]
    assert splits.train.reports[0].left_out == (LeftOut("repeats an earlier pair", (3, 6, 7), 3),)
    assert split(pairs).train.pairs() == pairs, "by default nothing is"


def test_training_loses_what_validation_or_test_ask(split):
    pairs = [("a", "A"), ("b", "B"), ("The  c", "C"), ("d", "D")]
    splits = split(pairs, validation=[("a", "other")], test=[("", ""), ("the c", "C")], drop_overlap=True)
    assert splits.train.pairs() == [("b", "B"), ("d", "D")]
    assert splits.train.reports[0].left_out == (LeftOut("its source is in validation or test too", (1, 3), 2),)
    assert (splits.validation.pairs(), splits.test.pairs()) == ([("a", "other")], [("", ""), ("the c", "C")])
    assert split(pairs, validation=[("a", "other")]).train.pairs() == pairs, "by default nothing"


def test_a_pair_is_counted_once_by_the_first_rule_that_takes_it(split):
    pairs = [*sentences(30), *sentences(30), ("overlap", "X"), ("overlap", "X"), ("overlap", "Y")]
    splits = split(
        pairs, validation={"from_train": 5}, test=[("overlap", "Z")], drop_duplicates=True, drop_overlap=True
    )
    reasons = {item.reason: item.count for item in splits.train.reports[0].left_out}
    assert list(reasons) == [
        "split off for validation",
        "repeats an earlier pair",
        "its source is in validation or test too",
    ]
    assert "overlap" not in texts(splits.validation)
    assert reasons["split off for validation"] == len(splits.validation)
    assert reasons["its source is in validation or test too"] == 2
    assert len(splits.train) == len(pairs) - sum(reasons.values())
    assert len(splits.train) == len(set(splits.train.pairs()))


def test_a_training_corpus_that_is_all_overlap_is_an_error(split):
    with pytest.raises(
        DataError, match=r"nothing is left to train on of train\.tsv: 0 of 1 pairs .*data\.drop_overlap"
    ):
        split([("a", "A")], validation=[("a", "A")], drop_overlap=True)


# ---- One split ----


def test_all_splits_come_with_their_blanks_as_they_are_used(write):
    pairs = [("a", "A"), ("", "B"), ("c", "C")]
    config = DataConfig.model_validate({"train": write(pairs), "validation": write(pairs), "test": write(pairs)})
    splits = read_splits(config)
    assert isinstance(splits, Splits)
    assert [len(corpus) for corpus in (splits.train, splits.validation, splits.test)] == [2, 2, 3]
    assert [len(read_split(config, name)) for name in ("train", "validation", "test")] == [3, 3, 3]


def test_a_split_to_measure_on_is_the_one_that_training_left_out(write):
    amounts = {"validation": {"from_train": 10}, "test": {"from_train": 0.2}}
    config = DataConfig.model_validate({"train": write(sentences(60)), **amounts})
    splits = read_splits(config)
    for name in ("train", "validation", "test"):
        assert read_split(config, name).pairs() == getattr(splits, name).pairs()
        assert read_split(config, name).reports == getattr(splits, name).reports


def test_a_split_of_its_own_beside_one_split_off(write):
    config = DataConfig.model_validate(
        {"train": write(sentences(60)), "validation": {"from_train": 10}, "test": write([("", "x"), ("t", "T")])}
    )
    assert read_split(config, "test").pairs() == [("", "x"), ("t", "T")]
    assert len(texts(read_split(config, "train"))) == 50


def test_no_split_is_no_corpus(write):
    config = DataConfig.model_validate({"train": write([("a", "A")])})
    splits = read_splits(config)
    assert (splits.validation, splits.test) == (None, None)
    with pytest.raises(ConfigError, match=r"data\.test: expected a corpus, got null"):
        read_split(config, "test")
