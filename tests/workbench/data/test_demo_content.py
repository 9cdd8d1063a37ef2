"""The demo sentences and the bundled DBpedia sample keep what the demo campaign is built on."""

from __future__ import annotations

import json
import lzma
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyoxigraph
import pytest

from crossner_core.schema import Sentence, Span, Token, check_spans
from tests.support.paths import ROOT

DEMO = ROOT / "workbench" / "demo"
SAMPLE = ROOT / "crossner_core" / "gazetteer" / "sample" / "dbpedia-sample.nt"
ONTOLOGY = ROOT.parent / "shared" / "data" / "dbpedia" / "ontology.owl.xz"
NER = ROOT.parent / "shared" / "data" / "ner"

RESOURCE, DBO = "http://dbpedia.org/resource/", "http://dbpedia.org/ontology/"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"

COMMON = ["person", "organisation", "location", "country", "event", "misc"]
TYPES = {
    "music": [*COMMON, "musicgenre", "song", "band", "album", "musicalartist", "musicalinstrument", "award"],
    "politics": [*COMMON, "politician", "politicalparty", "election"],
}
LEAST = {
    "music": {
        ("dev", "gold"): 14,
        ("test", "gold"): 20,
        ("pool", "gold"): 32,
        ("pool", "adjudicate"): 9,
        ("pool", "check"): 8,
        ("pool", "annotate"): 12,
    },
    "politics": {
        ("dev", "gold"): 6,
        ("test", "gold"): 8,
        ("pool", "gold"): 12,
        ("pool", "adjudicate"): 5,
        ("pool", "check"): 4,
        ("pool", "annotate"): 6,
    },
}
DOMAINS = sorted(TYPES)
Key = tuple[int, int, str]
Disagreement = tuple[int, int, str, str]


@lru_cache
def records(domain: str) -> tuple[dict[str, Any], ...]:
    lines = (DEMO / f"{domain}.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


@lru_cache
def triples() -> tuple[tuple[str, str, str], ...]:
    quads = pyoxigraph.parse(path=str(SAMPLE), format=pyoxigraph.RdfFormat.N_TRIPLES)
    return tuple((quad.subject.value, quad.predicate.value, quad.object.value) for quad in quads)


def keys(spans: list[dict[str, Any]]) -> set[Key]:
    return {(span["start"], span["end"], span["type"]) for span in spans}


def layers(record: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    yield from (record[name] for name in ("gold", "first", "second") if name in record)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def title(uri: str) -> str:
    return unicodedata.normalize("NFC", unquote(uri.removeprefix(RESOURCE))).replace("_", " ")


def entities(domain: str) -> dict[str, set[str]]:
    """Return the distinct entities, by link target where there is one, else by surface, with their types."""
    found: dict[str, set[str]] = {}
    for record in records(domain):
        target = {(link["start"], link["end"]): link["target"] for link in record["links"]}
        for start, end, type_ in keys(record["gold"]):
            name = target.get((start, end), record["text"][start:end])
            name = unicodedata.normalize("NFC", name)
            found.setdefault(name[:1].upper() + name[1:], set()).add(type_)
    return found


def disagreements(first: set[Key], second: set[Key]) -> Iterator[Disagreement]:
    """Name what differs between two layers: boundary and type where spans meet, else missing or extra."""
    for start, end, type_ in first - second:
        meets = [other for other in second if other[0] < end and start < other[1]]
        if not meets:
            yield start, end, type_, "extra"
        for other in meets:
            yield start, end, type_, "type" if other[:2] == (start, end) else "boundary"
    for start, end, type_ in second - first:
        if not any(other[0] < end and start < other[1] for other in first):
            yield start, end, type_, "missing"


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_sentences_are_distinct_and_of_readable_length(domain: str) -> None:
    found = records(domain)
    assert len({record["id"] for record in found}) == len({record["text"] for record in found}) == len(found)
    for record in found:
        assert 12 <= len(re.findall(r"\w+|[^\w\s]", record["text"])) <= 50, record["id"]
        assert 3 <= len(record["gold"]) <= 7, record["id"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_stages_hold_enough_sentences(domain: str) -> None:
    counts = Counter((record["split"], record["stage"]) for record in records(domain))
    assert set(counts) == set(LEAST[domain])
    assert all(counts[group] >= least for group, least in LEAST[domain].items()), counts


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_types_all_occur_in_dev_and_test(domain: str) -> None:
    by_split: dict[str, Counter[str]] = {"dev": Counter(), "test": Counter(), "pool": Counter()}
    for record in records(domain):
        by_split[record["split"]].update(span["type"] for span in record["gold"])
    total = sum(by_split.values(), Counter())
    assert set(total) == set(TYPES[domain])
    assert min(total.values()) >= 6
    assert set(by_split["dev"]) == set(by_split["test"]) == set(TYPES[domain])


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_spans_lie_on_whole_words_and_do_not_overlap(domain: str) -> None:
    for record in records(domain):
        text = record["text"]
        sentence = Sentence(record["id"], text, tuple(Token(at, at + 1) for at in range(len(text))))
        for layer in (*layers(record), [link | {"type": "link"} for link in record["links"]]):
            check_spans(sentence, [Span(*key) for key in keys(layer)])
            assert len(keys(layer)) == len(layer)
            for span in layer:
                surface = text[span["start"] : span["end"]]
                assert surface and surface == surface.strip(), (record["id"], surface)
                assert not re.search(r"[\w-]$", text[: span["start"]]), (record["id"], surface)
                assert not re.match(r"[\w\u0300-\u036f\ufe0f-]", text[span["end"] :]), (record["id"], surface)
        assert {span["type"] for layer in layers(record) for span in layer} <= set(TYPES[domain])


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_layers_fit_the_stage(domain: str) -> None:
    for record in records(domain):
        has = {name for name in ("first", "second", "flags") if name in record}
        if record["split"] != "pool" or record["stage"] == "annotate":
            assert not has, record["id"]
        elif record["stage"] == "check":
            assert has == {"first"}, record["id"]
        else:
            assert has == {"first", "second", "flags"}, record["id"]
            assert keys(record["flags"]) <= keys(record["first"]), record["id"]
            assert all(flag["note"].strip() for flag in record["flags"])
            assert not (record.get("blind") and record["flags"]), record["id"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_first_annotator_errs_in_about_one_of_eight_entities(domain: str) -> None:
    wrong = total = 0
    for record in records(domain):
        if "first" in record:
            gold, first = keys(record["gold"]), keys(record["first"])
            total += len(gold)
            wrong += len(list(disagreements(first, gold)))
    assert 0.09 <= wrong / total <= 0.16, (wrong, total)


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_share_of_blind_checks_and_comments(domain: str) -> None:
    checked = [record for record in records(domain) if "second" in record]
    assert 0.08 <= sum(record.get("blind", False) for record in checked) / len(checked) <= 0.17
    assert sum("comment" in record for record in records(domain)) >= 2


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_adjudication_finds_every_kind_of_disagreement(domain: str) -> None:
    waiting = [record for record in records(domain) if record["stage"] == "adjudicate"]
    found = [list(disagreements(keys(record["first"]), keys(record["second"]))) for record in waiting]
    assert sum(map(bool, found)) / len(waiting) >= 0.6
    kinds = {kind for each in found for *_, kind in each}
    assert kinds == {"boundary", "type", "missing", "extra"}
    kept = [record for record in waiting if keys(record["flags"]) & keys(record["second"])]
    assert kept, "no span is flagged without an alternative"


@pytest.mark.parametrize("domain", DOMAINS)
def test_demo_links_cover_about_three_quarters_of_the_entities(domain: str) -> None:
    linked = entities_found = others = 0
    for record in records(domain):
        gold = {(span["start"], span["end"]) for span in record["gold"]}
        links = {(link["start"], link["end"]) for link in record["links"]}
        linked, entities_found = linked + len(gold & links), entities_found + len(gold)
        others += len(links - gold)
    assert 0.7 <= linked / entities_found <= 0.8
    assert others >= 5


def test_demo_text_holds_the_awkward_characters() -> None:
    text = " ".join(record["text"] for domain in DOMAINS for record in records(domain))
    assert "\u2764\ufe0f" in text and "\U0001f339" in text
    assert re.search(r"o[\u0300-\u036f]", text), "no combining character"
    assert re.search(r"\([\u0590-\u05ff\s]+\)", text) and re.search(r"\([\u0600-\u06ff\s]+\)", text)
    assert re.search(r"\w 's\b", text), "no detached possessive"


def test_demo_sentences_share_no_eight_words_with_a_data_set() -> None:
    if not NER.is_dir():
        pytest.skip("../shared/data/ner is absent")
    own = {
        tuple(words(record["text"])[at : at + 8])
        for domain in DOMAINS
        for record in records(domain)
        for at in range(len(words(record["text"])) - 7)
    }
    for path in sorted(NER.glob("*/*.txt")):
        column = -1 if path.parent.name == "restaurant" else 0
        rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
        stream = words(" ".join(row[column] for row in rows if row))
        assert own.isdisjoint(zip(*(stream[at:] for at in range(8)), strict=False)), path


def test_sample_parses_and_is_large_enough() -> None:
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    assert len(triples()) == len(lines) == len(set(lines))
    assert len({subject for subject, predicate, _ in triples() if predicate == RDF_TYPE}) >= 300
    counts = Counter(predicate for _, predicate, _ in triples())
    assert counts[DBO + "wikiPageRedirects"] >= 30
    assert counts[DBO + "wikiPageDisambiguates"] >= 10


def test_sample_names_each_page_and_leads_nowhere_unknown() -> None:
    named = {subject: name for subject, predicate, name in triples() if predicate == RDFS_LABEL}
    typed = {subject for subject, predicate, _ in triples() if predicate == RDF_TYPE}
    for subject, predicate, value in triples():
        assert named[subject] == title(subject)
        if predicate.startswith(DBO):
            assert value in typed and subject not in typed, (subject, value)


def test_sample_covers_about_two_thirds_of_the_demo_entities() -> None:
    known = {
        title(subject) for subject, predicate, _ in triples() if predicate in (RDF_TYPE, DBO + "wikiPageRedirects")
    }
    shares = []
    for domain in DOMAINS:
        found = entities(domain)
        shares.append((sum(name in known for name in found), len(found)))
        for type_ in TYPES[domain]:
            names = [name for name, types in found.items() if type_ in types]
            assert any(name in known for name in names), (domain, type_)
    covered, total = (sum(column) for column in zip(*shares, strict=True))
    assert 0.6 <= covered / total <= 0.75, shares
    assert len(known - set().union(*(entities(domain) for domain in DOMAINS))) >= 80


def test_sample_classes_are_those_of_the_ontology_with_their_ancestors() -> None:
    if not ONTOLOGY.is_file():
        pytest.skip("../shared/data/dbpedia/ontology.owl.xz is absent")
    source = lzma.decompress(ONTOLOGY.read_bytes()).decode()
    blocks = re.findall(rf'<owl:Class rdf:about="{DBO}([^"]+)"(.*?)</owl:Class>', source, re.DOTALL)
    parents = {DBO + name: set(re.findall(rf'subClassOf rdf:resource="({DBO}[^"]+)"', body)) for name, body in blocks}
    classes: dict[str, set[str]] = {}
    for subject, predicate, value in triples():
        if predicate == RDF_TYPE:
            classes.setdefault(subject, set()).add(value)
    for subject, found in classes.items():
        assert found <= set(parents), (subject, found - set(parents))
        assert all(parents[name] <= found for name in found), subject
        assert len([name for name in found if not any(name in parents[other] for other in found)]) == 1, subject
