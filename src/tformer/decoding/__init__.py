"""From a trained model to text and its scores."""
