import gzip

import pytest

from tformer.config import DataConfig, TmxFile
from tformer.data.corpus import CorpusReader, LeftOut
from tformer.errors import DataError

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header srclang="en"/>\n<body>\n'
TAIL = "</body></tmx>\n"


def unit(**variants):
    """A unit on one line; `en_US="text"` stands for the language en_US."""
    inside = "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in variants.items())
    return f"<tu>{inside}</tu>\n"


@pytest.fixture
def memory(tmp_path):
    """Writes units, or a whole file as bytes, and opens it as a source."""

    def make(*units, source_lang="en", target_lang="es", **options):
        path = tmp_path / "memory.tmx"
        whole = units[0] if isinstance(units[0], bytes) else (HEAD + "".join(units) + TAIL).encode()
        path.write_bytes(whole)
        config = DataConfig(source_lang=source_lang, target_lang=target_lang)
        return CorpusReader(TmxFile(tmx=path), "train", config, **options)

    return make


def texts(corpus):
    """The texts of a memory with one unit."""
    [(_, *both)] = corpus
    return tuple(both)


def message(corpus):
    with pytest.raises(DataError) as caught:
        list(corpus)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- Units ----


def test_each_unit_is_a_pair_with_the_line_where_it_begins(memory):
    corpus = memory(unit(en="one &amp; a &lt;b&gt;", es="uno &#241;"), "\n", unit(es="dos", de="zwei", en="two"))
    assert list(corpus) == [(5, "one & a <b>", "uno ñ"), (7, "two", "dos")]
    assert corpus.report.lines() == ["memory.tmx: all 2 pairs kept"]
    assert corpus.place(7) == "memory.tmx, line 7"


def test_the_older_attribute_names_a_language_too(memory):
    assert texts(memory('<tu><tuv lang="EN"><seg>a</seg></tuv><tuv lang="ES"><seg>b</seg></tuv></tu>')) == ("a", "b")


@pytest.mark.parametrize(
    ("asked", "tag", "met"),
    [
        ("en", "en", True),
        ("en", "en-US", True),
        ("en", "EN_gb", True),
        ("EN", "en", True),
        ("en", "eng", False),
        ("en-GB", "en-US", False),
        ("en-GB", "en", False),
        ("en-GB", "EN_gb", True),
        ("zh_Hant", "zh-Hant-TW", True),
    ],
)
def test_languages_are_matched_by_the_front_of_their_tags(memory, asked, tag, met):
    corpus = memory(unit(**{tag: "a"}, es="b"), unit(**{asked: "c"}, es="d"), source_lang=asked)
    assert [row[1] for row in corpus] == (["a", "c"] if met else ["c"])


def test_of_several_variants_the_first_that_matches_counts(memory):
    variants = unit(**{"en-US": "color", "en-GB": "colour", "es-MX": "el color", "es": "los colores"})
    assert texts(memory(variants)) == ("color", "el color")
    assert texts(memory(variants, target_lang="en-gb")) == ("color", "colour")


def test_units_that_lack_a_language_are_left_out_and_named(memory):
    corpus = memory(
        unit(en="1", es="uno"), unit(en="2"), unit(de="drei"), unit(en="4", es=""), unit(es="cinco"), "<tu/>"
    )
    assert list(corpus) == [(5, "1", "uno")]
    assert corpus.report.left_out == (
        LeftOut("nothing in es", (6,), 1),
        LeftOut("nothing in en and es", (7, 10), 2),
        LeftOut("blank on one or both sides", (8,), 1),
        LeftOut("nothing in en", (9,), 1),
    )


def test_blank_segments_stay_on_request(memory):
    assert list(memory(unit(en="a", es=" "), drop_blank=False)) == [(5, "a", "")]


# ---- Segments ----


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ('a <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> word', "a bold word"),
        ("x<ph>{tab}</ph>y<it pos='begin'>[i]</it>z<ut>{u}</ut>", "xyz"),
        ("a <hi>marked <hi>twice</hi></hi> word", "a marked twice word"),
        ("a<ph>{fn <sub>foot <bpt>\\b</bpt>note</sub>}</ph> word", "a foot note word"),
        ("a <ph><hi>code</hi></ph>word", "a word"),
        ("a<ph><sub>note</sub></ph>word", "a note word"),
        ("\n      one\r\n\t  line  of\u2028text\n    ", "one line of text"),
        ("no\u00a0break\u3000space ", "no\u00a0break\u3000space"),
        ("<![CDATA[R&D <b>]]> &#x1F600;<!-- a remark --> &quot;&apos;", "R&D <b> \U0001f600 \"'"),
    ],
)
def test_a_segment_is_its_text_without_codes_on_one_line(memory, segment, text):
    assert texts(memory(unit(en=segment, es="x"))) == (text, "x")


def test_text_outside_of_segments_is_none(memory):
    notes = '<tu><note>n</note><prop type="x">p</prop><tuv xml:lang="en"><note>m</note>t<seg>a</seg>u</tuv>'
    assert list(memory(notes + '<tuv xml:lang="es"><seg>b</seg></tuv></tu>')) == [(5, "a", "b")]


# ---- Files ----


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "iso-8859-1", "windows-1252", "koi8-r"])
def test_a_file_is_read_in_the_encoding_that_it_declares(memory, encoding):
    text = {"koi8-r": "год", "windows-1252": "año “x” €"}.get(encoding, "año")
    whole = (HEAD + unit(en="year", es=text) + TAIL).replace("UTF-8", encoding.removesuffix("-sig"))
    assert list(memory(whole.encode(encoding))) == [(5, "year", text)]


def test_units_may_lie_across_any_bounds_of_what_is_read_at_once(memory, monkeypatch):
    units = [unit(en=f"a{number}ñ😀" * 5, es=f"b{number}" * 9) for number in range(30)]
    whole = list(memory(*units))
    assert len(whole) == 30
    monkeypatch.setattr("tformer.data.corpus.tmx._READ_AT_ONCE", 7)
    assert list(memory(*units)) == whole


def test_a_compressed_memory_is_read_in_place_of_a_missing_one(memory, tmp_path):
    rows = list(memory(unit(en="a", es="b")))
    (tmp_path / "memory.tmx.gz").write_bytes(gzip.compress((tmp_path / "memory.tmx").read_bytes()))
    (tmp_path / "memory.tmx").unlink()
    config = DataConfig(source_lang="en", target_lang="es")
    assert list(CorpusReader(TmxFile(tmx=tmp_path / "memory.tmx"), "train", config)) == rows


def test_units_come_before_the_file_is_read_to_its_end(memory):
    rows = iter(memory((HEAD + unit(en="a", es="b") * 20_000 + "<broken").encode()))
    assert next(rows) == (5, "a", "b")
    with pytest.raises(DataError, match="line 20005: expected well-formed XML"):
        list(rows)


def test_a_document_type_may_be_named_and_is_not_fetched(memory):
    head = HEAD.replace("\n<tmx", '\n<!DOCTYPE tmx SYSTEM "http://nowhere.invalid/tmx14.dtd">\n<tmx')
    assert list(memory((head + unit(en="a", es="b") + TAIL).encode())) == [(6, "a", "b")]


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "aaaaaaaaaa">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "http://nowhere.invalid/a">',
    ],
)
def test_entities_may_not_be_declared(memory, declaration):
    head = HEAD.replace("\n<tmx", f"\n<!DOCTYPE tmx [\n{declaration}\n]>\n<tmx")
    text = message(memory((head + unit(en="&a;", es="b") + TAIL).encode()))
    assert "memory.tmx, line 3: expected no declaration of entities, got one of a;" in text


def test_an_entity_that_only_the_document_type_knows_is_not_dropped_in_silence(memory):
    head = HEAD.replace("\n<tmx", '\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx')
    text = message(memory((head + unit(en="a&nbsp;b", es="c") + TAIL).encode()))
    assert "line 6: expected an entity that XML knows, got &nbsp; write the character itself" in text


@pytest.mark.parametrize(
    ("whole", "says"),
    [
        (
            HEAD + unit(en="a", es="b") + "<tu><tuv></tu>" + TAIL,
            "line 6: expected well-formed XML, got: mism",
        ),
        (HEAD + unit(en="a", es="b") + "<tu>", "line 6: expected well-formed XML, got: no element found"),
        (HEAD + unit(en="R&D", es="b") + TAIL, "line 5: expected well-formed XML, got: "),
        ("", "expected well-formed XML, got: no element found"),
        ("a\tb\n", "line 1: expected well-formed XML, got: "),
        ("<html><p/></html>", "line 1: expected the element tmx, got html;"),
        ('<?xml version="1.0" encoding="shift_jis"?><tmx/>', "line 1: expected"),
        ('<?xml version="1.0" encoding="nonsense"?><tmx/>', "line 1: expected"),
    ],
)
def test_what_is_no_memory_is_named_with_its_line(memory, whole, says):
    text = message(memory(whole.encode()))
    assert "memory.tmx, line " in text
    assert says in text


def test_bytes_that_are_not_of_the_encoding_are_named_with_their_line(memory):
    whole = (HEAD + unit(en="a", es="b") + unit(en="a", es="ni?o") + TAIL).encode().replace(b"ni?o", b"ni\xf1o")
    assert "line 6: expected well-formed XML, got: not well-formed (invalid token)" in message(memory(whole))


def test_languages_that_are_nowhere_are_named_with_those_that_are_there(memory):
    text = message(memory(unit(en="a", **{"de-DE": "b"}), unit(fr="c")))
    assert "memory.tmx: expected segments in es, found de-DE, en, fr; set data.source_lang and data.target_lang" in text


def test_a_memory_without_units_or_without_whole_ones_is_named(memory):
    assert "memory.tmx: expected pairs of sentences, got nothing" in message(memory(""))
    assert "nothing is left to use of memory.tmx: 0 of 2 pairs kept" in message(memory(unit(en="a"), unit(es="b")))
    assert "nothing in en and es (line 5)" in message(memory("<tu/>"))
