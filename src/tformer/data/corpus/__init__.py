"""Any source of sentence pairs → pairs, and a report of what was left out.

Whatever the source, the same holds: a row is one pair or none, so that pairs never shift; a pair that is blank on
either side, or no text, is left out whole, never one side of it; and the report counts every one, with the first
numbers. What happens to odd characters is said once, at the head of `lines`.
"""

from tformer.data.corpus.lines import arriving_lines, clean, find_file, iter_lines, read_lines
from tformer.data.corpus.reader import CorpusReader, Pair
from tformer.data.corpus.report import CorpusReport, LeftOut

__all__ = [
    "CorpusReader",
    "CorpusReport",
    "LeftOut",
    "Pair",
    "arriving_lines",
    "clean",
    "find_file",
    "iter_lines",
    "read_lines",
]
