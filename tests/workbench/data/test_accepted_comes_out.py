"""A property: whatever an import accepts comes out of every export again, with the same texts, spans and types."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossner_core.domains import load_domain
from crossner_core.errors import WorkbenchError
from tests.support.archives import contents, zipped
from tests.support.builders import Tab, first_choices
from tests.support.fuzz.coming_out import check_campaign, check_dataset
from tests.support.fuzz.mutating import mutate, mutate_value
from tests.support.fuzz.ways import Scene
from workbench.campaigns import campaigns
from workbench.data import archive, datasets, exchange

ODD_TYPES = ("hip hop", " x", "a\tb", "a\nb", "O", "-", "\0", "", "a,b", "\u2028", "\ud800", "\u200f")
TYPES = ("person", "band", "song", "musicalartist")
ODD_WORDS = (
    "\x01", "\x1b[2J", "a\x7f", "\x85", "\u2028", "\ufeff", "\u202eabc", "e\u0301", "\u0301", "İ",
    "👩🏽‍🚀", "\U00010348", "a\tb", "a\nb", "a\r\nb", "a\rb", " a", "a ", "-DOCSTART-", "#", "# x", "O", "B-song", "1",
    "[", '"', "\\", "{", "</script>", "=1+1", "x" * 3_000, "\u00a0a", "a\u3000b", "\u200b", "a\x1cb", "''", "…",
)  # fmt: skip
WORDS = st.sampled_from(ODD_WORDS) | st.sampled_from(["Ada", "sang", "Low", "Tide", ".", "Oslo", "Mr."])
RARE = st.sampled_from([False] * 30 + [True])
"""Whether to put in what no import accepts: were it frequent, nothing would come in."""
VALUES = st.recursive(
    st.sampled_from([None, True, 0, -1, 2**70, 10**300, 0.5, 1e308, "", "\x01", "\u2028"])
    | st.sampled_from(["é", "👩🏽‍🚀", [[0, 1, "person"]], [{"start": 0}], ["O"], ["B-song"], "2020"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "", "start"]), inner),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["meta", "", "n", "entities", "spans", "labels", "tags", "ner", "words", "_layout", "é"]
)  # fmt: skip
BAD_VALUES = st.integers(90, 300).map(lambda depth: json.loads("[" * depth + "]" * depth)) | st.sampled_from(
    [float("nan"), float("inf"), ["\0"], {"\ud800": 1}, {"a": "\ud800"}]
)
NAMES = st.sampled_from(
    ["a", "b", "A", "../x", "x", "/x", "CON", "con", "", " ", "n" * 300, "a/b", "a\\b", "é", "e\u0301", "\udce9",
     "a\0b",
     "a\nb", "..", "-", "b.c"]
)  # fmt: skip
SPACES = st.sampled_from([" ", " ", " ", "", "  ", "\n", "\t", "\r", "\r\n", "\u2028", "\u00a0"])


@st.composite
def objects(draw: st.DrawFn, gold: bool = False) -> dict[str, Any]:
    """One object of JSON lines: words with odd spaces between them, spans, links and metadata."""
    words = draw(st.lists(WORDS, min_size=1, max_size=5))
    if draw(RARE):
        words.append(draw(st.sampled_from(["\ud800", "a\0"])))
    text, tokens = draw(st.sampled_from(["", "", " ", "\n"])), []
    for word in words:
        tokens.append([len(text), len(text) + len(word)])
        text += word + draw(SPACES)
    made: dict[str, Any] = {"text": text}
    if draw(st.booleans()):
        made["id"] = draw(st.sampled_from(["a", "b", "c", "d", 5, 10**300, "n" * 300, "é\n"]))
    if draw(RARE):
        made["id"] = draw(st.sampled_from(["", "\0", "\ud800"]))
    if draw(st.integers(0, 3)):
        made["tokens"] = tokens
    where = st.sampled_from(tokens)
    types = st.sampled_from(ODD_TYPES if draw(RARE) else TYPES)
    if gold or draw(st.integers(0, 3)):
        made["gold"] = [
            {"start": token[0], "end": token[1], "type": draw(types)}
            for token in draw(st.lists(where, max_size=2, unique_by=tuple))
        ]
    if draw(st.booleans()):
        targets = st.sampled_from(["\0", "\ud800"] if draw(RARE) else ["Oslo", "a\nb"])
        made["links"] = [{"start": token[0], "end": token[1], "target": draw(targets)} for token in [draw(where)]]
    made |= draw(st.dictionaries(KEYS, VALUES, max_size=2))
    if draw(RARE):
        made["bad"] = draw(BAD_VALUES)
    return made


@st.composite
def json_lines(draw: st.DrawFn, gold: bool = False) -> str:
    dumps = [
        {"ensure_ascii": ascii, "separators": cut} for ascii in (True, False) for cut in ((", ", ": "), (",", ":"))
    ]
    lines = [
        json.dumps(value, **draw(st.sampled_from(dumps)))
        for value in draw(st.lists(objects(gold=gold), min_size=1, max_size=4))
    ]
    end = draw(st.sampled_from(["\n", "\n", "\r\n", "\r", "\n\n", "\n \n"]))
    return draw(st.sampled_from(["", "", "\ufeff", end])) + end.join(lines) + draw(st.sampled_from([end, ""]))


@st.composite
def columns(draw: st.DrawFn, gold: bool = False) -> str:
    cut = draw(st.sampled_from(["\t", "\t", " "]))
    tagged, wide = gold or draw(st.booleans()), draw(st.booleans())
    blocks = []
    for _ in range(draw(st.integers(1, 4))):
        rows = []
        for _ in range(draw(st.integers(1, 4))):
            word = draw(WORDS.map(lambda word: re.sub(r"[\s]", "", word) or "x"))
            tag = draw(st.sampled_from(["O", "O", "B-person", "I-person", "B-song"]))
            tag = draw(st.sampled_from(["B-hip hop", "S-band", "E-song", "X"])) if draw(RARE) else tag
            rows.append(cut.join([word, *(["NN"] if wide else []), *([tag] if tagged else [])]))
        blocks.append(draw(st.sampled_from(["", "", "# c\n", "-DOCSTART- -X-\n\n", "\n"])) + "\n".join(rows))
    text = draw(st.sampled_from(["", "", "\ufeff", "\n"])) + "\n\n".join(blocks)
    return (text + draw(st.sampled_from(["\n", "", "\n\n"]))).replace(
        "\n", draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    )


@st.composite
def prose(draw: st.DrawFn) -> str:
    pieces = draw(st.lists(WORDS | SPACES | st.sampled_from([". ", "! He", ".\n\n", "\n"]), min_size=1, max_size=12))
    return draw(st.sampled_from(["", "\ufeff"])) + "".join(pieces)


CONTENT = {".jsonl": json_lines(), ".conll": columns(), ".tsv": columns(), ".txt": prose()}
LABELLED = {".jsonl": json_lines(gold=True), ".conll": columns(gold=True)}


@st.composite
def named_file(draw: st.DrawFn, content: Mapping[str, st.SearchStrategy[str]] = CONTENT) -> tuple[str, bytes]:
    suffix = draw(st.sampled_from(sorted(content)))
    return draw(NAMES) + suffix, draw(content[suffix]).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return Scene(tmp_path_factory.mktemp("scene"))


_NUMBERS = itertools.count()
OPTIONS = st.fixed_dictionaries({"annotation": st.sampled_from(exchange.ANNOTATIONS), "skip_bad": st.booleans()})
FEW = settings(
    deadline=None,
    max_examples=30,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ],
)


@given(
    files=st.lists(named_file(), min_size=1, max_size=3),
    options=OPTIONS,
    paragraphs=st.booleans(),
    seed=st.integers(0, 3),
)
@FEW
def test_files_of_a_campaign_come_out(scene: Scene, files: Any, options: Any, paragraphs: bool, seed: int) -> None:
    store, admin = scene.store, scene.people["adm"]
    campaign = new_campaign(scene)
    if paragraphs and len(files) == 1 and files[0][0].endswith(".txt"):
        options = {**options, "options": {"split": "paragraphs"}, "format": "plain"}
    try:
        exchange.import_files(store, admin, campaign, files, preannotate=seed == 0, **options)
    except WorkbenchError:
        return
    work_on(scene, campaign, seed)
    check_campaign(store, admin, campaign)


@given(
    splits=st.dictionaries(st.sampled_from(datasets.SPLITS), named_file(LABELLED), min_size=1), skip_bad=st.booleans()
)
@FEW
def test_data_sets_come_out(scene: Scene, splits: Any, skip_bad: bool) -> None:
    store, admin, name = scene.store, scene.people["adm"], f"set-{next(_NUMBERS)}"
    try:
        datasets.import_dataset(store, admin, name=name, splits=splits, skip_bad=skip_bad)
    except WorkbenchError:
        return
    check_dataset(store, admin, name)


@given(files=st.lists(named_file(), min_size=1, max_size=2), skip_bad=st.booleans(), seed=st.integers(0, 10**6))
@FEW
def test_mutated_archives_come_out(scene: Scene, files: Any, skip_bad: bool, seed: int) -> None:
    store, admin, campaign = scene.store, scene.people["adm"], new_campaign(scene)
    try:
        exchange.import_files(store, admin, campaign, files, annotation="gold", preannotate=False, skip_bad=skip_bad)
    except WorkbenchError:
        return
    work_on(scene, campaign, seed % 4)
    inside = contents(archive.export_campaign(store, admin, campaign))
    lines = inside["sentences.jsonl"].splitlines(keepends=True)
    number, rng = seed % len(lines), random.Random(seed)
    line = json.loads(lines[number])
    part = rng.choice(["meta", "meta", "meta", "meta", "external_id", "links", "suggestions", "tokens", "tasks"])
    value = mutate_value(line[part], rng)
    if gaps(value) != gaps(line[part]):
        return  # what stood between sentences is given back as it came, sentences among it too
    lines[number] = json.dumps({**line, part: value}).encode() + b"\n"
    changed = zipped({**inside, "sentences.jsonl": b"".join(lines)} if seed % 5 else mutate([inside], rng))
    try:
        again = archive.import_campaign(store, admin, changed, name=f"C{next(_NUMBERS)}")
    except WorkbenchError:
        return
    check_campaign(store, admin, again, max_tokens=10**9)


def gaps(value: Any) -> list[Any]:
    """Return the texts between sentences that a sentence's metadata keeps."""
    if not isinstance(value, dict):
        return []
    own = [part for name, part in value.items() if name in ("before", "tail")]
    return own + [gap for part in value.values() for gap in gaps(part)]


def new_campaign(scene: Scene) -> int:
    return campaigns.create_campaign(
        scene.store, scene.people["adm"], name=f"C{next(_NUMBERS)}", domain=load_domain("music"),
        member_ids=[person.id for person in scene.people.values()], blind_share=0.0, control_share=0.0,
    )  # fmt: skip


def work_on(scene: Scene, campaign: int, seed: int) -> None:
    """Have up to four sentences annotated, checked and adjudicated, the last first; none where `seed` is 0."""
    for name, stage in (("ann1", "annotate"), ("ann2", "check"), ("eva", "adjudicate"))[:seed]:
        tab = Tab(scene.store, scene.people[name], campaign, stage)
        for item in reversed(tab.items(4)):
            spans, parts = [(0, 1, "song")], {}
            if stage == "adjudicate":
                spans, parts["decisions"] = first_choices(item)
            assert not tab.do("submit", item, spans, parts=parts).rejections
