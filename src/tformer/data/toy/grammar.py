"""All templates of the grammar, with how often each is drawn."""

from collections.abc import Callable

from tformer.data.toy import because, complex, compound, simple
from tformer.data.toy.clauses import Sentence
from tformer.data.toy.phrases import Picker

Template = Callable[[Picker], Sentence]

WEIGHTS: dict[Template, int] = {
    simple.did: 9,
    simple.did_not: 6,
    simple.is_doing: 6,
    simple.does_often: 4,
    simple.does_not: 3,
    simple.will_do: 4,
    simple.did_question: 4,
    simple.does_question: 4,
    simple.taste: 3,
    simple.dislike: 3,
    simple.moved: 7,
    simple.moved_question: 3,
    simple.is_such: 10,
    simple.mass_is_such: 2,
    simple.this_is: 4,
    simple.there_is: 4,
    simple.has: 4,
    compound.gave: 5,
    compound.wants_to: 5,
    compound.and_but: 3,
    compound.such_but: 4,
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
    because.because: 30,
    because.stayed_because: 4,
}
