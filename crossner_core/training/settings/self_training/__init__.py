"""Self-training: a student learns from gold and from its teacher's soft targets on bare target sentences."""
