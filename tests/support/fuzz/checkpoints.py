"""A small trained tagger as files."""

from __future__ import annotations

from pathlib import Path


def tagger_files(folder: Path) -> dict[str, bytes]:
    """Save an untrained tagger of the tiny encoder; return its files."""
    from crossner_core.training.predictor import Predictor, build_model, save_tagger
    from tests.support.training_builders import TYPES, tiny_encoder, tiny_recipe

    encoder, recipe = tiny_encoder(), tiny_recipe()
    meta = {"recipe": recipe.to_dict(), "recipe_hash": recipe.hash, "snapshot": "", "name": "tiny"}
    meta |= {"encoder": encoder.name, "encoder_hash": encoder.fingerprint}
    predictor = Predictor(build_model(recipe, encoder, TYPES), encoder, TYPES, max_length=64, meta=meta)
    save_tagger(folder, predictor, TYPES)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
