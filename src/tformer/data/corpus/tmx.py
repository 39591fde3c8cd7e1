"""Translation memories (TMX): XML read as it comes, one unit at a time, in memory that does not grow with the file.

The languages of a unit's variants are matched by the front of their tags, whatever the case: en is met by en-US and
EN_gb, en-GB is not met by en-US; of several that match, the first counts. In a segment, what stands in bpt, ept, ph, it
and ut is code of the document's own format and no text; what stands in hi and sub is text. Line breaks and the white
space of the file's layout become single spaces.

A document type may be named, and is never fetched. Entities may not be declared: a small file could grow beyond all
bounds.
"""

import re
from collections.abc import Iterator
from typing import NoReturn
from xml.parsers import expat

from tformer.config import DataConfig, TmxFile
from tformer.data.corpus.lines import clean, find_file, open_file
from tformer.data.corpus.report import Ledger, Unit
from tformer.errors import DataError

_READ_AT_ONCE = 1 << 16  # bytes
_MAX_NAMED = 30  # languages in a message
_CODES = {"bpt", "ept", "ph", "it", "ut"}
_LAYOUT = re.compile("[ \t]+")


class TranslationMemory:
    """A TMX file: of each unit, the segment in either language."""

    unit: Unit = "line"

    def __init__(self, source: TmxFile, config: DataConfig) -> None:
        self._path = find_file(source.tmx)
        self._languages = (config.source_lang, config.target_lang)
        self.name, self.where = self._path.name, str(self._path)

    def rows(self, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """Line and both texts of each unit that has both."""
        memory = _Parser(self._languages, self.where)
        met: set[str] = set()
        with open_file(self._path) as stream:
            more = True
            while more:
                chunk = stream.read(_READ_AT_ONCE)
                more = bool(chunk)
                for line, texts in memory.feed(chunk):
                    met.update(texts)
                    missing = [language for language in self._languages if language not in texts]
                    if missing:
                        ledger.leave_out(f"nothing in {' and '.join(missing)}", line)
                    else:
                        yield line, texts[self._languages[0]], texts[self._languages[1]]
        absent = [language for language in self._languages if language not in met]
        if absent and memory.there:
            there = sorted(memory.there)
            more_there = f" and {len(there) - _MAX_NAMED} more" if len(there) > _MAX_NAMED else ""
            raise DataError(
                f"{self.where}: expected segments in {' and '.join(absent)}, found {', '.join(there[:_MAX_NAMED])}"
                f"{more_there}; set data.source_lang and data.target_lang to two of these"
            )


class _Parser:
    """Turns chunks of bytes into units: the line where each begins, and its texts by the languages asked for.

    Attributes:
        there: the languages that were met, as the file spells them.
    """

    def __init__(self, languages: tuple[str, str], where: str) -> None:
        self.there: set[str] = set()
        self._wanted = [(language, language.lower().replace("_", "-")) for language in languages]
        self._where = where
        self._done: list[tuple[int, dict[str, str]]] = []
        self._line = 0
        self._begun = False
        self._texts: dict[str, str] = {}
        self._open: list[str] = []  # the languages that the variant at hand is the first to match
        self._segment: list[str] = []
        self._keeps: list[bool] = []  # for each element open in a segment, the segment's own first: is it text?
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = self._refuse_declaration
        self._parser.SkippedEntityHandler = self._refuse_reference

    def feed(self, chunk: bytes) -> list[tuple[int, dict[str, str]]]:
        """The units that end in this chunk; an empty chunk is the end of the file.

        Raises:
            DataError: it is no TMX.
        """
        self._done = []
        try:
            self._parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            raise self._error(f"expected well-formed XML, got: {expat.ErrorString(error.code)}") from error
        except (LookupError, ValueError) as error:  # of an encoding that Python does not know, or not for expat
            raise self._error(f"expected an encoding such as UTF-8, got another ({error})") from error
        return self._done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._begun and name != "tmx":
            raise self._error(f"expected the element tmx, got {name}")
        self._begun = True
        if self._keeps:
            within_code = not self._keeps[-1]
            if name == "sub" and within_code:
                self._segment.append(" ")  # a text of its own inside a code, such as a footnote
            self._keeps.append(name not in _CODES and (name == "sub" or not within_code))
        elif name == "tu":
            self._line, self._texts = self._parser.CurrentLineNumber, {}
        elif name == "tuv":
            tag = attributes.get("xml:lang", attributes.get("lang", ""))
            if len(self.there) <= _MAX_NAMED:
                self.there.add(tag or "none")
            self._open = [language for language in self._matching(tag) if language not in self._texts]
            self._texts.update(dict.fromkeys(self._open, ""))
        elif name == "seg":
            self._segment, self._keeps = [], [bool(self._open)]

    def _end(self, name: str) -> None:
        if self._keeps:
            closed = self._keeps.pop()
            if not self._keeps:
                text = _LAYOUT.sub(" ", clean("".join(self._segment))).strip(" ")
                self._texts.update(dict.fromkeys(self._open, text))
                self._open = []
            elif name == "sub" and closed and not self._keeps[-1]:
                self._segment.append(" ")
        elif name == "tu":
            self._done.append((self._line, self._texts))

    def _text(self, text: str) -> None:
        if self._keeps and self._keeps[-1]:
            self._segment.append(text)

    def _matching(self, tag: str) -> list[str]:
        folded = tag.lower().replace("_", "-")
        return [language for language, wanted in self._wanted if folded == wanted or folded.startswith(f"{wanted}-")]

    def _refuse_declaration(self, name: str, *_: object) -> NoReturn:
        raise self._error(
            f"expected no declaration of entities, got one of {name}; delete it, and write out what it is"
        )

    def _refuse_reference(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            raise self._error(f"expected an entity that XML knows, got &{name}; write the character itself")

    def _error(self, message: str) -> DataError:
        line = self._parser.CurrentLineNumber
        return DataError(f"{self._where}, line {line}: {message}; mend that line, or export the memory again")
