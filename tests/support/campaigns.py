"""Campaigns of the music domain: with gold, with what a model suggested, of one document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crossner_core.domains import load_domain
from crossner_core.schema import LabelledSentence, Span, Suggestion, sentence_from_words
from db import layer_rows
from db.engine import Store
from tests.support.builders import make_campaign, make_gold, make_people
from tests.support.training_builders import own_sentences
from workbench.accounts.actors import SYSTEM, Actor
from workbench.campaigns import campaigns, sentences
from workbench.suggestions.preannotating import add_model_suggestions

LINES = (
    "Mara Vell sang with The Tin Gulls in Oslo .",
    "Her first album was Paper Lanterns .",
    "Jonas Reik played the cello on it .",
    "Nothing of it was printed again .",
    "She won the Harbour Prize in Norway .",
    "The band broke up in the winter .",
)
LINES_GOLD = {
    LINES[0]: [(0, 2, "musicalartist"), (4, 7, "band")],
    LINES[1]: [(4, 6, "album")],
    LINES[4]: [(3, 5, "award")],
}
MUSIC = {"person": "musicalartist", "band": "band", "location": "location"}


def in_music(items: tuple[LabelledSentence, ...]) -> list[LabelledSentence]:
    """Return own sentences with the music domain's types, each with its number at the end so that no two are equal."""
    made = []
    for item in items:
        number = item.sentence.id.removeprefix("own-")
        sentence = sentence_from_words([*item.sentence.words, number], id=item.sentence.id)
        made.append(LabelledSentence(sentence, tuple(Span(s.start, s.end, MUSIC[s.type]) for s in item.spans)))
    return made


def campaign_with_gold(store: Store, admin: Actor, *, dev: bool = True, test: bool = True, name: str = "Music") -> int:
    """Make a campaign whose models suggest whatever their F1 is: those of tests learn nothing."""
    rules = {"suggestions_on": False, "model_floor": 0.0, "model_gain": 0.0, "model_error": 1.0}
    campaign_id = campaigns.create_campaign(store, admin, name=name, domain=load_domain("music"), **rules)
    sentences.add_sentences(store, admin, campaign_id, in_music(own_sentences(20)))
    if dev:
        sentences.add_sentences(store, admin, campaign_id, in_music(own_sentences(8, offset=20)), split="dev")
    if test:
        sentences.add_sentences(store, admin, campaign_id, in_music(own_sentences(8, offset=28)), split="test")
    return campaign_id


def suggested(store: Store) -> tuple[dict[str, Actor], int]:
    """A campaign of six gold sentences for which a model had suggested a right and a wrong span before."""
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    with store.read() as session:
        rows = layer_rows.sentences(session, campaign_id)
    said = {row.id: () for row in rows} | {
        rows[0].id: (
            Suggestion(0, 2, "musicalartist", "model:run 7", 0.9),
            Suggestion(4, 7, "song", "model:run 7", 0.8),
        )
    }
    add_model_suggestions(store, SYSTEM, campaign_id, run_id=None, suggestions=said)
    make_gold(store, people, campaign_id)
    return people, campaign_id


def document_campaign(
    store: Store,
    people: Mapping[str, Actor],
    *,
    document: str = "gulls.txt",
    split: str = "pool",
    name: str = "Document",
    **rules: Any,
) -> int:
    """Create a campaign of the six sentences of one document, in its order, with everybody in it."""
    settings = {"blind_share": 0.0, "control_share": 0.0, **rules}
    campaign_id = campaigns.create_campaign(
        store,
        people["adm"],
        name=name,
        domain=load_domain("music"),
        member_ids=[actor.id for actor in people.values()],
        **settings,
    )
    made, offset = [], 0
    for number, text in enumerate(LINES, start=1):
        sentence = sentence_from_words(text.split(), id=f"gulls-{number}", document=document)
        made.append(replace(sentence, offset=offset))
        offset += len(text) + 1
    sentences.add_sentences(store, people["res"], campaign_id, made, split=split)
    return campaign_id
