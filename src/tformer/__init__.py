"""tformer: the Transformer of *Attention Is All You Need*, trained and used from the command line or from Python."""

__version__ = "0.1.0"
