"""What an outside model names is found in the sentence here; what does not stand there is dropped and counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_core.domains import load_domain
from crossner_core.outside.answers import INVENTED, MALFORMED, TOO_OFTEN, UNKNOWN, WITHIN, check
from crossner_core.outside.base import (
    EXAMPLES_FROM,
    GUIDELINE,
    Named,
    Reading,
    Unreadable,
    chosen_examples,
    guideline,
)
from crossner_core.schema import LabelledSentence, Span, check_spans, sentence_from_words
from crossner_core.suggest.chat import ChatModel, instructions, schema
from crossner_core.suggest.gliner import GlinerModel

MUSIC = load_domain("music")
WORDS = "New York beat York , and York lost to Yorkers of New York ."
SENTENCE = sentence_from_words(WORDS.split(), id="x")


def spans(*named: tuple[str, str], sentence: Any = SENTENCE) -> tuple[list[tuple[int, int, str]], dict[str, int]]:
    checked = check(Reading(tuple(Named(*each) for each in named)), sentence, MUSIC, "chat:own")
    return [(each.start, each.end, each.type) for each in checked.suggestions], dict(checked.dropped)


def test_texts_take_their_places_in_the_order_of_the_sentence_and_never_overlap() -> None:
    assert spans(("York", "location")) == ([(1, 2, "location")], {})
    assert spans(("York", "Location"), ("New York", " location ")) == (
        [(0, 2, "location"), (3, 4, "location")], {},
    )  # fmt: skip
    twice = [("New York", "location")] * 2 + [("York", "band")] * 2
    assert spans(*twice) == (
        [(0, 2, "location"), (3, 4, "band"), (6, 7, "band"), (11, 13, "location")], {},
    )  # fmt: skip


def test_what_does_not_stand_there_is_dropped_and_counted() -> None:
    assert spans(("London", "location"), ("", "band"), ("new york", "location")) == ([], {INVENTED: 3})
    assert spans(("Yorker", "band")) == ([], {WITHIN: 1})
    assert spans(*[("lost", "band")] * 3) == ([(7, 8, "band")], {TOO_OFTEN: 2})
    assert spans(("York", "city"), ("York", "")) == ([], {UNKNOWN: 2})
    foreign = check(Reading((Named("London", "location"),)), SENTENCE, MUSIC, "chat:own")
    own = check(Reading((Named("London", "location"), Named("lost", "band"))), SENTENCE, MUSIC, "chat:own")
    assert foreign.is_foreign and not own.is_foreign
    assert check(Reading((), malformed=2), SENTENCE, MUSIC, "chat:own").dropped == {MALFORMED: 2}


_PIECES = st.sampled_from(["New", "York", "New York", "York beat", "Yorkers", "lost to", "London", " York ", "ork"])


@given(st.lists(st.tuples(_PIECES, st.sampled_from(["location", "band", "musical artist", "city"])), max_size=12))
def test_any_answer_comes_to_spans_that_are_flat_and_says_what_became_of_each_entry(
    named: list[tuple[str, str]],
) -> None:
    checked = check(Reading(tuple(Named(*each) for each in named)), SENTENCE, MUSIC, "chat:own")
    check_spans(SENTENCE, [each.span for each in checked.suggestions])
    assert len(checked.suggestions) + sum(checked.dropped.values()) == len(named)
    for each in checked.suggestions:
        assert SENTENCE.surface(each.start, each.end) in {text.strip() for text, _ in named}


def test_prompt_and_schema_are_made_of_titles_and_guidelines() -> None:
    prompt = instructions(MUSIC)
    for each in MUSIC.types:
        assert f"- {each.title}: {each.guideline.split()[0]}" in prompt
        assert each.title in schema(MUSIC)["properties"]["entities"]["items"]["properties"]["type"]["enum"]
    words = "word " * 10_000
    assert len(guideline(words)) <= GUIDELINE + 2 and guideline(words).endswith(" …")
    model = ChatModel(name="own", address="http://a.example/v1/", model="m", temperature=-1, format="none")
    request = model.request(MUSIC, SENTENCE)
    assert request.url == "http://a.example/v1/chat/completions" and set(request.body) == {
        "model", "messages", "max_tokens",
    }  # fmt: skip
    assert request.body["messages"][1]["content"] == SENTENCE.text
    other = ChatModel(name="own", address="http://a.example/v1/", model="n", temperature=-1, format="none")
    assert other.request(MUSIC, SENTENCE).key != request.key == model.request(MUSIC, SENTENCE).key


def test_few_oldest_gold_sentences_with_most_types_go_along_as_earlier_turns() -> None:
    def item(words: str, *spans: Span) -> LabelledSentence:
        return LabelledSentence(sentence_from_words(words.split(), id=words), spans)

    plain, one = item("It rained ."), item("Oslo rained .", Span(0, 1, "location"))
    two = item("The Gulls left Oslo .", Span(0, 2, "band"), Span(3, 4, "location"))
    model = ChatModel(name="own", address="http://a.example", examples=2)
    assert chosen_examples(model, [plain, one, two]) == (two, plain)
    assert chosen_examples(model, [*[plain] * EXAMPLES_FROM, two]) == (plain, plain)
    assert chosen_examples(GlinerModel(name="own", address="http://a.example"), [one]) == ()
    request = model.request(MUSIC, SENTENCE, (two,))
    assert [turn["role"] for turn in request.body["messages"]] == ["system", "user", "assistant", "user"]
    content = request.body["messages"][2]["content"]
    assert model.read({"choices": [{"message": {"content": content}}]}) == Reading(
        (Named("The Gulls", "band"), Named("Oslo", "location"))
    )
    assert request.body["messages"][3]["content"] == SENTENCE.text
    assert request.key != model.request(MUSIC, SENTENCE).key


@pytest.mark.parametrize(
    "document",
    [
        None, [], "text", {"choices": []}, {"choices": [{"message": None}]}, {"choices": {"0": 1}},
        {"choices": [{"message": {"content": None}}]},
        {"choices": [{"message": {"content": '{"entities": [{"text": "New'}}]},
        {"choices": [{"message": {"content": "```json\n{}\n```"}}]},
        {"choices": [{"message": {"content": "[]"}}]},
        {"choices": [{"message": {"content": '{"entities": {}}'}}]},
        {"choices": [{"message": {"content": "[" * 100_000}}]},
        {"choices": [{"message": {"content": '{"entities": []}', "refusal": "No."}}]},
        {"choices": [{"message": {"content": '{"entities": []}'}, "finish_reason": "length"}]},
    ],
)  # fmt: skip
def test_chat_answer_is_the_json_asked_for_or_refused(document: Any) -> None:
    with pytest.raises(Unreadable):
        ChatModel(name="own", address="http://a.example").read(document)


def test_entries_that_are_none_are_counted() -> None:
    chat = ChatModel(name="own", address="http://a.example")
    content = '{"entities": [{"text": "York", "type": "band"}, {"text": 1, "type": "band"}, "York", null, {}]}'
    reading = chat.read({"choices": [{"message": {"content": content}}]})
    assert reading == Reading((Named("York", "band"),), 4)
    assert chat.usage({"usage": {"prompt_tokens": 7, "completion_tokens": -1}}) == (7, None)
    assert chat.usage({"usage": None}) == chat.usage([]) == (None, None)
    tagger = GlinerModel(name="own", address="http://a.example")
    entry = {"start": 999, "end": 3, "text": "York", "label": "band", "score": 0.8}
    entries = [entry, {"text": "York", "type": "band"}, {**entry, "score": 7}, {**entry, "score": float("nan")}, 3]
    assert tagger.read(entries) == Reading((Named("York", "band", 0.8), Named("York", "band")), 3)
    assert tagger.read({"entities": entries}) == tagger.read(entries)
    for wrong in (None, {"entities": {"band": ["York"]}}, {}, "text"):
        with pytest.raises(Unreadable, match="no list of entities"):
            tagger.read(wrong)
    body = GlinerModel(name="own", address="http://a.example/find", threshold=0.3).request(MUSIC, SENTENCE).body
    assert body == {"text": SENTENCE.text, "labels": list(MUSIC.titles.values()), "threshold": 0.3}
