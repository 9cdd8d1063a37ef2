"""Campaigns: their sentences, settings, people and domains."""
