"""What one can look at: the attention of every head, the walk of one sentence, and a run."""
