"""The spaCy component of an exported tagger: it sets `doc.ents`, and spans with scores, without PyTorch.

Words are read by the rules of the tagger's own training, from the document's text. The package's tokenizer follows the
same rules, so that every entity is made of whole tokens; in another pipeline, an entity that begins or ends inside a
token is widened to it, and of two that then overlap the first is kept. A document whose sentences are known (say, from
a `sentencizer` before this component) is read sentence by sentence, else as a whole, in windows if it is long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, SpanGroup
from spacy.util import get_words_and_spaces, minibatch
from spacy.vocab import Vocab

from .decoder import MODEL, MODEL_INT8, Tagger, read_decoder

MODEL_FOLDER = Path(__file__).parent / "model"
FACTORY = f"{__package__}_tagger"
WORDS = f"{__package__}_words.v1"
GROUP = "crossner"
"""Key in `doc.spans` of the entities; the group's attribute `scores` lists the probability of each."""


class Words:
    """A tokenizer by the rules the tagger was trained with."""

    def __init__(self, vocab: Vocab) -> None:
        self.vocab, self.decoder = vocab, read_decoder(MODEL_FOLDER)

    def __call__(self, text: str) -> Doc:
        words, spaces = get_words_and_spaces([text[start:end] for start, end in self.decoder.words(text)], text)
        return Doc(self.vocab, words, spaces)

    def pipe(self, texts: Iterable[str], batch_size: int = 1000) -> Iterator[Doc]:
        yield from map(self, texts)

    # spaCy calls these of every tokenizer; the rules lie in the package, whatever a pipeline is saved as.
    def to_disk(self, path: Path, **_: Any) -> None: ...

    def from_disk(self, path: Path, **_: Any) -> Words:
        return self

    def to_bytes(self, **_: Any) -> bytes:
        return b""

    def from_bytes(self, data: bytes, **_: Any) -> Words:
        return self


@spacy.registry.tokenizers(WORDS)
def make_words():  # type: ignore[no-untyped-def]
    """Return what spaCy calls with a pipeline to make its tokenizer."""
    return lambda nlp: Words(nlp.vocab)


class Entities:
    """Sets `doc.ents` and `doc.spans["crossner"]`."""

    def __init__(self, threads: int = 0) -> None:
        has_full = (MODEL_FOLDER / MODEL).is_file() or not (MODEL_FOLDER / MODEL_INT8).is_file()
        self.tagger = Tagger.load(MODEL_FOLDER, int8=not has_full, threads=threads)

    def __call__(self, doc: Doc) -> Doc:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 32) -> Iterator[Doc]:
        """Yield the documents with their entities, `batch_size` of them at a time."""
        for docs in minibatch(stream, batch_size):
            docs = list(docs)
            parts = [(doc, begin, text) for doc in docs for begin, text in _sentences(doc)]
            by_doc: dict[int, list[tuple[int, int, str, float]]] = {id(doc): [] for doc in docs}
            answers = self.tagger.read_many([text for _, _, text in parts])
            for (doc, begin, _), spans in zip(parts, answers, strict=True):
                by_doc[id(doc)] += [(begin + s.start, begin + s.end, s.type, s.score) for s in spans]
            for doc in docs:
                yield _with_entities(doc, by_doc[id(doc)])


def _sentences(doc: Doc) -> list[tuple[int, str]]:
    """Return where each sentence begins, and its text; the whole text if nothing says where sentences end."""
    if doc.has_annotation("SENT_START"):
        return [(sentence.start_char, sentence.text) for sentence in doc.sents]
    return [(0, doc.text)]


def _with_entities(doc: Doc, entities: list[tuple[int, int, str, float]]) -> Doc:
    spans, scores, free = [], [], 0
    for start, end, label, score in entities:
        span = doc.char_span(start, end, label=label, alignment_mode="expand")
        if span is None or span.start < free:
            continue
        spans.append(span)
        scores.append(score)
        free = span.end
    doc.set_ents(spans)
    doc.spans[GROUP] = SpanGroup(doc, name=GROUP, spans=spans, attrs={"scores": scores})
    return doc


@Language.factory(FACTORY, assigns=["doc.ents", "doc.spans"], default_config={"threads": 0})  # type: ignore[untyped-decorator]
def make_entities(nlp: Language, name: str, threads: int) -> Entities:
    """Return the component; `threads` of 0 are as many as the machine has cores."""
    return Entities(threads)
