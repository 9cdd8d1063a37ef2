"""Suggestions of one of the campaign's runs; the job that scores the pool predicts and writes them."""

from __future__ import annotations

from crossner_core.suggest.base import SuggestionSource, register

MODEL = register(
    SuggestionSource(
        id="model",
        title="Trained models",
        cost="a pass of the encoder",
        kinds={"model": "model"},
        is_trained=True,
    )
)
