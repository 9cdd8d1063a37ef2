"""Campaigns played through with gold as oracle: which strategy buys the most F1 for sentences, entities and seconds."""
