"""Self-training: a student learns from gold and from its teacher's word on bare target sentences."""
