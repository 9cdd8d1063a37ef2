"""Campaigns simulated with gold as oracle: which strategy gains the most F1 per sentence, entity and second."""
