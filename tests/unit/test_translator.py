"""What stands between text and search, with models that have learnt nothing: order, batches, bounds, votes."""

import pytest
import torch

from tformer.config import DecodingConfig, TokenizerConfig
from tformer.data.tokenizer import Tokenizer
from tformer.decoding import translator as translator_module
from tformer.decoding.translator import Translator
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

WORDS = ["the", "old", "sailor", "sees", "a", "red", "boat", "at", "night", "in", "our", "small", "harbour"]
LINES = [" ".join(WORDS[start : start + length]) for length in range(1, 7) for start in range(0, 7, 2)]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(LINES, TokenizerConfig(vocab_size=300))


@pytest.fixture
def make(tokenizer, tiny_model):
    """A translator by untrained models, one for each seed."""

    def translator(seeds=(0,), max_source_length=64, model=None, **decoding):
        models = [tiny_model(tokenizer.vocab_size, seed, **(model or {})) for seed in seeds]
        return Translator(models, tokenizer, DecodingConfig(**{"max_extra_tokens": 6, **decoding}), max_source_length)

    return translator


def test_every_line_is_in_its_place(make):
    translator = make()
    lines = ["", *LINES, "  ", LINES[3]]
    found = translator.translate(lines)
    assert len(found) == len(lines)
    assert found[0] == found[-2] == ""
    assert found[-1] == found[4]
    assert found[1:-2] == [translator.translate([line])[0] for line in LINES]
    assert len(set(found)) > 10
    assert translator.translate(iter([])) == []


@pytest.mark.parametrize("beam_size", [1, 3])
def test_batches_change_nothing(make, beam_size):
    translator = make(beam_size=beam_size)
    alone = translator.translations(LINES, beam_size, sentences_at_once=1)
    for size in (3, 64):
        for one, other in zip(alone, translator.translations(LINES, beam_size, sentences_at_once=size), strict=True):
            assert [each.tokens for each in other] == [each.tokens for each in one]
            assert [each.score for each in other] == pytest.approx([each.score for each in one], abs=1e-4)


def test_a_blank_line_is_not_shown_to_the_model(make):
    translator = make()
    translator.models[0].encode = None
    [[blank]] = translator.translations(["\u3000 \t"])
    assert (blank.text, blank.tokens, blank.score, blank.finished, blank.source_cut) == ("", [], 0.0, True, None)


def test_batches_are_bounded_by_pieces_and_the_longest_come_first(make, monkeypatch):
    monkeypatch.setattr(translator_module, "_PIECES_AT_ONCE", 60)
    translator = make(beam_size=1)
    encode, shapes = translator.models[0].encode, []

    def watched(src, mask):
        shapes.append(tuple(src.shape))
        return encode(src, mask)

    translator.models[0].encode = watched
    translator.translate([*LINES, " ".join(WORDS * 2)])
    assert sum(rows for rows, _ in shapes) == len(LINES) + 1
    assert all(rows * width <= 60 or rows == 1 for rows, width in shapes)
    assert [width for _, width in shapes] == sorted((width for _, width in shapes), reverse=True)
    assert max(rows for rows, _ in shapes) > 4


# ---- Bounds ----


def test_a_line_is_read_up_to_the_limit(make, tokenizer):
    pieces = len(tokenizer.encode(" ".join(WORDS)))
    exact, short = make(max_source_length=pieces + 1), make(max_source_length=pieces)
    [[whole]], [[cut]] = exact.translations([" ".join(WORDS)]), short.translations([" ".join(WORDS)])
    assert (whole.source_cut, cut.source_cut) == (None, pieces)
    [[longer]] = exact.translations([" ".join([*WORDS, "boat"])])
    assert longer.source_cut == pieces + len(tokenizer.encode("boat"))
    assert (longer.tokens, longer.score) == (whole.tokens, pytest.approx(whole.score, abs=1e-5))


@pytest.mark.parametrize(("decoding", "extra"), [({}, 6), ({"max_extra_tokens": 0}, 0), ({"max_length": 4}, None)])
def test_an_output_has_its_longest(make, tokenizer, decoding, extra):
    translator = make(**decoding)
    decode = translator.models[0].decode

    def endless(tokens, state):
        logits, state = decode(tokens, state)
        return logits.index_fill(-1, torch.tensor([EOS_ID]), -1e9), state

    translator.models[0].decode = endless
    lengths = [len(tokenizer.encode(line)) for line in LINES]
    found = [best for [best] in translator.translations(LINES)]
    assert [len(best.tokens) for best in found] == [4 if extra is None else length + extra for length in lengths]
    assert not any(best.finished for best in found)


def test_learned_positions_bound_what_is_read_and_written(make):
    translator = make(max_source_length=32, max_extra_tokens=99, model={"positions": "learned", "max_positions": 32})
    [[best]] = translator.translations([" ".join(WORDS * 4)])
    assert len(best.tokens) <= 31


def test_more_translations_than_hypotheses_cannot_be_had(make):
    with pytest.raises(ValueError, match="n_best"):
        make(beam_size=2).translations(LINES, n_best=3)


# ---- What a translation tells ----


@pytest.mark.parametrize(("haste", "finished"), [(4.0, True), (-20.0, False)])
def test_a_score_is_the_log_probability_over_the_penalty(make, haste, finished):
    translator = make(beam_size=4, length_penalty=1.5)
    decode = translator.models[0].decode

    def leaning(tokens, state):
        logits, state = decode(tokens, state)
        return logits.index_add(-1, torch.tensor([EOS_ID]), torch.full((*logits.shape[:-1], 1), haste)), state

    translator.models[0].decode = leaning
    found = translator.translations(LINES, 4)
    assert {each.finished for hypotheses in found for each in hypotheses} == {finished}
    for hypotheses in found:
        assert hypotheses == sorted(hypotheses, key=lambda each: -each.score)
        for each in hypotheses:
            length = len(each.tokens) + each.finished  # EOS is summed as well
            assert each.score == pytest.approx(each.log_prob / ((5 + length) / 6) ** 1.5, rel=1e-5)


def first_step(model, tokenizer, line):
    """The probabilities of the first piece."""
    src = torch.tensor([[*tokenizer.encode(line), EOS_ID]])
    with torch.no_grad():
        return model(src, torch.tensor([[BOS_ID]]), src != PAD_ID)[0, 0].softmax(-1)


def test_models_vote_by_the_mean_of_their_probabilities(make, tokenizer):
    translator = make(seeds=(1, 2, 3), beam_size=1, length_penalty=0.0, max_length=1)
    for line in LINES[::5]:
        mean = torch.stack([first_step(model, tokenizer, line) for model in translator.models]).mean(0)
        mean[[PAD_ID, BOS_ID]] = 0.0
        [[best]] = translator.translations([line])
        assert best.tokens == tokenizer.pieces([int(mean.argmax())])
        assert best.log_prob == pytest.approx(float(mean.max().log()), abs=1e-5)


def test_a_model_that_votes_with_itself_changes_nothing(make):
    alone, twice = make(seeds=(1,)).translations(LINES), make(seeds=(1, 1)).translations(LINES)
    assert [best.text for [best] in alone] == [best.text for [best] in twice]
    assert [best.score for [best] in twice] == pytest.approx([best.score for [best] in alone], abs=1e-4)
