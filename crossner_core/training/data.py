"""The data that a run is trained and measured on."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crossner_core.domains.texts import texts_of_name
from crossner_core.errors import BadInput, UnknownType
from crossner_core.schema import LabelledSentence, Sentence, Span, check_spans


@dataclass(frozen=True, slots=True)
class SourceCorpus:
    """A training corpus of another domain, with its own types.

    Its training sentences count `weight` times in an epoch of a source stage. `annotates` are the types that it would
    mark where they occur; those that it marks, if nothing is known. `parents` are its own domain's; `called` says
    what each type of its own is called here, empty for one left out, where that is not the name it has. `texts` say
    what its types mean, by what they are called here.
    """

    train: tuple[LabelledSentence, ...]
    dev: tuple[LabelledSentence, ...] = ()
    weight: float = 1.0
    annotates: frozenset[str] = frozenset()
    name: str = ""
    parents: Mapping[str, str] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def types(self) -> frozenset[str]:
        """The entity types that it marks, or would mark."""
        return self.annotates | {span.type for item in (*self.train, *self.dev) for span in item.spans}


@dataclass(frozen=True)
class TrainingData:
    """The sentences of a run; `types` in the domain's order; `snapshot` names the frozen gold, if there is one.

    `sources` are the source corpora, as `sources.prepared` returns them; settings treat them as one. `parents` maps
    types to their parent types, which a source corpus is more likely to have; `unlabelled` are sentences of the target
    domain, for settings that use unlabelled text. `proposed` are spans that gazetteer and links propose in sentences of
    `train` and `unlabelled`, by content hash, as additional evidence for the soft targets of self-training. `texts` say
    what the types mean, for architectures that read it.
    """

    train: tuple[LabelledSentence, ...]
    types: tuple[str, ...]
    dev: tuple[LabelledSentence, ...] = ()
    test: tuple[LabelledSentence, ...] = ()
    sources: tuple[SourceCorpus, ...] = ()
    snapshot: str = ""
    parents: Mapping[str, str] = field(default_factory=dict)
    unlabelled: tuple[Sentence, ...] = ()
    proposed: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(item.sentence.tokens for item in self.train):
            raise BadInput("There are no training sentences; create or import gold first.")
        if not self.types or len(set(self.types)) != len(self.types):
            raise BadInput(f"Entity types are {list(self.types)}; there must be at least one, without duplicates.")
        for part in (self.train, self.dev, self.test):
            _check(part, self.types)
        for part in (self.source_train, self.source_dev):
            _check(part, None)

    @property
    def source_train(self) -> tuple[LabelledSentence, ...]:
        """The training sentences of all source corpora, one after the other, each as often as it counts."""
        return tuple(item for source in self.sources for item in weighted(source))

    @property
    def source_annotated(self) -> tuple[frozenset[str], ...]:
        """The types that the corpus of each sentence of `source_train` annotates."""
        return tuple(types for source in self.sources for types in (source.types,) * len(weighted(source)))

    @property
    def source_dev(self) -> tuple[LabelledSentence, ...]:
        """The dev sentences of all source corpora, one after the other."""
        return tuple(item for source in self.sources for item in source.dev)

    @property
    def source_types(self) -> tuple[str, ...]:
        """The entity types found in the source corpora, sorted."""
        both = self.source_train + self.source_dev
        return tuple(sorted({span.type for item in both for span in item.spans}))

    def target_text(self) -> tuple[tuple[Sentence, ...], str]:
        """Return the target's training sentences without their labels, then its unlabelled ones, and a note on that."""
        note = f"The {len(self.train)} target training sentences are used without their labels."
        return tuple(item.sentence for item in self.train) + self.unlabelled, note

    def texts_of(self, types: Iterable[str], *, of_sources: bool = False) -> dict[str, tuple[str, ...]]:
        """Return what types mean: by the target or else the sources, `of_sources` by all of these; else their names."""
        texts = {} if of_sources else {name: tuple(own) for name, own in self.texts.items() if own}
        from_sources: dict[str, dict[str, None]] = {}
        for source in self.sources:
            for name, own in source.texts.items():
                from_sources.setdefault(name, {}).update(dict.fromkeys(own))
        return {name: texts.get(name) or tuple(from_sources.get(name) or (texts_of_name(name),)) for name in types}

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all sentences, spans and types."""
        parts = (self.train, self.dev, self.test, self.source_train, self.source_dev)
        tree = ",".join(f"{name}<{parent}" for name, parent in sorted(self.parents.items()))
        bare = corpus_hash(LabelledSentence(sentence, ()) for sentence in self.unlabelled) if self.unlabelled else ""
        sentences = (*(item.sentence for item in self.train), *self.unlabelled)
        proposals = [(sentence, self.proposed.get(sentence.content_hash)) for sentence in sentences]
        known = [LabelledSentence(sentence, tuple(spans)) for sentence, spans in proposals if spans is not None]
        extra = [f"unlabelled:{bare}" if bare else "", f"proposed:{corpus_hash(known)}" if known else ""]
        more = [name for name in (tree, *extra) if name]
        joined = "|".join([",".join(self.types), *(corpus_hash(part) for part in parts), *more])
        return hashlib.sha256(joined.encode()).hexdigest()


def weighted(source: SourceCorpus) -> tuple[LabelledSentence, ...]:
    """Return a source's training sentences `weight` times: whole copies, then randomly drawn ones."""
    whole, part = divmod(source.weight, 1)
    order = list(range(len(source.train)))
    random.Random(0).shuffle(order)
    drawn = sorted(order[: round(part * len(order))])
    return source.train * int(whole) + tuple(source.train[index] for index in drawn)


def corpus_hash(items: Iterable[LabelledSentence]) -> str:
    """SHA-256 over sentences and their spans, in order."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(item.sentence.content_hash.encode())
        digest.update(";".join(f"{span.start}-{span.end}-{span.type}" for span in item.spans).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def _check(items: tuple[LabelledSentence, ...], types: tuple[str, ...] | None) -> None:
    for item in items:
        check_spans(item.sentence, item.spans)
        unknown = {span.type for span in item.spans} - set(types) if types is not None else set()
        if types is not None and unknown:
            raise UnknownType(
                f"Sentence {item.sentence.id} has entity type {', '.join(sorted(unknown))}; "
                f"the domain defines {', '.join(types)}."
            )
