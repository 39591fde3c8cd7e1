"""The built-in English→French corpus: a small grammar over a lexicon, and what a seed makes of them."""
