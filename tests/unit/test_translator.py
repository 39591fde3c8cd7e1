"""What stands between text and search, with models that have learnt nothing: order, batches, bounds, votes."""

import pytest
import torch

from tformer.config import DecodingConfig, TokenizerConfig
from tformer.data.tokenizer import Tokenizer, TokenizerPair
from tformer.decoding import translator as translator_module
from tformer.decoding.translator import Translation, Translator
from tformer.model import Transformer
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

WORDS = ["the", "old", "sailor", "sees", "a", "red", "boat", "at", "night", "in", "our", "small", "harbour"]
LINES = [" ".join(WORDS[start : start + length]) for length in range(1, 7) for start in range(0, 7, 2)]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(LINES, TokenizerConfig(vocab_size=300))


@pytest.fixture
def make(tokenizer, tiny_model):
    """A translator by untrained models, one for each seed."""

    def translator(seeds=(0,), max_source_length=64, model=None, tokenizer=tokenizer, target_lang=None, **decoding):
        models = [tiny_model(tokenizer.vocab_size, seed, **(model or {})) for seed in seeds]
        decoding = DecodingConfig(**{"max_extra_tokens": 6, **decoding})
        return Translator(models, TokenizerPair(tokenizer, tokenizer), decoding, max_source_length, target_lang)

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
    assert blank == Translation("", [], score=0.0, log_prob=0.0, finished=True, source_tokens=[])


def test_white_space_is_blank_whatever_the_normalisation_keeps(make):
    translator = make(tokenizer=Tokenizer.train(LINES, TokenizerConfig(vocab_size=300, normalization="identity")))
    blanks = ["", " ", "\u3000", "\xa0 \u2003", "\t"]
    assert any(translator.tokenizers.source.encode(blank) for blank in blanks)
    assert translator.translate([*blanks, "boat"])[: len(blanks)] == [""] * len(blanks)


def test_batches_are_bounded_by_pieces_and_the_longest_come_first(make, monkeypatch):
    monkeypatch.setattr(translator_module, "_PIECES_AT_ONCE", 60)
    translator = make(beam_size=1, max_source_length=256)
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
    assert len(best.tokens) <= 31 * best.parts
    [[one]] = translator.translations(["boat"], align=True)
    assert len(one.tokens) <= 31


def test_no_run_of_pieces_comes_twice_where_that_is_asked_for(make):
    def repeats(translator):
        found = [best.tokens for [best] in translator.translations(LINES)]
        return sum(len(set(tokens)) < len(tokens) for tokens in found)

    assert repeats(make(max_extra_tokens=30)) > 5
    assert repeats(make(max_extra_tokens=30, no_repeat_ngram=1)) == 0


def test_more_translations_than_hypotheses_cannot_be_had(make):
    with pytest.raises(ValueError, match="n_best"):
        make(beam_size=2).translations(LINES, n_best=3)


# ---- Lines that are longer than the model reads ----


SENTENCES = ["The old sailor sees a boat.", "A red boat at night!", "Our small harbour?"]


@pytest.fixture
def limit(tokenizer):
    """A length that any of the sentences fits into, and no two."""
    longest = max(len(tokenizer.encode(sentence)) for sentence in SENTENCES)
    assert longest < min(len(tokenizer.encode(" ".join(pair))) for pair in (SENTENCES[:2], SENTENCES[1:]))
    return longest + 1  # the end is read as well


def test_a_line_is_whole_up_to_the_limit_and_split_beyond_it(make, tokenizer):
    line = " ".join(WORDS)
    pieces = len(tokenizer.encode(line))
    [[whole]], [[split]] = (make(max_source_length=length).translations([line]) for length in (pieces + 1, pieces))
    assert (whole.parts, split.parts) == (1, 2)
    assert whole.source_tokens == split.source_tokens == tokenizer.pieces(tokenizer.encode(line))


@pytest.mark.parametrize(("target_lang", "between"), [("fr", " "), ("ja", "")])
def test_the_parts_of_a_long_line_are_translated_like_lines_of_their_own(make, limit, target_lang, between):
    translator = make(max_source_length=limit, target_lang=target_lang, beam_size=3)
    alone = translator.translations(SENTENCES, 3, align=True)
    before, found, after = translator.translations([LINES[0], " ".join(SENTENCES), LINES[1]], 3, align=True)
    assert (before[0].parts, after[0].parts) == (1, 1)
    assert [best.text for best in (before[0], after[0])] == translator.translate(LINES[:2])
    for rank, joined in enumerate(found):
        parts = [each[rank] for each in alone]
        assert joined.parts == 3
        assert joined.text == between.join(part.text for part in parts)
        assert joined.tokens == [token for part in parts for token in part.tokens]
        assert joined.source_tokens == [token for part in parts for token in part.source_tokens]
        assert joined.score == pytest.approx(sum(part.score for part in parts), abs=1e-4)
        assert joined.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-4)
        assert joined.finished == all(part.finished for part in parts)
        seen = [joined.source_tokens[place] for place in joined.alignment]
        assert seen == [part.source_tokens[place] for part in parts for place in part.alignment]


def test_a_word_and_a_character_beyond_the_limit_are_read_as_far_as_they_can_be(make, tokenizer):
    assert len(tokenizer.encode("😀")) > 2
    translator = make(max_source_length=3, model={"positions": "learned", "max_positions": 8})
    [word], [sign], [last] = translator.translations(["harbourharbour", "😀", "a"])
    assert word.parts > 2
    assert (len(sign.source_tokens), last.parts) == (2, 1)


def test_parts_with_fewer_translations_give_their_last_and_a_silent_part_no_space(make):
    def part(*translations):
        return [Translation(text, [], -1.0, -2.0, finished) for text, finished in translations]

    joined = make()._joined([part(("a", True), ("b", False)), part(("", True)), part(("c", True))])
    assert [(each.text, each.finished, each.score) for each in joined] == [("a c", True, -3.0), ("b c", False, -3.0)]


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


@pytest.mark.parametrize("seeds", [(1,), (1, 2)])
def test_a_log_probability_can_be_recomputed_by_one_pass_over_the_translation(make, tokenizer, seeds):
    translator = make(seeds=seeds, beam_size=3)
    ids = {tokenizer.pieces([index])[0]: index for index in range(tokenizer.vocab_size)}
    for line, found in zip(LINES, translator.translations(LINES, 3), strict=True):
        src = torch.tensor([[*tokenizer.encode(line), EOS_ID]])
        for each in found:
            tgt_out = [ids[token] for token in each.tokens] + [EOS_ID] * each.finished
            tgt_in = torch.tensor([[BOS_ID, *tgt_out[:-1]]])
            with torch.no_grad():
                passes = [model(src, tgt_in, src != PAD_ID)[0].softmax(-1) for model in translator.models]
            chosen = torch.stack(passes).mean(0).log()[range(len(tgt_out)), tgt_out]
            assert each.log_prob == pytest.approx(float(chosen.sum()), abs=1e-4)


def test_each_piece_is_aligned_with_the_source_piece_that_is_looked_at_most(make, tokenizer):
    translator = make(seeds=(1, 2), beam_size=3)
    ids = {tokenizer.pieces([index])[0]: index for index in range(tokenizer.vocab_size)}
    aligned = translator.translations(LINES, 3, align=True)
    for line, found in zip(LINES, aligned, strict=True):
        pieces = tokenizer.encode(line)
        src = torch.tensor([[*pieces, EOS_ID]])
        for each in found:
            assert each.source_tokens == tokenizer.pieces(pieces)
            tgt_in = torch.tensor([[BOS_ID, *(ids[token] for token in each.tokens)]])
            with torch.no_grad():
                weights = [model.cross_attention(src, tgt_in, src != PAD_ID) for model in translator.models]
            by_heads = torch.stack(weights)[:, 0, 0]  # [models, heads, target, source]; the first layer of two
            expected = by_heads.mean((0, 1))[:-1, : len(pieces)].argmax(-1)  # but for the ends
            assert each.alignment == expected.tolist()
    assert {each.alignment is None for [each] in translator.translations(LINES)} == {True}


def test_a_single_decoder_layer_aligns_as_well(make):
    [[best]] = make(model={"num_decoder_layers": 1}).translations(["the old sailor"], align=True)
    assert len(best.alignment) == len(best.tokens) > 0
    assert max(best.alignment) < len(best.source_tokens)


def test_the_source_is_read_with_its_vocabulary_and_the_target_written_with_its_own(make, tokenizer, tiny_config):
    backwards = [line[::-1] for line in LINES]
    other = Tokenizer.train(backwards, TokenizerConfig(vocab_size=40, byte_fallback=False))
    torch.manual_seed(0)
    model = Transformer(tiny_config(tie_embeddings="decoder"), tokenizer.vocab_size, other.vocab_size).eval()
    decoding = DecodingConfig(beam_size=2, max_extra_tokens=6)
    translator = Translator([model], TokenizerPair(tokenizer, other), decoding, max_source_length=64)
    seen = []
    model.source_embedding.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].tolist()))
    [[best, *_]] = translator.translations([LINES[0]])
    assert seen[0] == [[*tokenizer.encode(LINES[0]), EOS_ID]]
    assert best.source_tokens == tokenizer.pieces(tokenizer.encode(LINES[0]))
    ids = {other.pieces([index])[0]: index for index in range(other.vocab_size)}
    chosen = [ids[token] for token in best.tokens]
    assert best.text == other.decode(chosen) != tokenizer.decode(chosen)


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
