"""The token classification pipeline of an exported tagger: the same entities as where it was trained.

It differs from the library's own in three points. Words are those the tagger was trained on (`O'Brien` is one, `'s` is
one of its own), and each has the tag of its first subword. The tags are the best valid IOB2 sequence. Sentences longer
than the model are read in overlapping windows, so that nothing is cut off.
"""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import TokenClassificationPipeline

from .decoder import Decoder, Output, Window


class SpanPipeline(TokenClassificationPipeline):  # type: ignore[misc]
    """Takes texts, or lists of words with `is_split_into_words=True`, as the library's own pipeline does.

    An entity is a dictionary with `entity_group`, `score` (calibrated), `word`, and `start` and `end` in characters, of
    the text or of the words joined by `delimiter`; `word_start` and `word_end` count words. `aggregation_strategy` may
    be any but "none": all give the same entities.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.decoder = Decoder(self.model.config.crossner)

    def _sanitize_parameters(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        strategy = kwargs.get("aggregation_strategy")
        if str(getattr(strategy, "value", strategy)).lower() == "none" and strategy is not None:
            raise ValueError(
                'aggregation_strategy is "none", but this pipeline finds entities, not tags; use "simple", or the '
                'task "ner", which runs without the code of this folder.'
            )
        for name in ("ignore_labels", "offset_mapping", "stride"):
            if kwargs.get(name) is not None:
                raise ValueError(f"{name} is {kwargs[name]!r}; this pipeline has no such setting. Leave it out.")
        given: dict[str, Any] = {}
        if kwargs.get("is_split_into_words"):
            delimiter = kwargs.get("delimiter")
            given = {"is_split_into_words": True, "delimiter": " " if delimiter is None else delimiter}
        return given, {}, {}

    def preprocess(
        self, sentence: Any, is_split_into_words: bool = False, delimiter: str = " ", **_: Any
    ) -> Iterator[dict[str, Any]]:
        offsets: list[tuple[int, int]] = []
        if is_split_into_words:
            words, text = list(sentence), delimiter.join(sentence)
            for word in words:
                begin = offsets[-1][1] + len(delimiter) if offsets else 0
                offsets.append((begin, begin + len(word)))
        else:
            text, offsets = sentence, self.decoder.words(sentence)
            words = [text[start:end] for start, end in offsets]
        windows = []
        if words:
            own = self.tokenizer(
                words, is_split_into_words=True, add_special_tokens=False, truncation=False, verbose=False
            )
            windows = self.decoder.windows(self.decoder.pieces(own["input_ids"], own.word_ids(), len(words)))
        first = self.decoder.settings["first_ids"] + self.decoder.settings["last_ids"]
        for window in windows or [Window(0, 0, 0, True, first, [])]:
            ids = torch.tensor([window.input_ids])
            yield {
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                "window": window,
                "text": text,
                "offsets": offsets,
                "is_last": window.is_last,
            }

    def _forward(self, model_inputs: dict[str, Any]) -> dict[str, Any]:
        input_ids, attention = model_inputs.pop("input_ids"), model_inputs.pop("attention_mask")
        return {"logits": self.model(input_ids=input_ids, attention_mask=attention).logits, **model_inputs}

    def postprocess(self, all_outputs: list[dict[str, Any]], **_: Any) -> list[dict[str, Any]]:
        path: list[int] = []
        probabilities: list[float] = []
        for output in all_outputs:
            window = Window(*output["window"])
            if not window.positions:
                return []
            rows = output["logits"][0].float().cpu().numpy()
            before = path[-1] if window.rank else None
            ((tags, sure),) = self.decoder.decode([Output(window, rows, before)])
            path += tags.tolist()
            probabilities += sure.tolist()
        text, offsets = all_outputs[0]["text"], all_outputs[0]["offsets"]
        return [
            {
                "entity_group": span.type,
                "score": span.score,
                "word": text[offsets[span.start][0] : offsets[span.end - 1][1]],
                "start": offsets[span.start][0],
                "end": offsets[span.end - 1][1],
                "word_start": span.start,
                "word_end": span.end,
            }
            for span in self.decoder.spans(path, probabilities)
        ]
