"""French as far as the corpus needs it: forms of nouns, adjectives and verbs, and words put together as a sentence.

Phrases are written as plain words (*de le jardin*, *que il*); `sentence` makes the elisions and contractions, which
depend on what follows, in one place. An asterisk before a word marks an h that allows neither: *haricot, *huit.
"""

_VOWELS = "aàâeéèêëiîïoôuûùyhœæ"
_ELIDED = {"le", "la", "je", "ne", "que", "de", "me", "se"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_BEFORE_VOWEL = {"ma": "mon", "ta": "ton", "sa": "son", "ce": "cet"}
_ADJECTIVES_BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}


def starts_with_vowel(word: str) -> bool:
    """Whether the word lets the one before it be elided: a vowel or a silent h."""
    return word[0].lower() in _VOWELS


def plural(word: str) -> str:
    """The regular plural of a noun or of a masculine adjective."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith(("eau", "eu")) and word != "bleu" else "s")


def adjective_forms(masculine: str, feminine: str = "") -> tuple[str, str, str, str]:
    """Masculine, feminine, and both plurals; `feminine` is "" where it is regular, "=" where no form differs."""
    if feminine == "=":
        return (masculine,) * 4
    feminine = feminine or (masculine if masculine.endswith("e") else masculine + "e")
    masculine_plural, feminine_plural = (
        " ".join([plural(word), *rest]) for word, *rest in (masculine.split(), feminine.split())
    )
    return masculine, feminine, masculine_plural, feminine_plural


def adjective_before(adjective: str, noun: str) -> str:
    """The masculine singular that stands before its noun: beau garçon, but bel homme."""
    return _ADJECTIVES_BEFORE_VOWEL.get(adjective, adjective) if starts_with_vowel(noun) else adjective


def present_er(infinitive: str) -> tuple[str, str, str, str, str]:
    """The present of a regular verb in -er, for je, il, nous, vous, ils."""
    stem = infinitive.removesuffix("er")
    soft = {"g": stem + "e", "c": stem[:-1] + "ç"}.get(stem[-1], stem)
    return stem + "e", stem + "e", soft + "ons", stem + "ez", stem + "ent"


def agree(participle: str, feminine: bool, plural: bool) -> str:
    """The past participle for a gender and a number; only its first word is bent (entré dans → entrées dans)."""
    word, *rest = participle.split()
    ending = "e" * feminine + "s" * (plural and (feminine or not word.endswith("s")))
    return " ".join([word + ending, *rest])


def _join(words: list[str]) -> str:
    """The words with elision and contraction, each decided by the words as they were."""
    out = ""
    i = 0
    while i < len(words):
        word, following = words[i], words[i + 1] if i + 1 < len(words) else "."
        after = words[i + 2] if i + 2 < len(words) else "."
        elides = following == "le" and starts_with_vowel(after)
        if (word, following) in _CONTRACTED and not elides:
            out += _CONTRACTED[word, following] + " "
            i += 2
            continue
        if word in _ELIDED and starts_with_vowel(following):
            out += word[:-1] + "'"
        elif word in _BEFORE_VOWEL and starts_with_vowel(following):
            out += _BEFORE_VOWEL[word] + " "
        else:
            out += word + " "
        i += 1
    return out.strip()


def sentence(words: str, end: str = ".") -> str:
    """The words as a sentence: elided, contracted, a capital in front; a space before a question mark."""
    text = _join(words.split()).replace("*", "").replace(" ,", ",")
    return text[0].upper() + text[1:] + (" " if end in "?!" else "") + end
