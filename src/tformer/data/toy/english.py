"""English as far as the corpus needs it: forms of nouns and verbs, and words put together as a sentence."""

_VOWELS = "aeiou"
_SIBILANTS = ("s", "x", "z", "ch", "sh")


def plural(noun: str) -> str:
    """The regular plural of a noun."""
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith((*_SIBILANTS, "tomato")) else "s")


def _bend(verb: str, form: str) -> str:
    """The verb with its first word replaced: (look for, looked) → looked for."""
    return " ".join([form, *verb.split()[1:]])


def third_person(verb: str) -> str:
    """The present of he, she and it."""
    word = verb.split()[0]
    return _bend(verb, "goes" if word == "go" else plural(word))


def past(verb: str, irregular: str = "") -> str:
    """The simple past, from the irregular form of the first word where there is one."""
    word = verb.split()[0]
    if word.endswith("y") and word[-2] not in _VOWELS:
        return _bend(verb, irregular or word[:-1] + "ied")
    return _bend(verb, irregular or word + ("d" if word.endswith("e") else "ed"))


def ing(verb: str, irregular: str = "") -> str:
    """The present participle, from the irregular form of the first word where there is one."""
    word = verb.split()[0]
    if not irregular:
        short = sum(letter in _VOWELS for letter in word) == 1 and word[-2] in _VOWELS and word[-1] not in "wxy"
        if short and len(word) > 2:
            irregular = word + word[-1] + "ing"
        elif word.endswith("e") and not word.endswith("ee"):
            irregular = word[:-1] + "ing"
        else:
            irregular = word + "ing"
    return _bend(verb, irregular)


def sentence(words: str, end: str = ".") -> str:
    """The words as a sentence: *a* becomes *an* where it must, a capital in front, the mark at the end."""
    tokens = words.split()
    for i, word in enumerate(tokens[:-1]):
        if word == "a" and tokens[i + 1][0].lower() in _VOWELS and not tokens[i + 1].startswith("useful"):
            tokens[i] = "an"
    text = " ".join(tokens)
    return text[0].upper() + text[1:] + end
