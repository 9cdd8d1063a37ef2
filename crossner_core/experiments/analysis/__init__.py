"""Measures of corpora, encoders and runs beside F1: by entity type, by words, by vectors."""
