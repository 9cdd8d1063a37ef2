import assert from "node:assert/strict";
import { test } from "node:test";
import { choiceOf, chooseUnit, initialAdjudication, undecided } from "../../../pages/components/span_editor/adjudicate.js";
import { buildItem, open, plain, run, span, type } from "./builders.mjs";

const unit = (kind, first, second) => ({ kind, first, second, note: "" });
const UNITS = [
  unit("extra", span(1, 2, "misc"), null),
  unit("type", span(2, 4, "person"), span(2, 4, "writer")),
  unit("boundary", span(6, 8, "band"), span(5, 8, "band")),
  unit("agree", span(9, 10, "location"), span(9, 10, "location")),
];
const start = () => open(buildItem({ units: UNITS }), "adjudicate");
const choose = (choice, at) => ({ do: "choose", choice, ...(at === undefined ? {} : { unit: at }) });

test("agreement is decided from the start, the focus is on the first disagreement", () => {
  const state = start();
  assert.deepEqual(undecided(state.item, state.work), [0, 1, 2]);
  assert.deepEqual(plain(state.work.spans), [[9, 10, "location"]]);
  assert.equal(state.unit, 0);
});

test("one key decides and goes to the next undecided", () => {
  const state = run(start(), choose("none"), choose("second"), choose("first"));
  assert.deepEqual(plain(state.work.spans), [[2, 4, "writer"], [6, 8, "band"], [9, 10, "location"]]);
  assert.deepEqual(state.work.decisions, [{ unit: 0, choice: "none" }, { unit: 1, choice: "second" }, { unit: 2, choice: "first" }, { unit: 3, choice: "first" }]);
  assert.match(state.message, /Everything is decided/);
});

test("enter refuses while a unit is undecided and goes there", () => {
  const state = run(start(), choose("none"), { do: "focusUnit", unit: 3 }, "enter");
  assert.equal(state.submit, false);
  assert.equal(state.unit, 1);
  assert.equal(run(state, choose("first"), choose("none"), "enter").submit, true);
});

test("work that was refused may decide units that are no more: they are let go", () => {
  const decisions = [{ unit: 0, choice: "none" }, { unit: 7, choice: "first" }];
  const state = open(buildItem({ units: UNITS, work: { decisions } }), "adjudicate");
  assert.deepEqual(state.work.decisions, decisions.slice(0, 1));
  assert.equal(choiceOf(run(state, choose("second", 1)).work, 1), "second");
});

test("every unit decided for none is gold without entities", () => {
  const done = run(start(), choose("none"), choose("none"), choose("none"), choose("none", 3), "enter");
  assert.ok(done.submit && done.work.no_entities);
  assert.deepEqual(done.work.spans, []);
});

test("a choice that is not there is refused with a hint", () => {
  const state = run(start(), choose("second"));
  assert.equal(choiceOf(state.work, 0), null);
  assert.match(state.message, /0 decides for no entity/);
});

test("a type key on a unit is a decision of one's own, with the unit's bounds", () => {
  const state = run(start(), { do: "focusUnit", unit: 1 }, type("politician"));
  assert.equal(choiceOf(state.work, 1), "other");
  assert.deepEqual(state.work.spans[0], { ...span(2, 4, "politician"), surface: "Mira Solberg", origin: "other" });
  assert.equal(choiceOf(run(start(), { do: "focusUnit", unit: 1 }, type("writer")).work, 1), "second");
});

test("an own selection with a type settles the unit it touches", () => {
  const state = run(start(), { do: "focusUnit", unit: 2 }, { do: "select", from: 4, to: 7 }, type("band"));
  assert.equal(choiceOf(state.work, 2), "other");
  assert.deepEqual(plain(state.work.spans), [[4, 8, "band"], [9, 10, "location"]]);
});

test("choosing again takes the own span away", () => {
  const state = run(start(), { do: "focusUnit", unit: 1 }, type("politician"), choose("first", 1));
  assert.deepEqual(plain(state.work.spans), [[2, 4, "person"], [9, 10, "location"]]);
});

test("a span outside all units is simply new and can be removed", () => {
  const state = run(start(), { do: "to", index: 4 }, { do: "extend", by: 0 }, type("event"));
  assert.equal(state.work.spans.find((one) => one.type === "event").origin, "new");
  assert.deepEqual(undecided(state.item, state.work), [0, 1, 2]);
  assert.ok(!run(state, { do: "to", index: 4 }, "remove").work.spans.some((one) => one.type === "event"));
});

test("overlapping choices open the other decision again", () => {
  const item = buildItem({ units: [unit("extra", span(2, 5, "band"), null), unit("missing", null, span(4, 6, "song"))] });
  const state = run(open(item, "adjudicate"), choose("first", 0), choose("second", 1));
  assert.deepEqual(plain(state.work.spans), [[4, 6, "song"]]);
  assert.deepEqual(undecided(item, state.work), [0]);
  assert.match(state.message, /open again/);
});

test("a stored adjudication comes back as it was", () => {
  const before = run(start(), choose("none"), { do: "select", from: 4, to: 7 }, type("band"));
  const again = open(buildItem({ units: UNITS, work: JSON.parse(JSON.stringify(before.work)), revision: 2 }), "adjudicate");
  assert.deepEqual(again.work, before.work);
});

test("own spans and choices never overlap, whatever is decided", () => {
  let seed = 11;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  let state = start();
  for (let i = 0; i < 2000; i++) {
    const makers = [() => choose(["first", "second", "none"][random(3)], random(4)), () => ({ do: "select", from: random(11), to: random(11) }), () => type(["band", "song"][random(2)]), () => ({ do: "remove" }), () => ({ do: "undo" })];
    state = run(state, makers[random(makers.length)]());
    let end = 0;
    for (const one of state.work.spans) {
      assert.ok(one.start >= end, JSON.stringify(state.work.spans));
      end = one.end;
    }
  }
});

test("every span of an adjudication names its surface, as the server demands", () => {
  const item = { text: "The Tin Gulls sang", tokens: [[0, 3], [4, 7], [8, 13], [14, 18]], units: [
    { kind: "boundary", first: { start: 1, end: 3, type: "band" }, second: { start: 0, end: 3, type: "band" }, note: "" },
  ] };
  const { work } = chooseUnit(item, initialAdjudication(item), 0, "second");
  assert.deepEqual(work.spans.map((span) => span.surface), ["The Tin Gulls"]);
});

test("an expert marks an example and takes it back; it stays whatever is decided after, and nobody else can", () => {
  const marked = run(start(), "example", choose("first"));
  assert.ok(marked.work.example && !run(marked, "example").work.example && !run(start(), "example", "undo").work.example);
  assert.ok(!run(open(buildItem()), "example").work.example);
});
