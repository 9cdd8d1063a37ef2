"""A type-aware tagger for types it was not trained on; measured by `python -m crossner_core.training.zero_shot`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from crossner_core.command_line import SeveralValuesCommand, flag, new_app, run_app
from crossner_core.domains import load_domain
from crossner_core.domains.texts import texts_of
from crossner_core.errors import CheckpointMismatch, InvalidConfig
from crossner_core.schema import LabelledSentence
from crossner_core.training.recipe import SOURCE_ONLY

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.evaluation.scores import Scores
    from crossner_core.experiments.corpora import Corpus
    from crossner_core.training.descriptions import Texts
    from crossner_core.training.predictor import Predictor

UNIVERSAL: Mapping[str, Any] = {
    "architecture": "type_aware",
    "setting": SOURCE_ONLY,
    "source_unmarked": "unknown",
    "source_temperature": 2.0,
    "source_epochs": 3,
    "source_learning_rate": 1e-4,
    "source_head_learning_rate": 1e-3,
    "type_encoder": "own",
    "type_negatives": "hard",
}
"""The recipe of a tagger for any types, apart from its sources."""
app = new_app()


def for_types(
    predictor: Predictor, pretrained: Encoder, texts: Texts, parents: Mapping[str, str] | None = None
) -> Predictor:
    """Return a tagger for the types that `texts` describe, which shares the predictor's encoder.

    A type that the predictor was trained on keeps the weights it has. Any other has those of the nearest of its
    `parents` that was, where the recipe lets types inherit; else it is known by its texts alone.
    `pretrained` is the encoder that the tagger was trained from: it reads the texts, unless the tagger's own does.
    Raises InvalidConfig for another architecture, CheckpointMismatch for another encoder.
    """
    from crossner_core.training.descriptions import read_texts
    from crossner_core.training.predictor import Predictor, build_model

    recipe = predictor.recipe
    if not recipe.reads_texts:
        raise InvalidConfig(
            f"A tagger of the architecture {recipe.architecture!r} knows its own types alone; train one with "
            "architecture 'type_aware', or another that reads what types mean."
        )
    if predictor.meta["encoder_hash"] != pretrained.fingerprint:
        raise CheckpointMismatch(
            f"The tagger was trained from another encoder than {pretrained.name!r}, so it cannot read texts by it; "
            f"name the one in its recipe ({recipe.encoder!r})."
        )
    device = next(predictor.model.parameters()).device
    model = build_model(recipe, predictor.encoder, tuple(texts)).to(device)
    model.copy_shared_tags(predictor.model, parents if recipe.inherit else None)
    reader = predictor.encoder if recipe.own_text_encoder else pretrained
    model.describe(replace(read_texts(recipe, reader, texts), batch=None))
    model.use_bf16 = predictor.model.use_bf16
    model.eval()
    meta = {**predictor.meta, "texts": dict(texts)}
    return Predictor(model, predictor.encoder, tuple(texts), max_length=predictor.encoder.max_length, meta=meta)


def knows(predictor: Predictor, texts: Texts) -> bool:
    """Return whether a type-aware tagger predicts just these types, and by these texts."""
    kept = predictor.meta["texts"]
    same_texts = {name: tuple(kept.get(name, ())) for name in predictor.types} == dict(texts)
    return same_texts and predictor.types == tuple(texts)


@dataclass(frozen=True, slots=True)
class ZeroShot:
    """What a tagger finds of a corpus's types: scores, and the mean error of its probabilities where it has any."""

    scores: Scores
    error: float
    spans: int


def measure(predictor: Predictor, items: Sequence[LabelledSentence]) -> ZeroShot:
    """Score a tagger on labelled sentences of its types."""
    import numpy as np

    from crossner_core.calibration.reliability import reliability
    from crossner_core.evaluation.scores import score_tags
    from crossner_core.tags import tags_from_spans

    predicted = predictor.predict([item.sentence for item in items])
    gold, tags, chances, right = [], [], [], []
    for item, suggestions in zip(items, predicted, strict=True):
        size = len(item.sentence.tokens)
        gold.append(tags_from_spans(item.spans, size))
        tags.append(tags_from_spans([each.span for each in suggestions], size))
        chances += [each.score for each in suggestions]
        right += [each.span in set(item.spans) for each in suggestions]
    error = reliability(np.array(chances), np.array(right, dtype=bool)).error if chances else 0.0
    return ZeroShot(score_tags(gold, tags, predictor.types), error, len(chances))


def open_domain(
    known: Predictor, encoder: Encoder, folder: Path, domain: str, leave_out: Sequence[str] = ()
) -> tuple[Predictor, Corpus]:
    """Return a tagger for the types of a built-in domain, and the corpus in a folder, without some types."""
    from crossner_core.experiments.corpora import read_corpus

    read, path = load_domain(domain), folder.expanduser().resolve()
    texts = {name: own for name, own in texts_of(read).items() if name not in leave_out}
    corpus = read_corpus(path.name, path.parent)
    train, dev, test = (without_types(part, leave_out) for part in (corpus.train, corpus.dev, corpus.test))
    return for_types(known, encoder, texts, read.parents), replace(corpus, train=train, dev=dev, test=test)


def without_types(items: Sequence[LabelledSentence], leave_out: Sequence[str]) -> tuple[LabelledSentence, ...]:
    """Return the sentences without their spans of some types."""
    return tuple(replace(item, spans=tuple(s for s in item.spans if s.type not in leave_out)) for item in items)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 for a user error."""
    return run_app(app, arguments, prog="python -m crossner_core.training.zero_shot")


@app.command(cls=SeveralValuesCommand, help=__doc__)
def zero_shot(
    tagger: Annotated[Path, flag("folder of a type-aware tagger, or of its run", "DIR")],
    data: Annotated[Path, flag("folder of the corpus to measure on", "DIR")],
    domain: Annotated[str, flag("built-in domain whose titles and guidelines are read", "NAME")],
    leave_out: Annotated[list[str] | None, flag("types that do not count, such as misc", "TYPE …")] = None,
    dev: Annotated[bool, flag("measure on dev, to choose by", None, "--dev")] = False,
    calibrate_on: Annotated[
        Path | None,
        flag("folder of another corpus, named like its built-in domain: its dev sentences calibrate the scores", "DIR"),
    ] = None,
) -> int:
    """Measure a tagger on types it may never have seen."""
    from crossner_core.calibration.model_scores import calibrate
    from crossner_core.encoders.loading import load_encoder
    from crossner_core.training.predictor import load_tagger

    out, known = tuple(leave_out or ()), load_tagger(tagger)
    encoder = load_encoder(known.recipe.encoder)

    made, corpus = open_domain(known, encoder, data, domain, out)
    if calibrate_on is not None:
        other, elsewhere = open_domain(known, encoder, calibrate_on, calibrate_on.name, out)
        calibrate(other, elsewhere.dev)
        made.calibrate(other.calibration)
    measured = measure(made, corpus.dev if dev else corpus.test)
    seen = set(known.meta["trained_types"])
    print(f"{'type':24} {'seen':5} {'F1':>6} {'gold':>6}")
    for name, score in measured.scores.per_type.items():
        print(f"{name:24} {'yes' if name in seen else 'no':5} {100 * score.f1:6.2f} {score.support:6}")
    total = measured.scores
    print(
        f"{'dev' if dev else 'test'} F1 {100 * total.f1:.2f} (precision {100 * total.precision:.2f}, recall "
        f"{100 * total.recall:.2f}), without {', '.join(out) or 'nothing'}; calibration error {measured.error:.3f} "
        f"of {measured.spans} spans"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
