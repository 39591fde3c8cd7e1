"""The search on random tables, where the next piece depends on the whole prefix, against plain Python."""

import math
import random
from dataclasses import dataclass, field
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tformer.decoding.search import Hypothesis, beam_search, greedy_search
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID

VOCAB_SIZE = 7
CHOICES = [piece for piece in range(VOCAB_SIZE) if piece not in (PAD_ID, BOS_ID)]  # the end among them
ALPHAS = [0.0, 0.6, 1.0]

# The same tables in every run: two sums that differ in float64 alone may otherwise, once in a while, change places.
random_tables = settings(max_examples=60, deadline=None, derandomize=True)


@dataclass
class Prefixes:
    """A state that holds each row's sentence and all its pieces, so that a row mixed up changes the output."""

    prefixes: Tensor

    def select(self, rows: Tensor, sentences: Tensor) -> "Prefixes":
        return Prefixes(self.prefixes[rows])


@dataclass
class RandomTable:
    """A distribution drawn for each sentence and prefix."""

    seed: int
    sharpness: float
    rows_at_step: list[int] = field(default_factory=list)

    def log_probs(self, sentence: int, tokens: tuple[int, ...]) -> list[float]:
        draw = random.Random(f"{self.seed} {sentence} {tokens}")
        logits = torch.tensor([draw.gauss(0, self.sharpness) for _ in range(VOCAB_SIZE)])
        return logits.log_softmax(0).tolist()

    def __call__(self, tokens: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        self.rows_at_step.append(len(tokens))
        prefixes = torch.cat([state.prefixes, tokens.unsqueeze(1)], dim=1)
        rows = [self.log_probs(sentence, tuple(pieces)) for sentence, _, *pieces in prefixes.tolist()]  # _ is BOS
        return torch.tensor(rows), Prefixes(prefixes)

    def search(self, sentences, max_lengths, beam_size, alpha, n_best, ngram=None):
        state = Prefixes(torch.tensor(sentences).unsqueeze(1))
        return beam_search(self, state, torch.tensor(max_lengths), beam_size, alpha, n_best, ngram)

    def log_prob(self, sentence: int, pieces: tuple[int, ...]) -> float:
        return sum(self.log_probs(sentence, pieces[:place])[piece] for place, piece in enumerate(pieces))


def score(log_prob: float, length: int, alpha: float) -> float:
    return log_prob / ((5 + length) / 6) ** alpha


def repeats(pieces: tuple[int, ...], ngram: int | None) -> bool:
    """Whether the last `ngram` pieces stand somewhere before as well."""
    if ngram is None or len(pieces) <= ngram:
        return False
    return pieces[-ngram:] in [pieces[start : start + ngram] for start in range(len(pieces) - ngram)]


def patient_beam_search(model: RandomTable, sentence, max_length, beam_size, alpha, ngram=None):
    """The same shrinking beam in plain Python, for one sentence, without ever stopping early."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[tuple[float, tuple[int, ...]]] = []
    cut: list[tuple[float, tuple[int, ...]]] = []
    for length in range(max_length + 1):
        candidates = [
            (log_prob + model.log_probs(sentence, pieces)[piece], (*pieces, piece))
            for log_prob, pieces in live
            for piece in CHOICES
            if not repeats((*pieces, piece), ngram)
        ]
        best = sorted(candidates, reverse=True)[: beam_size - len(finished)]
        ended = [(total, pieces[:-1]) for total, pieces in best if pieces[-1] == EOS_ID]
        finished += [(score(total, length + 1, alpha), pieces) for total, pieces in ended]
        if length == max_length:
            with_end = {pieces for _, pieces in ended}
            cut = [(score(total, length, alpha), pieces) for total, pieces in live if pieces not in with_end]
        live = [(total, pieces) for total, pieces in best if pieces[-1] != EOS_ID]
    ranked = sorted(finished, reverse=True), sorted(cut, reverse=True)
    return [(list(pieces), value, group == 0) for group in (0, 1) for value, pieces in ranked[group]]


def shown(hypotheses: list[Hypothesis]) -> list[tuple[list[int], float, bool]]:
    return [(h.tokens, pytest.approx(h.score, abs=1e-4), h.finished) for h in hypotheses]


tables = st.builds(RandomTable, seed=st.integers(0, 10**6), sharpness=st.sampled_from([0.3, 1.0, 3.0]))
limits = st.lists(st.integers(0, 6), min_size=1, max_size=5)


@random_tables
@given(tables, limits, st.integers(1, 8), st.sampled_from([*ALPHAS, 3.0]), st.data())
def test_stopping_early_never_changes_what_a_patient_search_finds(model, max_lengths, beam_size, alpha, data):
    n_best = data.draw(st.integers(1, beam_size))
    results = model.search(list(range(len(max_lengths))), max_lengths, beam_size, alpha, n_best)
    for sentence, hypotheses in enumerate(results):
        patient = patient_beam_search(model, sentence, max_lengths[sentence], beam_size, alpha)
        assert shown(hypotheses) == patient[:n_best]


@random_tables
@given(tables, limits, st.integers(1, 8), st.sampled_from(ALPHAS), st.integers(1, 4), st.data())
def test_the_guard_against_repetition_is_that_of_a_plain_search(model, max_lengths, beam_size, alpha, ngram, data):
    n_best = data.draw(st.integers(1, beam_size))
    results = model.search(list(range(len(max_lengths))), max_lengths, beam_size, alpha, n_best, ngram)
    for sentence, hypotheses in enumerate(results):
        patient = patient_beam_search(model, sentence, max_lengths[sentence], beam_size, alpha, ngram)
        assert shown(hypotheses) == patient[:n_best]
        for pieces in (tuple(hypothesis.tokens) for hypothesis in hypotheses):
            runs = [pieces[start : start + ngram] for start in range(len(pieces) - ngram + 1)]
            assert len(set(runs)) == len(runs)


@random_tables
@given(tables, limits, st.integers(1, 8), st.sampled_from(ALPHAS))
def test_a_guard_that_no_output_can_meet_changes_nothing(model, max_lengths, beam_size, alpha):
    sentences = list(range(len(max_lengths)))
    without = model.search(sentences, max_lengths, beam_size, alpha, beam_size)
    assert model.search(sentences, max_lengths, beam_size, alpha, beam_size, max(max_lengths) + 1) == without


@random_tables
@given(tables, st.integers(0, 3), st.sampled_from(ALPHAS), st.integers(1, 20))
def test_a_beam_that_holds_everything_is_an_exhaustive_search(model, max_length, alpha, n_best):
    pieces = [piece for piece in CHOICES if piece != EOS_ID]
    outputs = [output for length in range(max_length + 1) for output in product(pieces, repeat=length)]
    scored = [(score(model.log_prob(0, (*output, EOS_ID)), len(output) + 1, alpha), output) for output in outputs]
    expected = [(list(output), value, True) for value, output in sorted(scored, reverse=True)]
    [hypotheses] = model.search([0], [max_length], len(CHOICES) ** (max_length + 1) + 20, alpha, n_best)
    assert shown(hypotheses) == expected[:n_best]


@random_tables
@given(tables, st.lists(st.integers(0, 9), min_size=1, max_size=5), st.sampled_from(ALPHAS))
def test_greedy_search_is_a_beam_of_one_and_takes_the_best_piece_each_time(model, max_lengths, alpha):
    sentences = list(range(len(max_lengths)))
    state = Prefixes(torch.tensor(sentences).unsqueeze(1))
    greedy = greedy_search(model, state, torch.tensor(max_lengths))
    beam_of_one = [best for [best] in model.search(sentences, max_lengths, 1, alpha, 1)]
    for sentence, hypothesis, same in zip(sentences, greedy, beam_of_one, strict=True):
        pieces: list[int] = []
        while (best := max(CHOICES, key=model.log_probs(sentence, tuple(pieces)).__getitem__)) != EOS_ID:
            if len(pieces) == max_lengths[sentence]:
                break
            pieces.append(best)
        assert (hypothesis.tokens, hypothesis.finished) == (pieces, best == EOS_ID)
        assert (same.tokens, same.finished, same.log_prob) == (pieces, best == EOS_ID, hypothesis.log_prob)


@random_tables
@given(tables, limits, st.integers(1, 6), st.sampled_from(ALPHAS), st.randoms(use_true_random=False))
def test_neighbours_and_order_never_change_a_sentence(model, max_lengths, beam_size, alpha, shuffler):
    order = list(range(len(max_lengths)))
    alone = [model.search([s], [max_lengths[s]], beam_size, alpha, beam_size)[0] for s in order]
    shuffler.shuffle(order)
    together = model.search(order, [max_lengths[s] for s in order], beam_size, alpha, beam_size)
    assert together == [alone[s] for s in order]


@random_tables
@given(tables, st.integers(0, 6), st.integers(1, 8), st.sampled_from(ALPHAS))
def test_a_larger_n_best_only_adds_to_the_list(model, max_length, beam_size, alpha):
    [whole] = model.search([0], [max_length], beam_size, alpha, beam_size)
    for n_best in range(1, beam_size):
        assert model.search([0], [max_length], beam_size, alpha, n_best) == [whole[:n_best]]


@random_tables
@given(tables, st.integers(0, 6), st.integers(1, 8), st.sampled_from(ALPHAS))
def test_hypotheses_are_distinct_sorted_and_scored_as_the_table_says(model, max_length, beam_size, alpha):
    [hypotheses] = model.search([0], [max_length], beam_size, alpha, beam_size)
    assert len({tuple(hypothesis.tokens) for hypothesis in hypotheses}) == len(hypotheses)
    ranks = [(not hypothesis.finished, -hypothesis.score) for hypothesis in hypotheses]
    assert ranks == sorted(ranks)
    for hypothesis in hypotheses:
        assert not {PAD_ID, BOS_ID, EOS_ID} & set(hypothesis.tokens)
        assert len(hypothesis.tokens) <= max_length
        assert hypothesis.finished or len(hypothesis.tokens) == max_length
        pieces = (*hypothesis.tokens, *([EOS_ID] if hypothesis.finished else []))
        assert math.isclose(hypothesis.log_prob, model.log_prob(0, pieces), abs_tol=1e-4)
        assert math.isclose(hypothesis.score, score(hypothesis.log_prob, len(pieces), alpha), abs_tol=1e-4)
