"""The model card: what a tagger was trained on and how, what it reaches, and how its scores are calibrated."""

from __future__ import annotations

from typing import Any

from crossner_core.exports.base import About
from crossner_core.models.registry import architecture_title
from crossner_core.training.predictor import Predictor
from crossner_core.training.recipe import effective


def card(predictor: Predictor, about: About, use: str) -> str:
    """Return README.md: metadata of the Hugging Face hub, then text; `use` says in Markdown how it is used."""
    parts = [
        f"---\n{_metadata(predictor, about)}\n---\n",
        f"# {about.name}\n",
        f"A tagger of named entities, of the types {', '.join(predictor.types)}. "
        f"Architecture: {architecture_title(predictor.recipe.architecture)}. Trained with the CrossNER workbench.\n",
        f"## Use\n\n{use}",
        f"## Data\n\n{_data(predictor, about)}\n",
        f"## Quality\n\n{_quality(about)}\n",
        f"## Scores\n\n{_calibration(predictor, about)}\n",
        f"## Licence\n\n{_LICENCE.format(encoder=predictor.meta['encoder'])}\n",
        f"## Recipe\n\n{_recipe(predictor)}\n",
    ]
    return "\n".join(parts)


_LICENCE = """\
Not stated: the workbench knows the licence neither of the texts nor of the encoder `{encoder}`. Whoever passes the
model on sets `license` at the top of this file."""


def _metadata(predictor: Predictor, about: About) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    test = about.result.test if about.result is not None else None
    results = None
    if test is not None:
        results = [
            EvalResult(
                task_type="token-classification",
                dataset_type="named-entity-recognition",
                dataset_name=about.trained_on,
                dataset_split="test",
                metric_type=name,
                metric_value=round(value, 4),
            )
            for name, value in (("f1", test.f1), ("precision", test.precision), ("recall", test.recall))
        ]
    data = ModelCardData(
        license="unknown",
        pipeline_tag="token-classification",
        tags=["named-entity-recognition", "crossner-workbench"],
        model_name=about.name,
        eval_results=results,
    )
    return data.to_yaml()


def _data(predictor: Predictor, about: About) -> str:
    lines = [f"- Trained on: {about.trained_on}"]
    if predictor.snapshot:
        lines.append(f"- Snapshot: `{predictor.snapshot}`")
    if about.result is not None:
        if about.result.data_hash:
            lines.append(f"- Hash of the data: `{about.result.data_hash}`")
        lines.append(f"- Training sentences: {about.result.train_sentences:,}")
        lines += [f"- Source corpus: {line.name}, {line.sentences:,} sentences" for line in about.result.sources]
    lines += [f"- Encoder: {predictor.meta['encoder']} (`{predictor.meta['encoder_hash'] or 'bundled'}`)"]
    return "\n".join(lines)


def _quality(about: About) -> str:
    test = about.result.test if about.result is not None else None
    if test is None:
        return "It was not measured: its data has no test sentences."
    lines = [
        f"Entity F1 on {test.sentences:,} test sentences, as conlleval counts it, in percent.\n",
        "| type | precision | recall | F1 | in gold |",
        "|---|---|---|---|---|",
    ]
    for name, score in [("all", test.overall), *test.per_type.items()]:
        values = " | ".join(f"{100 * value:.2f}" for value in (score.precision, score.recall, score.f1))
        lines.append(f"| {name} | {values} | {score.support:,} |")
    return "\n".join(lines)


def _calibration(predictor: Predictor, about: About) -> str:
    report = about.result.calibration if about.result is not None else None
    if report is None and predictor.calibration.spans.method == "identity":
        return "A span's score is the lowest probability among its tags; it is not calibrated."
    words = (
        "A span's score is the probability that it is right: the lowest among its tags' probabilities, mapped on dev."
    )
    return f"{words} {report.sentence}" if report is not None else words


def _recipe(predictor: Predictor) -> str:
    values: dict[str, Any] = effective(predictor.recipe.to_dict())
    return "\n".join(["| option | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in values.items())])
