"""Turn a recipe and a snapshot into a checkpoint."""
