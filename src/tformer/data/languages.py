"""Languages: which one a name in a file, a column or a translation memory means, and which one a text is in.

Codes are those of ISO 639-1 where a language has two letters, else the three of ISO 639-3, without a region: swa, sw-KE
and Swahili are sw. Guessing is py3langid's, whose model comes with it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

# Two letters of ISO 639-1, three of ISO 639-3 (and of 639-2, or of its most written member), English name.
_TABLE = """\
aa aar Afar, ab abk Abkhazian, ae ave Avestan, af afr Afrikaans, ak aka/twi Akan, am amh Amharic, an arg Aragonese,
ar ara/arb Arabic, as asm Assamese, av ava Avaric, ay aym/ayr Aymara, az aze/azj Azerbaijani, ba bak Bashkir,
be bel Belarusian, bg bul Bulgarian, bi bis Bislama, bm bam Bambara, bn ben Bengali, bo bod/tib Tibetan,
br bre Breton, bs bos Bosnian, ca cat Catalan, ce che Chechen, ch cha Chamorro, co cos Corsican, cr cre Cree,
cs ces/cze Czech, cv chv Chuvash, cy cym/wel Welsh, da dan Danish, de deu/ger German, dv div Divehi, dz dzo Dzongkha,
ee ewe Ewe, el ell/gre Greek, en eng English, eo epo Esperanto, es spa Spanish, et est/ekk Estonian,
eu eus/baq Basque, fa fas/per/pes/prs Persian, ff ful Fulah, fi fin Finnish, fj fij Fijian, fo fao Faroese,
fr fra/fre French, fy fry Frisian, ga gle Irish, gd gla Gaelic, gl glg Galician, gn grn Guarani, gu guj Gujarati,
gv glv Manx, ha hau Hausa, he heb/iw Hebrew, hi hin Hindi, ho hmo Hiri_Motu, hr hrv Croatian, ht hat Haitian,
hu hun Hungarian, hy hye/arm Armenian, hz her Herero, ia ina Interlingua, id ind Indonesian, ie ile Interlingue,
ig ibo Igbo, ii iii Nuosu, ik ipk Inupiaq, io ido Ido, is isl/ice Icelandic, it ita Italian, iu iku Inuktitut,
ja jpn Japanese, jv jav/jw Javanese, ka kat/geo Georgian, kg kon Kongo, ki kik Kikuyu, kj kua Kuanyama,
kk kaz Kazakh, kl kal Greenlandic, km khm Khmer, kn kan Kannada, ko kor Korean, kr kau Kanuri, ks kas Kashmiri,
ku kur/kmr Kurdish, kv kom Komi, kw cor Cornish, ky kir Kyrgyz, la lat Latin, lb ltz Luxembourgish, lg lug Luganda,
li lim Limburgish, ln lin Lingala, lo lao Lao, lt lit Lithuanian, lu lub Luba-Katanga, lv lav/lvs Latvian,
mg mlg/plt Malagasy, mh mah Marshallese, mi mri/mao Maori, mk mkd/mac Macedonian, ml mal Malayalam,
mn mon/khk Mongolian, mr mar Marathi, ms msa/may/zsm Malay, mt mlt Maltese, my mya/bur Burmese, na nau Nauru,
nd nde North_Ndebele, ne nep/npi Nepali, ng ndo Ndonga, nl nld/dut Dutch, nn nno Nynorsk, no nor/nb/nob Norwegian,
nr nbl South_Ndebele, nv nav Navajo, ny nya Chichewa, oc oci Occitan, oj oji Ojibwa, om orm/gaz Oromo,
or ori/ory Odia, os oss Ossetian, pa pan Punjabi, pi pli Pali, pl pol Polish, ps pus/pbt Pashto, pt por Portuguese,
qu que/quy Quechua, rm roh Romansh, rn run Rundi, ro ron/rum/mo Romanian, ru rus Russian, rw kin Kinyarwanda,
sa san Sanskrit, sc srd Sardinian, sd snd Sindhi, se sme Northern_Sami, sg sag Sango, si sin Sinhala,
sk slk/slo Slovak, sl slv Slovenian, sm smo Samoan, sn sna Shona, so som Somali, sq sqi/alb/als Albanian,
sr srp/sh Serbian, ss ssw Swati, st sot Sotho, su sun Sundanese, sv swe Swedish, sw swa/swh/swc Swahili,
ta tam Tamil, te tel Telugu, tg tgk Tajik, th tha Thai, ti tir Tigrinya, tk tuk Turkmen, tl tgl/fil Tagalog,
tn tsn Tswana, to ton Tonga, tr tur Turkish, ts tso Tsonga, tt tat Tatar, ty tah Tahitian, ug uig Uighur,
uk ukr Ukrainian, ur urd Urdu, uz uzb/uzn Uzbek, ve ven Venda, vi vie Vietnamese, vo vol Volapük, wa wln Walloon,
wo wol Wolof, xh xho Xhosa, yi yid Yiddish, yo yor Yoruba, za zha Zhuang, zh zho/chi/cmn Chinese, zu zul Zulu
"""
_NAMES: dict[str, str] = {}
_CODES: dict[str, str] = {}
for _entry in _TABLE.replace("\n", " ").split(", "):
    _code, _others, _name = _entry.split()
    _NAMES[_code] = _name.replace("_", " ")
    _CODES.update(dict.fromkeys((_code, *_others.split("/"), _NAMES[_code].lower()), _code))
# Three letters at the end of files' names that mean something else.
_OTHER_ENDINGS = """
all bak bpe cln cor csv dat dev doc hyp lst map mid min mis mul new old out par raw ref seg snt spm src sub syn sys tag
tar tgt tmp tmx tok trg trn tsv txt und val vec vrt web xlf xml zip zxx
"""
_NO_CODES = frozenset(_OTHER_ENDINGS.split())
# Languages that even a page of text may not tell apart.
_LOOKALIKES = """\
af nl, ar ary arz, az tr, bs hr sr, ca oc, cs sk, da nn no, el grc, en pcm, gcf gcr ht, gl pt, he hbo, hi mr ne, id ms,
ku sdh, lv ltg, nso st, uz uzs, wuu yue zh, xh zu
"""
_ALIKE = [set(group.split()) for group in _LOOKALIKES.split(",")]
_BLOCK = 400  # characters judged as one text; of a last one that is shorter,
_SHORTEST = 20  # so many are enough
_ENOUGH = 0.7  # of the blocks


def language_code(name: str, *, any_three_letters: bool = False) -> str | None:
    """The code of a language by its code or English name, a region behind it or not; None where it is none.

    Args:
        name: such as en, ENG, pt_BR, zh-Hans or Swahili.
        any_three_letters: whether three letters not known here may be the code of one of the other 7,000 languages.
    """
    language = re.split("[-_]", name.strip().lower(), maxsplit=1)[0]
    if language in _CODES:
        return _CODES[language]
    unknown = any_three_letters and re.fullmatch("[a-z]{3}", language) and language not in _NO_CODES
    return language if unknown else None


def language_name(code: str) -> str:
    """The English name of a language with its code, `Swahili (sw)`; the code alone where it has no name here."""
    return f"{_NAMES[code]} ({code})" if code in _NAMES else code


def guess_language(lines: Iterable[str]) -> str | None:
    """The language that most of a text is in; None where the text does not tell."""
    import py3langid

    votes = Counter(py3langid.classify(block)[0] for block in _blocks(lines))
    votes.pop("zxx", None)  # no language at all
    if not votes:
        return None
    [(language, count)] = votes.most_common(1)
    return language if count >= _ENOUGH * votes.total() else None


def contradicts(code: str, lines: Iterable[str]) -> str | None:
    """The language that a text is clearly in although it is said to be in `code`; None where they may agree."""
    if not is_testable(code):
        return None
    guess = guess_language(lines)
    return None if guess is None or guess == code or any({guess, code} <= group for group in _ALIKE) else guess


def is_testable(code: str) -> bool:
    """Whether texts in this language can be told from those in others."""
    return code in _guessable()


def likelier(text: str, code: str, other: str) -> str:
    """Which of two testable languages a sentence is rather in; the first where nothing tells."""
    import py3langid

    scores = dict(py3langid.rank(text))
    return max(code, other, key=scores.__getitem__)


@cache
def _guessable() -> frozenset[str]:
    import py3langid

    return frozenset(label for label, _ in py3langid.rank(""))


def _blocks(lines: Iterable[str]) -> Iterator[str]:
    """The text in pieces long enough to tell a language by, without those that hold hardly a letter."""
    block = ""
    for line in [*lines, None]:
        block = block if line is None else f"{block} {line}"
        if len(block) >= _BLOCK or (line is None and len(block) >= _SHORTEST):
            if sum(map(str.isalpha, block)) > len(block) / 3:
                yield block
            block = ""
