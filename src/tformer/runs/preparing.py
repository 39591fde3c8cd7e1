"""From the settings to text, vocabularies and ids: what the commands that learn or measure have in common."""

from collections.abc import Iterator

from tformer.config import Config, TokenizerConfig
from tformer.data.check import survey
from tformer.data.splits import Splits, read_splits
from tformer.data.store import TextCorpus, TokenisedCorpus, tokenise
from tformer.data.tokenizer import TokenizerPair
from tformer.progress import say


def read_aloud(config: Config) -> Splits:
    """Read all splits, and say what was read, what was left out, and what a look at the whole finds.

    Raises:
        ConfigError: a file or data set does not exist.
        DataError: the content is wrong, or nothing is left to train on.
    """
    splits = read_splits(config.data)
    for name, corpus in (("train", splits.train), ("validation", splits.validation), ("test", splits.test)):
        for report in corpus.reports if corpus else ():
            for line in report.lines():
                say(f"{name}: {line}")
    for finding in survey(splits):
        say(f"{finding.severity}: {finding.sentence()}")
    return splits


def train_tokenizers(corpus: TextCorpus, config: TokenizerConfig) -> TokenizerPair:
    """Learn the vocabularies of a training corpus, and say what had to differ from what was asked for."""
    tokenizers = TokenizerPair.train(_texts(corpus, 0), _texts(corpus, 1), config, len(corpus))
    for note in tokenizers.notes:
        say(f"tokenizer: {note}")
    return tokenizers


def tokenise_to_train(corpus: TextCorpus, tokenizers: TokenizerPair, config: Config) -> TokenisedCorpus:
    """Give the ids of all pairs that are short enough, kept for the next run; say how many are not."""
    limit = min(config.data.max_length, config.training.max_tokens_per_batch)
    tokenised = tokenise(corpus, tokenizers, limit, cached=True)
    lost = len(corpus) - len(tokenised)
    for report in tokenised.reports if lost else ():
        say(f"train: {report.lines()[0]}")
    if lost > len(corpus) // 20:
        say(
            f"warning: {lost} of {len(corpus)} pairs are longer than {limit} pieces; raise data.max_length (or "
            "training.max_tokens_per_batch, if that is what bounds them) to keep them"
        )
    if tokenised.reused:
        say("train: ids taken from an earlier run on the same text and vocabulary")
    return tokenised


def tokenise_to_measure(corpus: TextCorpus, tokenizers: TokenizerPair, config: Config) -> TokenisedCorpus:
    """Give every pair as ids, however long, except where learned positions end before it does."""
    longest = config.model.max_positions if config.model.positions == "learned" else None
    tokenised = tokenise(corpus, tokenizers, longest)
    for report in tokenised.reports if len(tokenised) < len(corpus) else ():
        say(f"perplexity: {report.lines()[0]}")
    return tokenised


def _texts(corpus: TextCorpus, column: int) -> Iterator[str]:
    """Bring in one side, a part at a time."""
    for piece in corpus.pieces():
        yield from piece.column(column).to_pylist()
