"""Scores of translations that others can compare: sacreBLEU's, with signatures."""

from tformer.decoding.score.evaluation import Evaluation
from tformer.decoding.score.metrics import Recipe, Scores, pronoun_accuracy, score_corpus, sentence_chrf
from tformer.decoding.score.significance import TESTS, compare
from tformer.decoding.score.testsets import read_testset

__all__ = [
    "TESTS",
    "Evaluation",
    "Recipe",
    "Scores",
    "compare",
    "pronoun_accuracy",
    "read_testset",
    "score_corpus",
    "sentence_chrf",
]
