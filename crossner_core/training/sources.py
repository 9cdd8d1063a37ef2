"""The source corpora of a run: how often each counts, and what their types are called in training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.schema import LabelledSentence, Span
from crossner_core.training.data import SourceCorpus, corpus_hash, weighted
from crossner_core.training.recipe import APART, SOURCE_MAPS, Recipe, check_temperature, type_entries
from crossner_core.type_maps import TypeMap, load_type_map


@dataclass(frozen=True, slots=True)
class SourceLine:
    """What a run has from a source: sentences to train on, their entities, and what became of its types.

    `shared` types are the target's by name; `mapped` are those renamed, theirs → ours, empty if left out; `apart` are
    types of its own, which teach the encoder, not the target's head. `weight` is how often a sentence counts in an
    epoch, and `counts` how many that makes.
    """

    name: str
    sentences: int
    entities: int
    shared: tuple[str, ...]
    mapped: Mapping[str, str]
    apart: tuple[str, ...]
    weight: float
    counts: int
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return asdict(self) | {"shared": list(self.shared), "apart": list(self.apart), "mapped": dict(self.mapped)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SourceLine:
        """Build a line from what `to_dict` returned."""
        return cls(**{**values, "shared": tuple(values["shared"]), "apart": tuple(values["apart"])})


def prepared(recipe: Recipe, sources: Sequence[SourceCorpus], types: Sequence[str]) -> tuple[SourceCorpus, ...]:
    """Return the sources as a run on a target with these types learns from them, in the order of their names.

    Raises InvalidConfig for a type map that does not fit, and for types that the target shares only because both are
    numbers.
    """
    check_temperature(recipe.source_temperature, {source.name: source.weight for source in sources})
    names = [source.name for source in sources]
    entries = type_entries(recipe.source_types, names)
    weights = temperature_weights([len(source.train) for source in sources], recipe.source_temperature)
    type_map = load_type_map(recipe.source_map) if recipe.source_map not in SOURCE_MAPS else None
    made = []
    for source, weight in zip(sources, weights, strict=True):
        named = _names(source, types, entries, recipe.source_map, type_map)
        _check_numbers(source, named, types)
        made.append(replace(_renamed(source, named), weight=source.weight * weight))
    return tuple(sorted(made, key=lambda source: source.name))


def temperature_weights(sizes: Sequence[int], temperature: float) -> tuple[float, ...]:
    """Return how often each source counts, so that they are drawn with p ∝ n^(1/T), and as many sentences as before.

    Source: Conneau et al. 2020 (XLM-R), section 3.1, whose α is 1/T.
    """
    if temperature == 1 or not sum(sizes):
        return (1.0,) * len(sizes)
    powers = [float(size) ** (1 / temperature) if size else 0.0 for size in sizes]
    return tuple(
        power / sum(powers) * sum(sizes) / size if size else 1.0 for size, power in zip(sizes, powers, strict=True)
    )


def source_lines(sources: Sequence[SourceCorpus], types: Sequence[str]) -> tuple[SourceLine, ...]:
    """Return what a run on a target with these types has from each of its sources."""
    lines = []
    for source in sources:
        called = source.called or {name: name for name in source.types}
        shared = {name for name, ours in called.items() if name == ours and ours in types}
        mapped = {name: ours for name, ours in called.items() if name != ours and not ours.startswith(f"{name}{APART}")}
        lines.append(
            SourceLine(
                name=source.name,
                sentences=len(source.train),
                entities=sum(len(item.spans) for item in source.train),
                shared=tuple(sorted(shared)),
                mapped=dict(sorted(mapped.items())),
                apart=tuple(sorted(set(called) - shared - set(mapped))),
                weight=round(source.weight, 4),
                counts=len(weighted(source)),
                hash=_hash(source),
            )
        )
    return tuple(lines)


def source_warnings(sources: Sequence[SourceCorpus], types: Sequence[str], recipe: Recipe) -> tuple[str, ...]:
    """Return what is doubtful about a run's sources: no common types, numbers as types, entries for absent types."""
    return tuple(_warnings(sources, set(types), recipe))


def _warnings(sources: Sequence[SourceCorpus], types: set[str], recipe: Recipe) -> Iterator[str]:
    for source in sources:
        theirs = ", ".join(sorted(source.types)) or "none"
        if numbers := [name for name in sorted(source.types) if name.isdecimal()]:
            yield (
                f"Source {source.name} has types that are numbers ({', '.join(numbers[:8])}): they say nothing about "
                f"what they mark, and train apart. Name them by source_types, as in {numbers[0]}@{source.name}=person."
            )
        if not source.types & types and not recipe.reads_texts:
            yield (
                f"Source {source.name} has no type in common with the target (it has {theirs}): only the encoder "
                "learns from it. Map its types by source_types (THEIRS=OURS) or source_map, or leave it out."
            )
    known = {(name, of) for source in sources for name in source.called or source.types for of in ("", source.name)}
    for name, of in sorted(type_entries(recipe.source_types).keys() - known):
        where, whose = (f"{APART}{of}", f"source {of} does not have") if of else ("", "no source has")
        yield f"source_types has {name + where!r}, a type that {whose}: it has no effect."


def _names(
    source: SourceCorpus,
    types: Sequence[str],
    entries: Mapping[tuple[str, str], str | None],
    rule: str,
    type_map: TypeMap | None,
) -> dict[str, str]:
    """Return what a source's types become, those that change; empty for a type that is left out."""
    made = {}
    for name in sorted(source.types):
        entry = next((place for place in ((name, source.name), (name, "")) if place in entries), None)
        if entry is not None:
            ours = entries[entry]
            made[name] = f"{name}{APART}{source.name}" if ours is None else ours
        elif type_map is not None and (name in type_map.types or type_map.strict):
            if name not in type_map.types:
                raise InvalidConfig(
                    f"Source {source.name} has the type {name!r}, which the type map {type_map.name} does not name "
                    f'(it has {", ".join(type_map.types)}). Add it there, write others = "keep" into the map, or '
                    f"name it by source_types, as in {name}@{source.name}=OURS."
                )
            made[name] = type_map.types[name]
        elif rule == "parent" and name not in types:
            made[name] = next((above for above in _ancestors(source, name) if above in types), name)
    return {name: ours for name, ours in made.items() if ours != name}


def _ancestors(source: SourceCorpus, name: str) -> Iterator[str]:
    """Yield the types above one in the source's own domain, nearest first."""
    while name in source.parents:
        name = source.parents[name]
        yield name


def _renamed(source: SourceCorpus, names: Mapping[str, str]) -> SourceCorpus:
    """Return the source with other names for its types; entities without a name are left out."""
    if not names:
        return source
    return replace(
        source,
        train=tuple(_item(item, names) for item in source.train),
        dev=tuple(_item(item, names) for item in source.dev),
        annotates=frozenset(ours for name in source.types if (ours := names.get(name, name))),
        called={name: names.get(name, name) for name in source.types},
        texts=_texts(source, names),
    )


def _texts(source: SourceCorpus, names: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return what a source's types mean by their new names; types that become one have the texts of both."""
    texts: dict[str, tuple[str, ...]] = {}
    for name, own in source.texts.items():
        if ours := names.get(name, name):
            texts[ours] = (*texts.get(ours, ()), *own)
    return texts


def _item(item: LabelledSentence, names: Mapping[str, str]) -> LabelledSentence:
    if not any(span.type in names for span in item.spans):
        return item
    spans = (Span(span.start, span.end, names.get(span.type, span.type)) for span in item.spans)
    return replace(item, spans=tuple(span for span in spans if span.type))


def _check_numbers(source: SourceCorpus, names: Mapping[str, str], types: Sequence[str]) -> None:
    if common := sorted(name for name in source.types & set(types) if name.isdecimal() and name not in names):
        raise InvalidConfig(
            f"Source {source.name} and the target share the types {', '.join(common)}, which are numbers: that they "
            f"are equal does not say that they mean the same. Say what they are by source_types "
            f"({common[0]}@{source.name}=OURS), or keep them apart ({common[0]}@{source.name})."
        )


def _hash(source: SourceCorpus) -> str:
    parts = f"{corpus_hash(source.train)}|{corpus_hash(source.dev)}|{','.join(sorted(source.types))}"
    return hashlib.sha256(parts.encode()).hexdigest()[:12]
