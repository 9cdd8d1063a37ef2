"""The registry of sources of suggestions, and a new source: one file, registered here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.calibration.proposals import learn
from crossner_core.errors import InvalidConfig
from crossner_core.schema import Sentence, Span, Suggestion
from crossner_core.suggest import base
from crossner_core.suggest.base import (
    Resources,
    Suggester,
    SuggestionSource,
    is_from_names,
    is_trained,
    reads_sentences,
    register,
    sources,
    words_of,
)
from db import suggestion_rows
from db.engine import Store
from db.tables import SentenceRow, SuggestionRow
from workbench.accounts.actors import SYSTEM, Actor
from workbench.reports.figures import Material, four_figures
from workbench.suggestions import preannotating

People = dict[str, Actor]


@dataclass(frozen=True)
class WordSettings:
    """The settings of the toy source."""

    word: str = field(default="The", metadata={"doc": "Every sentence that begins so has a band there."})


def open_words(settings: WordSettings, resources: Resources) -> Suggester:
    kind = resources.domain.type_names[0]

    def suggest(sentences: Sequence[Sentence]) -> list[tuple[Suggestion, ...]]:
        starts = (sentence.words[0] == settings.word for sentence in sentences)
        return [(Suggestion(0, 1, kind, "toy:words", 0.5),) if starts_so else () for starts_so in starts]

    return suggest


TOY = SuggestionSource(
    id="toy",
    title="First words",
    cost="nothing",
    kinds={"toy": "first word"},
    settings=WordSettings,
    open=open_words,
)


@pytest.fixture
def toy() -> Iterator[SuggestionSource]:
    sources()  # those of the package come first
    yield register(TOY)
    del base.SOURCES[TOY.id]


def _stored(store: Store) -> list[tuple[int, str]]:
    with store.read() as session:
        rows = session.scalars(sa.select(SuggestionRow).order_by(SuggestionRow.sentence_id, SuggestionRow.start))
        return [(row.sentence_id, row.source) for row in rows]


def test_sources_are_the_files_of_the_package_with_settings_that_have_defaults() -> None:
    files = {path.stem for path in Path(base.__file__).parent.glob("*.py")} - {"__init__", "base"}
    assert {one.id for one in sources()} == files
    for one in sources():
        assert one.title and one.cost and one.kinds and all(one.kinds.values())
        assert one.settings() == one.settings_from(object())
        assert all(one.doc(field.name) for field in fields(one.settings))
    kinds = [kind for one in sources() for kind in one.kinds]
    assert len(kinds) == len(set(kinds)) and set(kinds) >= {
        "dbpedia",
        "link",
        "model",
        "page",
    }  # stored in campaigns, and so they stay


def test_a_kind_has_one_source_and_an_unknown_source_is_named(toy: SuggestionSource) -> None:
    with pytest.raises(InvalidConfig, match="'link' already belong to the source 'gazetteer'"):
        register(SuggestionSource("other", "Other", "nothing", {"link": "a link"}))
    with pytest.raises(InvalidConfig, match=r"'nobody'; choose one of chat, gazetteer, .*model, .*toy"):
        base.source("nobody")
    assert words_of("toy:words") == "first word" and words_of("elsewhere") == "elsewhere"
    assert is_trained("model:run 3") and not is_trained("toy:words") and not is_trained("elsewhere")
    assert not is_trained("chat:own") and reads_sentences("chat:own") and reads_sentences("model:run 3")
    assert not reads_sentences("link") and is_from_names("link") and not is_from_names("chat:own")


def test_a_new_source_is_asked_kept_apart_and_calibrated(
    store: Store, people: People, campaign: int, toy: SuggestionSource
) -> None:
    report = preannotating.preannotate(store, people["res"], campaign)
    with store.read() as session:
        rows = list(session.scalars(sa.select(SentenceRow).order_by(SentenceRow.position)))
        ids = [row.id for row in rows]
        begun_so = [row.id for row in rows if row.text.startswith("The ")]
    assert begun_so and report.suggestions == len(_stored(store))
    assert [id_ for id_, source in _stored(store) if source == "toy:words"] == begun_so
    spans = {id_: [Span(0, 1, "band")] for id_ in ids}
    assert preannotating.add_model_suggestions(store, SYSTEM, campaign, run_id=1, suggestions=spans) == len(ids)
    others = [row for row in _stored(store) if row[1] != "toy:words"]
    with store.write() as session:  # the gazetteer's again: the toy's and the model's stay
        suggestion_rows.replace_suggestions(session, ids, [], kinds=base.source("gazetteer").kinds)
    assert {source for _, source in _stored(store)} >= {"toy:words", "model"} and len(others) >= len(ids)
    learnt = learn([([Suggestion(0, 1, "band", "toy:words", 0.5)], {Span(0, 1, "band")})] * 40)
    assert learnt.kinds["toy"].correct == 40 and learnt.believed(Suggestion(0, 1, "band", "toy:words", 0.5)) > 0.5


def test_figures_count_a_new_source_and_leave_models_and_people_out(toy: SuggestionSource) -> None:
    named = ("toy:words", "model:ab", "import", "identical", "search:ada")
    shown = tuple(Suggestion(at, at + 1, "band", source, 0.5) for at, source in enumerate(named))
    first, *_ = four_figures([Material(True, True, False, 2, shown)])
    assert (first.numerator, first.denominator) == (1, 2)
