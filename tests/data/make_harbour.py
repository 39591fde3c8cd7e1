"""Makes harbour/, the small English-Spanish corpus of the tests: `python tests/data/make_harbour.py` writes it again.

Word for word but for what a Transformer is for: adjectives follow their nouns and agree with them in gender.
"""

import random
from pathlib import Path

PEOPLE = [("sailor", "el marinero"), ("girl", "la niña"), ("cook", "el cocinero"), ("nurse", "la enfermera")]
THINGS = [("boat", "el barco"), ("lamp", "la lámpara"), ("window", "la ventana"), ("clock", "el reloj")]
ADJECTIVES = [("old", "viejo"), ("red", "rojo"), ("small", "pequeño"), ("clean", "limpio")]
VERBS = [("sees", "ve"), ("paints", "pinta"), ("repairs", "repara"), ("buys", "compra")]
ENDINGS = [("", ""), (" today", " hoy"), (" at night", " de noche"), (" in the harbour", " en el puerto")]
SPLITS = {"train": 300, "dev": 30, "test": 30}


def sentence(dice: random.Random) -> tuple[str, str]:
    (subject, sujeto), (thing, cosa) = dice.choice(PEOPLE), dice.choice(THINGS)
    (verb, verbo), (ending, final) = dice.choice(VERBS), dice.choice(ENDINGS)
    if dice.random() < 0.5:
        adjective, adjetivo = dice.choice(ADJECTIVES)
        thing, cosa = f"{adjective} {thing}", f"{cosa} {adjetivo[:-1]}{'a' if cosa.startswith('la ') else 'o'}"
    return f"The {subject} {verb} the {thing}{ending}.", f"{sujeto.capitalize()} {verbo} {cosa}{final}."


def main() -> None:
    dice = random.Random(1)
    pairs: dict[str, str] = {}
    while len(pairs) < sum(SPLITS.values()):
        english, spanish = sentence(dice)
        pairs[english] = spanish
    rest = list(pairs.items())
    for split, size in SPLITS.items():
        chosen, rest = rest[:size], rest[size:]
        for side, language in enumerate(("en", "es")):
            text = "".join(f"{pair[side]}\n" for pair in chosen)
            path = Path(__file__).parent / "harbour" / f"{split}.{language}"
            path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
