"""The latency benchmark's own parts: its client speaks Streamlit's protocol, its campaign and its count are right."""

from __future__ import annotations

import json
import random
from pathlib import Path

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.latency import missed_bars, summary
from benchmarks.latency_browser import outbox_events, timings
from benchmarks.latency_store import lost_events, make_scene, make_sentence
from benchmarks.streamlit_client import COMPONENT, Editor, outbox_message, work_on
from crossner_core.schema import Span, check_spans
from db.engine import Store
from tests.support.builders import Tab
from workbench.accounts import accounts
from workbench.labelling import handout

TYPES = ("band", "album")


def make_message(payload: dict[str, object]) -> ForwardMsg:
    message = ForwardMsg()
    message.delta.fragment_id = "fragment-1"
    component = message.delta.new_element.bidi_component
    component.id, component.component_name, component.json = "widget-1", COMPONENT, json.dumps(payload)
    return message


def test_client_finds_the_editor_among_the_messages() -> None:
    editor, session = Editor(), ForwardMsg()
    session.new_session.page_script_hash = "page-1"
    other = make_message({})
    other.delta.new_element.bidi_component.component_name = "another"
    assert [editor.read(session), editor.read(other), editor.read(make_message({"acks": {"me": 3}}))] == [
        False,
        False,
        True,
    ]
    assert (editor.page, editor.widget, editor.fragment) == ("page-1", "widget-1", "fragment-1")
    assert editor.payload == {"acks": {"me": 3}}


def test_client_sends_the_outbox_as_state_of_the_fragment() -> None:
    editor = Editor(page="page-1", widget="widget-1", fragment="fragment-1")
    sent = BackMsg.FromString(outbox_message(editor, {"client": "me", "events": [{"key": "k"}], "sent": 1}))
    state = sent.rerun_script
    assert (state.page_script_hash, state.fragment_id) == ("page-1", "fragment-1")
    assert [(one.id, json.loads(one.json_value)["outbox"]["client"]) for one in state.widget_states.widgets] == [
        ("widget-1", "me")
    ]


def test_client_notes_what_the_page_says_went_wrong() -> None:
    editor, message = Editor(), ForwardMsg()
    message.delta.new_element.exception.type, message.delta.new_element.exception.message = "KeyError", "no"
    editor.read(message)
    assert editor.problem == "KeyError: no"


def test_outbox_events_are_found_in_a_message() -> None:
    text = json.dumps({"client": "me", "events": [{"key": "k", "kind": "draft"}], "sent": 1})
    assert outbox_events(text) == [{"key": "k", "kind": "draft"}]


def test_timings_pair_each_event_with_the_first_saved_after_it() -> None:
    work = {"spans": []}
    draft = {"key": "a", "kind": "draft", "task": 1, "work": work}
    submit = {"key": "b", "kind": "submit", "task": 1, "work": work}
    texts = [json.dumps({"events": [event]}) for event in (draft, submit, submit)]
    probe = {
        "sent": [{"at": at, "text": text} for at, text in zip((10.0, 130.0, 140.0), texts, strict=True)],
        "saved": [40.0, 190.0],
        "shown": [{"task": "1", "enter": 100.0, "at": 112.0}],
    }
    found = timings(probe, user=7)
    assert (found.draft_sent_to_saved, found.submit_sent_to_saved) == ([30.0], [60.0])
    assert (found.enter_to_next, found.enter_to_saved) == ([12.0], [90.0])
    assert [event["key"] for event in found.events] == ["a", "b"]


def test_sentences_have_the_promised_size_and_valid_suggestions() -> None:
    rng = random.Random(3)
    for number in range(50):
        sentence, suggestions = make_sentence(number, TYPES, rng)
        assert 30 <= len(sentence.tokens) <= 45
        assert len(check_spans(sentence, [Span(one["start"], one["end"], one["type"]) for one in suggestions])) == 4


def test_lost_events_names_what_is_missing_or_changed(tmp_path: Path) -> None:
    scene = make_scene(tmp_path, annotators=1, sentences=3, seed=1)
    store = Store(f"sqlite:///{tmp_path / 'workbench.sqlite3'}")
    actor = accounts.current(store, scene.people[0]["id"])
    assert actor is not None
    item = handout.items(store, actor, scene.campaign, "annotate")[0]
    spans = [(span["start"], span["end"], span["type"]) for span in work_on(item, 4)["spans"]]
    tab = Tab(store, actor, scene.campaign, "annotate")
    event = tab.event("submit", item, spans)
    assert tab.send(event).rejections == []
    store.close()
    there = {"user": actor.id, "task": item["task"], "key": event["key"], "kind": "submit", "spans": spans}
    assert lost_events(tmp_path, [there]) == []
    assert len(lost_events(tmp_path, [there, there | {"key": "never sent"}])) == 1
    assert len(lost_events(tmp_path, [there | {"spans": spans[1:]}])) == 1


def test_missed_bars_are_named() -> None:
    def phase(name: str, *, shown: float, saved: float) -> dict[str, object]:
        return {"name": name, "figures": {"Enter → next sentence": summary([shown]), "sent → Saved": summary([saved])}}

    good = {"phases": [phase("alone", shown=10, saved=900), phase("with 2", shown=20, saved=100)], "lost": []}
    assert missed_bars(good) == []
    bad = {"phases": [phase("alone", shown=60, saved=1), phase("with 2", shown=20, saved=300)], "lost": ["one"]}
    assert len(missed_bars(bad)) == 3
    nothing = {"phases": [{"name": "alone", "figures": {"Enter → next sentence": {"count": 0}}}], "lost": []}
    assert len(missed_bars(nothing)) == 1
