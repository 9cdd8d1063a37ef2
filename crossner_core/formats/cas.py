"""UIMA CAS as XMI (with its type system beside it) and as JSON, as INCEpTION and DKPro write them."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from crossner_core.formats.base import ENTITY_LINKS, Format, InputFile, NamedFile, Parsed, register
from crossner_core.formats.layers import by_person
from crossner_core.formats.source import Data, content_of, opened, refused
from crossner_core.formats.standoff import (
    Mark,
    Text,
    count_links,
    entities_of,
    pieces_of,
    resource,
    stem_of,
    text_of,
)
from crossner_core.formats.webanno_tsv import (
    IDENTIFIER,
    NAMED_ENTITY,
    OF_GRAMMAR,
    LayerLayout,
    LayerOptions,
    choose_layer,
    short_name,
)
from crossner_core.formats.xml import check_xml, elements, fit_xml

if TYPE_CHECKING:
    from cassis import Cas, TypeSystem

TYPE_SYSTEM = "TypeSystem.xml"
_SEGMENTS = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type"
_SENTENCE, _TOKEN = f"{_SEGMENTS}.Sentence", f"{_SEGMENTS}.Token"
_OF_TEXT = ("uima.cas.String", "uima.cas.Integer", "uima.cas.Boolean")
_OF_DOCUMENTS = re.compile(r"uima\.|.*\.(DocumentMetaData|TagsetDescription|TagDescription|CASMetadata)\Z")


def read_xmi(files: Sequence[InputFile], options: LayerOptions) -> Iterator[Parsed]:
    """Read each XMI with the type system given, or DKPro's for sentences, tokens and named entities."""
    from cassis import load_cas_from_xmi, load_typesystem

    data = dict(files)
    known: dict[str, TypeSystem] = {}
    for name in (name for name in data if PurePosixPath(name).name == TYPE_SYSTEM):
        check_xml(data[name], name)
        known[str(PurePosixPath(name).parent)] = _loaded(name, lambda name=name: load_typesystem(opened(data[name])))
    for name in (name for name in data if PurePosixPath(name).name != TYPE_SYSTEM):
        check_xml(data[name], name)
        folders = map(str, PurePosixPath(name).parents)
        types = next((known[folder] for folder in folders if folder in known), None)
        system = types or dkpro_types()
        unknown = 0 if types else _unknown(data[name], name, system)
        yield from _document(
            name, _loaded(name, lambda name=name, system=system: load_cas_from_xmi(opened(data[name]), system, True)),
            "cas-xmi", options, is_given=types is not None, unknown=unknown,
        )  # fmt: skip


def read_json(files: Sequence[InputFile], options: LayerOptions) -> Iterator[Parsed]:
    """Read each CAS JSON, which brings its type system along."""
    from cassis import load_cas_from_json

    for name, data in files:
        cas = _loaded(name, lambda data=data: load_cas_from_json(BytesIO(content_of(data))))
        yield from _document(name, cas, "cas-json", options, is_given=True)


def open_cas(xmi: bytes, system: bytes, name: str) -> Cas:
    """Return the CAS of an XMI and the XML of its type system; raise BadInput for what is neither."""
    from cassis import load_cas_from_xmi, load_typesystem

    check_xml(system, TYPE_SYSTEM)
    check_xml(xmi, name)
    types = _loaded(TYPE_SYSTEM, lambda: load_typesystem(BytesIO(system)))
    return _loaded(name, lambda: load_cas_from_xmi(BytesIO(xmi), types, True))


def text_in(cas: Cas, name: str) -> Text:
    """Return the text of a CAS with its sentences and tokens; raise BadInput where it has none."""
    text = _text(cas, name)
    given = {
        type: sorted(
            (each.begin, each.end) for each in cas.select(type) if _is_in(each, text) and each.begin < each.end
        )
        if cas.typesystem.contains_type(type)
        else []
        for type in (_SENTENCE, _TOKEN)
    }
    return Text(stem_of(name), text, given[_SENTENCE] or None, given[_TOKEN] or None)


def xmi_of(cas: Cas, name: str) -> str:
    """Return a CAS as XMI; raise BadInput where it was read, but holds what cannot be written."""
    return str(_loaded(name, lambda: cas.to_xmi()))


def _text(cas: Cas, name: str) -> str:
    text = cas.sofa_string
    if not isinstance(text, str) or not text.strip():
        raise refused(name, 1, "the CAS has no text in its first view")
    return text


def _loaded(name: str, load: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return load()
    except Exception as error:  # the library raises whatever it meets: KeyError, TypeError, lxml's own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise refused(name, getattr(error, "lineno", None) or 1, f"it is no CAS that can be read: {reason}") from error


def _document(
    name: str, cas: Cas, format: str, options: LayerOptions, *, is_given: bool, unknown: int = 0
) -> Iterator[Parsed]:
    held = text_in(cas, name)
    text = held.text
    every = list(cas.select_all_annotations())
    counts = Counter(each.type.name for each in every if _is_in(each, text))
    chosen = choose_layer(_layers(cas.typesystem, counts), options, name)
    if options.layer and not counts[chosen[0]] and not is_given and chosen[0] != NAMED_ENTITY:
        raise refused(name, 1, f"the layer {chosen[0]} needs the type system: give {TYPE_SYSTEM} along")
    marks: list[Mark] = []
    others = re.compile(f"{OF_GRAMMAR.pattern}|{_OF_DOCUMENTS.pattern}")
    losses = Counter({f"annotations of types that {TYPE_SYSTEM} would define": unknown})
    for each in every:
        type = each.type.name
        if type == chosen[0] and _is_in(each, None):
            value = getattr(each, chosen[1], None) if chosen[1] else None
            entity = resource(getattr(each, IDENTIFIER, None), losses)
            marks.append(Mark(((each.begin, each.end),), str(value) if value else short_name(type), entity=entity))
        elif not others.match(type) and hasattr(each, "begin"):
            losses["relations" if hasattr(each, "Governor") else "annotations of other layers"] += 1
    layout = _LAYOUTS[format](layer=chosen[0], feature=chosen[1])
    yield from pieces_of(held, marks, options, layout, file=name, losses=losses)


def _unknown(data: Data, name: str, system: TypeSystem) -> int:
    """Count the annotations of an XMI whose types a type system does not have."""
    count = 0
    for event, element in elements(data, name):
        space, _, type = str(element.tag).rpartition("}")
        if event == "end" and element.get("begin") is not None and space:
            full = f"{space.removeprefix('{http:///').removesuffix('.ecore').replace('/', '.')}.{type}"
            count += not system.contains_type(full)
    return count


def _is_in(each: Any, text: str | None) -> bool:
    begin, end = getattr(each, "begin", None), getattr(each, "end", None)
    return isinstance(begin, int) and isinstance(end, int) and (text is None or 0 <= begin <= end <= len(text))


def _layers(system: TypeSystem, counts: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the features that can name a type, by layer: those that occur, or else that of named entities."""
    layers = {}
    for name in counts:
        if _OF_DOCUMENTS.match(name):
            continue
        features = {feature.name: str(feature.rangeType.name) for feature in system.get_type(name).all_features}
        if "Governor" not in features and "next" not in features:
            layers[name] = [
                feature
                for feature, kind in features.items()
                if kind in _OF_TEXT and feature not in ("begin", "end", IDENTIFIER, "order")
            ]
    if not any(not OF_GRAMMAR.match(name) for name in layers) and system.contains_type(NAMED_ENTITY):
        layers[NAMED_ENTITY] = ["value"]
    return layers


@lru_cache(maxsize=1)
def _dkpro_xml() -> str:
    from cassis import load_dkpro_core_typesystem

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str(load_dkpro_core_typesystem().to_xml())


def dkpro_types() -> TypeSystem:
    """Return a fresh copy of DKPro's type system."""
    from cassis import load_typesystem

    return load_typesystem(BytesIO(_dkpro_xml().encode()))


def write_xmi(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write each document as XMI, with layers one for each person, and their type system once."""
    system = None
    for document in by_person(documents, losses):
        cas = make_cas(document, losses, system, for_xml=True)
        system = cas.typesystem
        yield f"{document.name}.xmi", cas.to_xmi().encode()
    if system is not None:
        yield TYPE_SYSTEM, system.to_xml().encode()


def write_json(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write each document as JSON with its type system, with layers one for each person."""
    for document in by_person(documents, losses):
        yield f"{document.name}.json", make_cas(document, losses).to_json().encode()


def make_cas(document: Parsed, losses: Counter[str], system: TypeSystem | None = None, *, for_xml: bool = False) -> Cas:
    """Return a document as a CAS: text, sentences, tokens, and entities in the layer that they came in."""
    from cassis import Cas

    count_links(document, losses)
    system = system or dkpro_types()
    layout = document.layout
    layer, feature = (layout.layer, layout.feature) if isinstance(layout, LayerLayout) else (NAMED_ENTITY, "value")
    layer = layer or NAMED_ENTITY
    if not system.contains_type(layer):
        made = system.create_type(layer, "uima.tcas.Annotation")
        if feature:
            system.create_feature(made, feature, "uima.cas.String")
    text, starts = text_of(document)
    cas = Cas(system)
    cas.sofa_string, cas.sofa_mime = fit_xml(text, losses) if for_xml else text, "text/plain"
    sentence, token, entity = (system.get_type(name) for name in (_SENTENCE, _TOKEN, layer))
    for record, start in zip(document.sentences, starts, strict=True):
        cas.add(sentence(begin=start, end=start + len(record.sentence.text)))
        cas.add_all(token(begin=start + each.start, end=start + each.end) for each in record.sentence.tokens)
    has_identifier = any(each.name == IDENTIFIER for each in entity.all_features)
    for begin, end, type, linked in entities_of(document, starts):
        losses[ENTITY_LINKS] += linked is not None and not has_identifier
        named = {IDENTIFIER: linked} if linked is not None and has_identifier else {}
        cas.add(entity(begin=begin, end=end, **({feature: type} if feature else {}), **named))
    return cas


class XmiLayout(LayerLayout):
    """The layer and feature of an XMI file."""


class CasJsonLayout(LayerLayout):
    """The layer and feature of a CAS JSON file."""


_LAYOUTS = {"cas-xmi": XmiLayout, "cas-json": CasJsonLayout}

register(
    Format(
        "cas-xmi",
        "UIMA CAS XMI (INCEpTION)",
        (".xmi",),
        read_xmi,
        write_xmi,
        options_type=LayerOptions,
        layout_type=XmiLayout,
        by_document=True,
        annotates_documents=True,
        holds_entities=True,
        holds_layers=True,
        beside=(TYPE_SYSTEM,),
        content=re.compile(rb"<xmi:XMI\b"),
        example='<xmi:XMI … sofaString="Mara Vell sang."/>',
    )
)
register(
    Format(
        "cas-json",
        "UIMA CAS JSON (INCEpTION)",
        (".json",),
        read_json,
        write_json,
        options_type=LayerOptions,
        layout_type=CasJsonLayout,
        by_document=True,
        annotates_documents=True,
        holds_entities=True,
        holds_layers=True,
        content=re.compile(rb'\A\s*\{\s*"%(?:TYPES|FEATURE_STRUCTURES|VIEWS)"'),
        example='{"%TYPES": {…}, "%FEATURE_STRUCTURES": […], "%VIEWS": {…}}',
    )
)
