"""A trained tagger for pre-annotation; saved with its encoder's settings, so that it needs no hub."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from pydantic import Field
from torch import Tensor

from crossner_core.calibration.model_scores import Calibration, TagScores, join_scores
from crossner_core.encoders.base import Encoder, kind_in
from crossner_core.encoders.windows import Batch, Window
from crossner_core.errors import BadInput, CheckpointError, EncoderUnavailable, InvalidConfig
from crossner_core.models.base import Decoded, TokenTagger
from crossner_core.models.heads import head_tags
from crossner_core.models.registry import architecture
from crossner_core.records import read
from crossner_core.schema import Sentence, Span, Suggestion
from crossner_core.tags import spans_from_tags
from crossner_core.training.batches import ordered_batches
from crossner_core.training.checkpoint import read_folder, write_folder
from crossner_core.training.machine import pick_device, use_bf16
from crossner_core.training.recipe import Recipe, is_outdated

PARTS = "objective_parts."
T = TypeVar("T")


class Predictor:
    """Tags sentences with a trained model; `types` are the target's, the first ones of the model's head."""

    def __init__(
        self, model: TokenTagger, encoder: Encoder, types: Sequence[str], *, max_length: int, meta: dict[str, Any]
    ) -> None:
        self.model, self.encoder, self.types = model, replace(encoder, max_length=max_length), tuple(types)
        self.meta = meta
        self.calibration = Calibration()
        if meta.get("calibration"):  # absent in taggers of older versions, or without dev
            self.calibrate(Calibration.from_dict(meta["calibration"]))

    def calibrate(self, calibration: Calibration) -> None:
        """Calibrate the scores of suggestions from now on; the tags stay the same."""
        self.calibration, self.model.temperature = calibration, calibration.temperature
        self.meta = {**self.meta, "calibration": calibration.to_dict()}

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that indices in `tag_scores` refer to."""
        return self.model.tags

    @property
    def recipe(self) -> Recipe:
        """The recipe this tagger was trained with."""
        return Recipe.from_dict(self.meta["recipe"])

    @property
    def snapshot(self) -> str:
        """The hash of the snapshot this tagger was trained on; empty if there was none."""
        return str(self.meta["snapshot"])

    def predict(self, sentences: Sequence[Sentence], batch_size: int = 32) -> list[tuple[Suggestion, ...]]:
        """Return suggestions for each sentence, with scores calibrated on dev if available.

        A span's score is based on the lowest tag probability among its tokens.
        """
        source = f"model:{str(self.meta.get('name') or self.meta['recipe_hash'])[:12]}"
        answers = []
        for tags, probabilities in self.predict_tags(sentences, batch_size):
            spans = spans_from_tags(tags, strict=False)
            scores = self.calibration.spans([min(1.0, min(probabilities[s.start : s.end])) for s in spans])
            answers.append(
                tuple(
                    Suggestion(s.start, s.end, s.type, source, float(score))
                    for s, score in zip(spans, scores, strict=True)
                )
            )
        return answers

    def predict_spans(self, sentences: Sequence[Sentence], batch_size: int = 32) -> list[tuple[Span, ...]]:
        """Return the predicted spans of each sentence."""
        return [spans_from_tags(tags, strict=False) for tags, _ in self.predict_tags(sentences, batch_size)]

    def predict_tags(
        self, sentences: Sequence[Sentence], batch_size: int = 32
    ) -> list[tuple[tuple[str, ...], tuple[float, ...]]]:
        """Return each sentence's tags, one per token, with their probabilities, in sentence order."""
        windows = self.encoder.windows(sentences)
        return self.predict_windows(windows, len(sentences), batch_size)

    def predict_windows(
        self, windows: Sequence[Window], count: int, batch_size: int = 32
    ) -> list[tuple[tuple[str, ...], tuple[float, ...]]]:
        """Tag given windows, joined to `count` sentences."""
        allowed = len(head_tags(self.types))
        answers = self._in_order(
            windows, batch_size, lambda batch: self.model.decode(batch, allowed), lambda decoded: decoded.tags[-1]
        )
        parts: list[list[tuple[int, Decoded]]] = [[] for _ in range(count)]
        for window, decoded in zip(windows, answers, strict=True):
            parts[window.sentence].append((window.start, decoded))
        return [self._join(part) for part in parts]

    def tag_scores(self, sentences: Sequence[Sentence], batch_size: int = 32) -> list[TagScores]:
        """Return each sentence's chosen tags and the scores behind them, before any temperature."""
        return self.window_scores(self.encoder.windows(sentences), len(sentences), batch_size)

    def window_scores(self, windows: Sequence[Window], count: int, batch_size: int = 32) -> list[TagScores]:
        """Return what `tag_scores` does of given windows, joined to `count` sentences."""
        allowed = len(head_tags(self.types))

        def answer(batch: Batch) -> list[TagScores]:
            path, scores = self.model.decode_tags(batch, allowed)  # (B, W), (B, W, A)
            paths, values = path.cpu().numpy(), scores.double().cpu().numpy()
            return [
                TagScores(paths[row, :size].copy(), values[row, :size].copy())
                for row, size in enumerate(batch.sizes.lengths.tolist())
            ]

        answers = self._in_order(windows, batch_size, answer, lambda scored: int(scored.path[-1]))
        parts: list[list[tuple[int, TagScores]]] = [[] for _ in range(count)]
        for window, scored in zip(windows, answers, strict=True):
            parts[window.sentence].append((window.start, scored))
        ordered = (sorted(part, key=lambda placed: placed[0]) for part in parts)
        return [join_scores([scored for _, scored in part], allowed) for part in ordered]

    def _in_order(
        self,
        windows: Sequence[Window],
        batch_size: int,
        answer: Callable[[Batch], list[T]],
        last_tag: Callable[[T], int],
    ) -> list[T]:
        """Return a model's answer to each window; a sentence's later windows start from the preceding tag.

        Later windows are computed twice: with all others, so that batches and thus the others' last digits stay the
        same, and again once the preceding tag is known.
        """
        runs = _runs(windows)
        later, continued = {index for run in runs for index in run[1:]}, {index for run in runs for index in run[:-1]}
        answers: dict[int, T] = {}
        with self.evaluating():
            for indices, batch in self.batches(windows, batch_size):
                if later.issuperset(indices):
                    continue
                batch.goes_on = _flags(continued, indices, batch)
                answers.update(zip(indices, answer(batch), strict=True))
            for rank in range(1, max((len(run) for run in runs), default=0)):
                now = {run[rank]: run[rank - 1] for run in runs if len(run) > rank}
                chosen = list(now)
                for rows, batch in self.batches([windows[index] for index in chosen], batch_size):
                    indices = [chosen[row] for row in rows]
                    batch.goes_on = _flags(continued, indices, batch)
                    batch.before = torch.tensor(
                        [last_tag(answers[now[index]]) for index in indices], device=batch.mask.device
                    )
                    answers.update(zip(indices, answer(batch), strict=True))
        return [answers[index] for index in range(len(windows))]

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Put the model into evaluation mode without gradients; restore its mode at the end."""
        training = [module for module in self.model.modules() if module.training]
        if training:
            self.model.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            for module in training:
                module.training = True

    def batches(self, windows: Sequence[Window], batch_size: int) -> Iterator[tuple[list[int], Batch]]:
        """Yield batches of windows of similar length, with the windows' indices."""
        device = next(self.model.parameters()).device
        for indices in ordered_batches([len(window.input_ids) for window in windows], batch_size):
            yield indices, self.encoder.collate([windows[index] for index in indices]).to(device)

    def _join(self, parts: Iterable[tuple[int, Decoded]]) -> tuple[tuple[str, ...], tuple[float, ...]]:
        ordered = [decoded for _, decoded in sorted(parts, key=lambda part: part[0])]
        tags = tuple(self.model.tags[tag] for decoded in ordered for tag in decoded.tags)
        return tags, tuple(probability for decoded in ordered for probability in decoded.probabilities)


def _runs(windows: Sequence[Window]) -> list[list[int]]:
    """Return the window indices of each sentence with several windows, in order."""
    runs: dict[int, list[int]] = {}
    for index in sorted(range(len(windows)), key=lambda index: windows[index].start):
        runs.setdefault(windows[index].sentence, []).append(index)
    return [run for run in runs.values() if len(run) > 1]


def _flags(marked: Collection[int], indices: Sequence[int], batch: Batch) -> Tensor | None:
    """Return which windows of a batch are marked, (B,); None if none is."""
    flags = [index in marked for index in indices]
    return torch.tensor(flags, device=batch.mask.device) if any(flags) else None


@dataclass(frozen=True, slots=True)
class _Stated:
    """What a tagger's meta.json must state of its model."""

    encoder: str
    encoder_hash: str
    max_length: Annotated[int, Field(ge=8, le=1_000_000)]
    recipe: dict[str, Any]
    types: Annotated[list[str], Field(min_length=1)]
    head_types: Annotated[list[str], Field(min_length=1)]


_STATED = frozenset(field.name for field in fields(_Stated))


def build_model(recipe: Recipe, encoder: Encoder, types: Sequence[str]) -> TokenTagger:
    """Make an untrained model of the recipe's architecture over the tags of the types."""
    return architecture(recipe.architecture).build(encoder, head_tags(types), recipe)


def save_tagger(folder: Path, predictor: Predictor, head_types: Sequence[str]) -> None:
    """Write weights, encoder config, tokenizer and training metadata atomically."""

    def add_files(beside: Path) -> None:
        predictor.encoder.save(beside / "encoder", weights=False)

    meta = {**predictor.meta, "types": list(predictor.types), "head_types": list(head_types)}
    meta["max_length"] = predictor.encoder.max_length
    with predictor.evaluating():
        predictor.model.refresh()
    weights = {name: value for name, value in predictor.model.state_dict().items() if not name.startswith(PARTS)}
    write_folder(folder, meta, weights, add_files)


def load_tagger(path: str | Path, *, device: str = "auto", precision: str = "auto") -> Predictor:
    """Read a tagger from its folder or its run's folder; raise CheckpointError if missing, damaged or too new."""
    folder = Path(path)
    if (folder / "tagger").is_dir() or not (folder / "meta.json").exists():
        folder = folder / "tagger"
    meta, tensors = read_folder(folder)
    try:
        stated = read(_Stated, {name: value for name, value in meta.items() if name in _STATED}, "meta.json")
        encoder = kind_in(folder / "encoder").empty(folder / "encoder", weights=tensors)
        encoder.name, encoder.fingerprint = stated.encoder, stated.encoder_hash
        if is_outdated(stated.recipe):
            raise InvalidConfig("its types were compared otherwise.")
        model = build_model(Recipe.from_dict(stated.recipe), encoder, stated.head_types)
        model.load_state_dict(tensors)
        predictor = Predictor(model, encoder, stated.types, max_length=stated.max_length, meta=meta)
    except (BadInput, EncoderUnavailable, KeyError, OSError, TypeError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"Checkpoint {folder} is damaged: {error}. Delete it and train again.") from error
    except InvalidConfig as error:
        raise CheckpointError(
            f"Checkpoint {folder} was made by another version of the workbench, whose recipes differ ({error}) "
            "Delete it and train again."
        ) from error
    where = pick_device(device)
    model.use_bf16 = use_bf16(precision, where)
    model.to(where).eval()
    return predictor
