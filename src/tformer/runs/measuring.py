"""A corpus as ids for teacher-forced measures, which training and evaluation share."""

from tformer.config import Config
from tformer.data.corpus import Corpus
from tformer.data.store import TokenisedCorpus, tokenise
from tformer.data.tokenizer import TokenizerPair
from tformer.progress import say


def tokenise_to_measure(corpus: Corpus, tokenizers: TokenizerPair, config: Config) -> TokenisedCorpus:
    """Give every pair as ids, however long, except where learned positions end before it does."""
    longest = config.model.max_positions if config.model.positions == "learned" else None
    tokenised = tokenise(corpus, tokenizers, longest)
    if len(tokenised) < len(corpus.pairs):
        say(f"perplexity: {tokenised.report.lines()[0]}")
    return tokenised
