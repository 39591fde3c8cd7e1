"""All templates of the grammar, with how often each is drawn."""

from collections.abc import Callable

from tformer.data.toy import because, complex, compound, simple
from tformer.data.toy.clauses import Sentence
from tformer.data.toy.phrases import Picker

Template = Callable[[Picker], Sentence]

WEIGHTS: dict[Template, int] = {
    simple.did: 9,
    simple.did_not: 6,
    simple.did_question: 4,
    simple.is_doing: 8,
    simple.is_not_doing: 2,
    simple.is_doing_question: 2,
    simple.does_often: 5,
    simple.does_not: 2,
    simple.knows: 1,
    simple.will_do: 4,
    simple.loves: 3,
    simple.dislikes: 3,
    simple.moved: 5,
    simple.moves: 7,
    simple.moved_question: 2,
    simple.is_such: 10,
    simple.feels: 3,
    simple.mass_is_such: 1,
    simple.this_is: 5,
    simple.there_is: 5,
    simple.has: 5,
    compound.gave: 5,
    compound.wants_to: 5,
    compound.and_but: 3,
    compound.such_but: 3,
    compound.thinks_that: 4,
    compound.of_someone: 3,
    compound.plays: 2,
    complex.that_bought: 6,
    complex.who_bought: 4,
    complex.found_what_lost: 5,
    complex.bought_and_ate: 7,
    complex.which: 3,
    complex.what_did: 2,
    complex.where_did: 2,
    complex.why_did: 3,
    because.because: 42,
    because.came_because: 4,
}
"""Each template with its weight; the sentences whose pronoun needs meaning are a fifth of all."""
