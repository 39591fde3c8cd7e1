"""The search on tables small enough for hand arithmetic: the next piece depends on the last one alone."""

import math
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tformer.decoding.search import Hypothesis, _largest, beam_search, greedy_search
from tformer.errors import CheckpointError
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

A, B, C = 4, 5, 6
VOCAB_SIZE = 7


@dataclass
class Row:
    """A state that knows only which sentence each row belongs to."""

    sentence: Tensor

    def select(self, rows: Tensor, sentences: Tensor) -> "Row":
        return Row(self.sentence[rows])


@dataclass
class Table:
    """Probabilities of the next piece given the last, of each sentence: {last: {next: probability}}; else 0."""

    sentences: list[dict[int, dict[int, float]]]
    rows_at_step: list[int] = field(default_factory=list)

    def __call__(self, tokens: Tensor, state: Row) -> tuple[Tensor, Row]:
        self.rows_at_step.append(len(tokens))
        table = torch.zeros(len(self.sentences), VOCAB_SIZE, VOCAB_SIZE)
        for sentence, by_last in enumerate(self.sentences):
            for last, following in by_last.items():
                for piece, probability in following.items():
                    table[sentence, last, piece] = probability
        return table[state.sentence, tokens].log(), state

    def start(self) -> Row:
        return Row(torch.arange(len(self.sentences)))


def chain(*pieces: int) -> dict[int, dict[int, float]]:
    """A sentence with one possible output, each of whose pieces (the end too) has probability 0.5."""
    path = [BOS_ID, *pieces, EOS_ID]
    return {last: {following: 0.5} for last, following in pairwise(path)}


# The likely start, A, leads nowhere good: P(A, end) = 0.6 · 0.3, P(B, end) = 0.4 · 0.9.
GARDEN_PATH = {BOS_ID: {A: 0.6, B: 0.4}, A: {EOS_ID: 0.3, C: 0.7}, B: {EOS_ID: 0.9, C: 0.1}, C: {EOS_ID: 0.2, C: 0.8}}


def search_one(
    table: dict[int, dict[int, float]], max_length: int, beam_size: int, alpha: float = 0.0, n_best: int = 1
) -> list[Hypothesis]:
    model = Table([table])
    [hypotheses] = beam_search(model, model.start(), torch.tensor([max_length]), beam_size, alpha, n_best)
    return hypotheses


def test_greedy_takes_the_most_probable_piece_at_each_step():
    model = Table([GARDEN_PATH])
    [hypothesis] = greedy_search(model, model.start(), torch.tensor([3]))
    assert hypothesis.tokens == [A, C, C]
    assert not hypothesis.finished
    assert hypothesis.log_prob == pytest.approx(math.log(0.6 * 0.7 * 0.8))


def test_a_beam_finds_what_greedy_search_misses():
    [best] = search_one(GARDEN_PATH, max_length=3, beam_size=2)
    assert (best.tokens, best.finished) == ([B], True)
    assert best.log_prob == pytest.approx(math.log(0.4 * 0.9))


def test_the_score_is_the_log_probability_over_the_length_penalty_of_the_paper():
    [best] = search_one(chain(A, B, C), max_length=5, beam_size=2, alpha=0.6)
    assert best.log_prob == pytest.approx(4 * math.log(0.5))
    assert best.score == pytest.approx(4 * math.log(0.5) / ((5 + 4) / 6) ** 0.6)  # three pieces and the end


@pytest.mark.parametrize(("alpha", "first"), [(0.0, [A]), (2.0, [B, C])])
def test_a_larger_length_penalty_prefers_the_longer_output(alpha, first):
    table = {BOS_ID: {A: 0.5, B: 0.5}, A: {EOS_ID: 0.5}, B: {C: 0.9}, C: {EOS_ID: 0.5}}
    assert search_one(table, max_length=5, beam_size=4, alpha=alpha)[0].tokens == first


def test_padding_and_the_start_mark_are_never_chosen_and_the_unknown_piece_may_be():
    table = {BOS_ID: {PAD_ID: 0.5, BOS_ID: 0.3, UNK_ID: 0.2}, UNK_ID: {BOS_ID: 0.9, PAD_ID: 0.05, EOS_ID: 0.05}}
    hypotheses = search_one(table, max_length=3, beam_size=4, n_best=4)
    assert [hypothesis.tokens for hypothesis in hypotheses] == [[UNK_ID]]


def test_a_hypothesis_of_the_greatest_length_may_still_finish():
    [best] = search_one(chain(A, B), max_length=2, beam_size=2)
    assert (best.tokens, best.finished) == ([A, B], True)


def test_a_hypothesis_cut_at_the_greatest_length_is_marked_and_scored_without_an_end():
    [best] = search_one(chain(A, B, C), max_length=2, beam_size=2, alpha=1.0)
    assert (best.tokens, best.finished) == ([A, B], False)
    assert best.log_prob == pytest.approx(2 * math.log(0.5))
    assert best.score == pytest.approx(2 * math.log(0.5) / (7 / 6))


def test_finished_hypotheses_come_before_cut_ones_of_a_better_score():
    table = {BOS_ID: {EOS_ID: 0.01, A: 0.99}, A: {A: 1.0}}
    finished, cut = search_one(table, max_length=3, beam_size=2, n_best=2)
    assert (finished.tokens, finished.finished) == ([], True)
    assert (cut.tokens, cut.finished) == ([A, A, A], False)
    assert cut.score > finished.score


@pytest.mark.parametrize(("end", "finished"), [(0.6, True), (0.4, False)])
def test_a_greatest_length_of_0_gives_one_empty_hypothesis(end, finished):
    [hypothesis] = search_one({BOS_ID: {EOS_ID: end, A: 1 - end}}, max_length=0, beam_size=1)
    assert (hypothesis.tokens, hypothesis.finished) == ([], finished)
    assert hypothesis.score == pytest.approx(math.log(end) if finished else 0.0)


def test_a_beam_wider_than_the_vocabulary_finds_everything_there_is():
    hypotheses = search_one(GARDEN_PATH, max_length=2, beam_size=50, n_best=50)
    assert [hypothesis.tokens for hypothesis in hypotheses] == [[B], [A], [A, C], [B, C]]
    assert all(hypothesis.finished for hypothesis in hypotheses)


def test_places_without_a_possible_hypothesis_stay_empty_and_keep_no_sentence_in_the_batch():
    model = Table([chain(A, B)])
    [hypotheses] = beam_search(model, model.start(), torch.tensor([9]), beam_size=4, length_penalty=0.0, n_best=4)
    assert [hypothesis.tokens for hypothesis in hypotheses] == [[A, B]]
    assert math.isfinite(hypotheses[0].score)
    assert len(model.rows_at_step) == 3


def test_finished_sentences_leave_the_batch_and_results_keep_its_order():
    model = Table([chain(A, B, C), chain(), chain(A, B), chain(A)])
    hypotheses = greedy_search(model, model.start(), torch.full((4,), 10))
    assert [hypothesis.tokens for hypothesis in hypotheses] == [[A, B, C], [], [A, B], [A]]
    assert model.rows_at_step == [4, 3, 2, 1]


def test_sentences_leave_together_as_a_few_are_done_and_change_nothing_while_they_stay():
    model = Table([{BOS_ID: {A: 1.0}, A: {A: 1.0}}] * 20)
    hypotheses = greedy_search(model, model.start(), torch.arange(20) // 2)
    assert [hypothesis.tokens for hypothesis in hypotheses] == [[A] * (sentence // 2) for sentence in range(20)]
    assert model.rows_at_step[:5] == [20, 20, 16, 14, 12]  # two are done after each step; an eighth leaves


def test_a_sentence_at_its_greatest_length_leaves_the_batch():
    model = Table([chain(A, B, C), chain(A, B, C)])
    hypotheses = greedy_search(model, model.start(), torch.tensor([1, 9]))
    assert [(hypothesis.tokens, hypothesis.finished) for hypothesis in hypotheses] == [([A], False), ([A, B, C], True)]
    assert model.rows_at_step == [2, 2, 1, 1]


def test_the_first_step_runs_one_row_a_sentence_and_the_next_ones_a_row_a_hypothesis():
    model = Table([GARDEN_PATH, GARDEN_PATH])
    beam_search(model, model.start(), torch.tensor([1, 1]), beam_size=3, length_penalty=0.0)
    assert model.rows_at_step == [2, 6]


@pytest.mark.parametrize(("end", "steps"), [(0.6, 1), (0.4, 2), (0.2, 3)])
def test_the_search_stops_once_no_live_hypothesis_can_win(end, steps):
    model = Table([{BOS_ID: {EOS_ID: end, A: 1 - end}, A: {A: 0.4, B: 0.4}, B: {A: 0.4, B: 0.4}}])
    [[best]] = beam_search(model, model.start(), torch.tensor([100]), beam_size=8, length_penalty=0.0)
    assert best.tokens == []
    assert len(model.rows_at_step) == steps  # the probability of a live hypothesis can only fall: 0.8 · 0.4 · 0.4 < 0.2


def test_the_search_goes_on_while_the_length_penalty_may_yet_favour_a_live_hypothesis():
    certain = {BOS_ID: {EOS_ID: 0.6, A: 0.4}, A: {B: 1.0}, B: {C: 1.0}, C: {EOS_ID: 1.0}}
    [best] = search_one(certain, max_length=3, beam_size=4, alpha=2.0)
    assert best.tokens == [A, B, C]  # ln 0.4 / (9/6)^2 > ln 0.6


def test_greedy_search_copies_no_state_while_all_sentences_go_on():
    class Unmoved(Row):
        def select(self, rows: Tensor, sentences: Tensor) -> "Row":
            raise AssertionError("nothing has moved")

    model = Table([chain(A, B), chain(C, C)])
    greedy_search(model, Unmoved(torch.arange(2)), torch.tensor([1, 1]))


# Without a guard it says A B A B … for ever; the end is always possible, and never likely.
BABBLE = {
    BOS_ID: {A: 0.9, EOS_ID: 0.1},
    A: {B: 0.8, C: 0.15, EOS_ID: 0.05},
    B: {A: 0.8, B: 0.15, EOS_ID: 0.05},
    C: {C: 0.6, A: 0.3, EOS_ID: 0.1},
}


@pytest.mark.parametrize(
    ("ngram", "tokens", "finished"),
    [
        (None, [A, B, A, B, A, B, A, B, A], False),
        (1, [A, B], True),  # after A B, only the end is left
        (2, [A, B, A, C, C, A], True),  # A B, A C, C C, C A: all that can follow A has been said
        (3, [A, B, A, B, B, A, C, C, C], False),
        (10, [A, B, A, B, A, B, A, B, A], False),  # longer than the output
    ],
)
def test_no_run_of_pieces_comes_twice(ngram, tokens, finished):
    model = Table([BABBLE])
    [[best]] = beam_search(model, model.start(), torch.tensor([9]), 1, 0.0, no_repeat_ngram=ngram)
    assert (best.tokens, best.finished) == (tokens, finished)


def test_a_run_that_is_barred_in_one_hypothesis_is_free_in_another():
    table = {BOS_ID: {A: 0.6, B: 0.4}, A: {A: 0.9, EOS_ID: 0.1}, B: {A: 0.9, EOS_ID: 0.1}}
    model = Table([table])
    [found] = beam_search(model, model.start(), torch.tensor([9]), 4, 0.0, n_best=4, no_repeat_ngram=1)
    assert [each.tokens for each in found] == [[A], [B], [B, A]]


@pytest.mark.parametrize("size", [1, 5, 31, 64, 65, 200, 317, 1000])
def test_the_largest_are_found_wherever_they_stand(size):
    torch.manual_seed(size)
    for count in {1, min(5, size), min(40, size)}:
        values = torch.randn(50, size)
        values[:20] = values[:20].round(decimals=1)  # many alike
        values[20:25, size // 2 :] = -math.inf
        largest, places = _largest(values, count)
        assert torch.equal(largest, values.topk(count).values)
        assert torch.equal(values.gather(1, places), largest)
        assert all(len(set(row)) == count for row in places.tolist())


def test_an_empty_batch_gives_no_results():
    model = Table([])
    assert beam_search(model, model.start(), torch.empty(0, dtype=torch.int64), 4, 0.6) == []
    assert model.rows_at_step == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_best": 3}, "n_best between 1 and beam_size = 2, got 3"),
        ({"n_best": 0}, "got 0"),
        ({"length_penalty": -0.1}, "length_penalty of at least 0, got -0.1"),
        ({"max_lengths": torch.tensor([3, -1])}, "max_lengths of at least 0, got -1"),
        ({"no_repeat_ngram": 0}, "no_repeat_ngram of at least 1, got 0"),
    ],
)
def test_arguments_out_of_range_are_refused(change, message):
    model = Table([chain(A), chain(A)])
    arguments = {"max_lengths": torch.tensor([3, 3]), "beam_size": 2, "length_penalty": 0.6, "n_best": 1}
    with pytest.raises(ValueError, match=message):
        beam_search(model, model.start(), **(arguments | change))


def test_a_model_that_gives_nan_is_an_error_of_one_line():
    def broken(tokens: Tensor, state: Row) -> tuple[Tensor, Row]:
        return torch.full((len(tokens), VOCAB_SIZE), math.nan), state

    with pytest.raises(CheckpointError, match="finite log-probabilities"):
        beam_search(broken, Row(torch.arange(2)), torch.tensor([3, 3]), 4, 0.6)
