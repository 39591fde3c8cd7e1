"""Text to batches: corpora, the tokenizer, and what training reads."""
