import assert from "node:assert/strict";
import { test } from "node:test";
import { alternatives, marksOf, shownSuggestions, snapshotOf } from "../../../pages/components/span_editor/marks.js";
import { focusedMark, openCount, openItem, selectionOf } from "../../../pages/components/span_editor/model.js";
import { WORDS, buildItem, open, plain, run, span, suggestion, type } from "./builders.mjs";

const SUGGESTED = [suggestion(2, 4, "person", 0.9), suggestion(2, 4, "musicalartist", 0.7), suggestion(5, 8, "band", 0.8), suggestion(6, 8, "misc", 0.3)];
const start = () => open(buildItem({ suggestions: SUGGESTED }));

test("of overlapping suggestions the best-scored is shown, the others are alternatives", () => {
  const state = start();
  const shown = shownSuggestions(state.item, state.work);
  assert.deepEqual(plain(shown), [[2, 4, "person"], [5, 8, "band"]]);
  assert.deepEqual(plain(alternatives(state.item, state.work, shown[1])), [[6, 8, "misc"]]);
});

test("the same suggestion of two sources is one mark with both names", () => {
  const state = open(buildItem({ suggestions: [suggestion(0, 1, "misc", 0.2, "link"), suggestion(0, 1, "misc", 0.4, "model")] }));
  assert.deepEqual(marksOf(state)[0].sources, ["link", "model"]);
  assert.equal(marksOf(state)[0].score, 0.4);
});

test("one key accepts and goes on: two suggestions, two keystrokes", () => {
  const state = run(start(), "accept", "accept");
  assert.deepEqual(plain(state.work.spans), [[2, 4, "person"], [5, 8, "band"]]);
  assert.deepEqual(state.work.spans.map((one) => [one.surface, one.origin]), [["Mira Solberg", "accepted"], ["the Copper Lanterns", "accepted"]]);
});

test("one key retypes a suggestion and goes on", () => {
  const state = run(start(), type("writer"));
  assert.equal(state.work.spans[0].origin, "retyped");
  assert.deepEqual(selectionOf(state), { start: 5, end: 8 });
});

test("another type that was suggested for the same tokens counts as accepted", () => {
  assert.equal(run(start(), type("musicalartist")).work.spans[0].origin, "accepted");
});

test("four keystrokes mark any span: jump, start, end, type", () => {
  const state = run(open(buildItem()), "jump", { do: "hint", char: "h" }, { do: "hint", char: "k" }, type("band"));
  assert.deepEqual(plain(state.work.spans), [[5, 8, "band"]]);
  assert.equal(state.work.spans[0].origin, "new");
});

test("jump hints work backwards, and an unknown hint keeps the mode", () => {
  const lost = run(open(buildItem()), "jump", { do: "hint", char: "M" });
  assert.equal(lost.jump.stage, "start");
  const state = run(lost, { do: "hint", char: "f" }, { do: "hint", char: "d" });
  assert.deepEqual(selectionOf(state), { start: 2, end: 4 });
});

test("a selection that overlaps replaces what it overlaps and counts as moved", () => {
  const state = run(start(), "accept", { do: "select", from: 5, to: 6 }, type("band"));
  assert.deepEqual(plain(state.work.spans), [[2, 4, "person"], [5, 7, "band"]]);
  assert.equal(state.work.spans[1].origin, "moved");
  const wider = run(state, { do: "select", from: 1, to: 3 }, type("misc"), type("misc"));
  assert.deepEqual(plain(wider.work.spans), [[1, 4, "misc"], [5, 7, "band"]]);
});

test("the cursor inside a span retypes all of it; shift selects a part", () => {
  const state = run(start(), "accept", { do: "to", index: 3 }, type("writer"));
  assert.deepEqual(plain(state.work.spans), [[2, 4, "writer"]]);
  const part = run(state, { do: "to", index: 3 }, { do: "extend", by: 0 }, type("song"), "enter");
  assert.deepEqual(plain(part.work.spans), [[3, 4, "song"]]);
});

test("dropping a suggestion rejects every source at its bounds and shows the next", () => {
  const state = run(start(), "remove");
  assert.deepEqual(state.work.rejected.map((one) => one.type).sort(), ["musicalartist", "person"]);
  assert.deepEqual(selectionOf(state), { start: 5, end: 8 });
  assert.deepEqual(plain(marksOf(run(state, "remove"))), [[6, 8, "misc"]]);
});

test("removing an accepted span does not bring its suggestion back", () => {
  const state = run(start(), "accept", { do: "to", index: 2 }, "remove");
  assert.deepEqual(plain(state.work.spans), []);
  assert.deepEqual(plain(marksOf(state)), [[5, 8, "band"]]);
});

test("the alternative key swaps the shown suggestion and back again", () => {
  const state = run(start(), { do: "tab", by: 1 }, { do: "alternative", by: 1 });
  assert.deepEqual(plain([focusedMark(state)]), [[6, 8, "misc"]]);
  assert.deepEqual(plain([focusedMark(run(state, { do: "alternative", by: 1 }))]), [[5, 8, "band"]]);
});

test("undo and redo step through the work and the place", () => {
  const state = run(start(), "accept", type("event"), "remove");
  const back = run(state, "undo", "undo");
  assert.deepEqual(plain(back.work.spans), [[2, 4, "person"]]);
  assert.deepEqual(plain(run(back, "undo", "undo").work.spans), []);
  assert.deepEqual(plain(run(back, "redo").work.spans), [[2, 4, "person"], [5, 8, "event"]]);
  assert.deepEqual(run(back, type("song"), "redo").future, []);
});

test("typing a comment is one step of undo", () => {
  const state = run(start(), "accept", { do: "comment", text: "a" }, { do: "comment", text: "ab" });
  assert.equal(state.work.comment, "ab");
  assert.equal(run(state, "undo").work.comment, "");
  assert.equal(run(state, "undo").work.spans.length, 1);
});

test("enter asks once about open suggestions; a second one refuses what the question names, and undo brings it back", () => {
  const asked = run(start(), "accept", "enter");
  assert.deepEqual([asked.submit, asked.confirm], [false, "refuse"]);
  assert.match(asked.message, /1 suggestion undecided: Enter again refuses it/);
  const done = run(asked, "enter");
  assert.deepEqual([done.submit, done.opened], [true, "refuse"]);
  assert.deepEqual(plain(done.work.rejected).map(([from, to]) => [from, to]), done.work.rejected.map(() => [5, 8]));
  assert.ok(done.work.rejected.length);
  assert.deepEqual(run(done, "undo").work, asked.work);
  assert.equal(openCount(run(done, "undo")), 1);
});

test("escape takes the question back, and the next enter asks again", () => {
  const back = run(start(), "enter", "escape");
  assert.deepEqual([back.confirm, back.work], [null, start().work]);
  assert.equal(run(back, "enter").submit, false);
});

const ruled = (open, floor) => openItem(buildItem({ suggestions: [suggestion(2, 4, "person", 0.9), suggestion(5, 8, "band", 0.6)] }), "annotate", {}, null, { open, floor });

test("a campaign's rule answers for open suggestions, and says which way", () => {
  const taken = run(ruled("accept", 0), "enter");
  assert.deepEqual([taken.submit, taken.opened, taken.work.spans.length], [true, "accept", 2]);
  const refused = run(ruled("refuse", 0), "accept", "enter");
  assert.deepEqual([refused.submit, refused.opened, refused.work.rejected.length], [true, "refuse", 1]);
  assert.equal(run(ruled("refuse", 0), "enter").confirm, "empty", "no rule says that a sentence has no entities");
  const asked = run(ruled("accept", 0.8), "enter");
  assert.deepEqual([asked.submit, asked.confirm, plain(asked.work.spans)], [false, "refuse", [[2, 4, "person"]]]);
});

test("accept all leaves open what is below the floor, and says how many", () => {
  const state = run(ruled("ask", 0.8), "acceptAll");
  assert.deepEqual([plain(state.work.spans), openCount(state)], [[[2, 4, "person"]], 1]);
  assert.match(state.message, /1 suggestion accepted. 1 below 0.80 left open/);
  assert.match(run(state, "acceptAll").message, /Nothing accepted. 1 below 0.80/);
  assert.equal(run(state, "accept", "enter").submit, true);
});

test("a span over another type asks what it would replace; the same key or enter answers, escape drops it", () => {
  const state = run(open(buildItem()), { do: "select", from: 6, to: 7 }, type("band"), { do: "select", from: 5, to: 6 });
  const asked = run(state, type("song"));
  assert.match(asked.message, /the Copper \(song\) would replace Copper Lanterns \(band\)/);
  assert.deepEqual(asked.work, state.work);
  for (const answer of [type("song"), "enter"]) {
    const done = run(asked, answer);
    assert.deepEqual([plain(done.work.spans), done.confirm, done.submit], [[[5, 7, "song"]], null, false]);
  }
  assert.deepEqual(run(asked, "escape", "enter").work.spans, state.work.spans);
  assert.equal(run(asked, type("misc")).confirm, "replace", "another type is another question");
  assert.deepEqual(plain(run(state, type("band")).work.spans), [[5, 7, "band"]], "other bounds of the same type replace nothing");
});

test("moving between the two enters takes the question back", () => {
  assert.equal(run(start(), "enter", { do: "move", by: 1 }, "enter").submit, false);
});

test("enter with nothing marked asks once and then says no entities", () => {
  const state = run(open(buildItem()), "enter");
  assert.equal(state.submit, false);
  const done = run(state, "enter");
  assert.ok(done.submit && done.work.no_entities);
});

test("no entities rejects what is open, and any span takes it back", () => {
  const state = run(start(), "none");
  assert.ok(state.work.no_entities);
  assert.equal(openCount(state), 0);
  assert.equal(state.work.rejected.length, 4);
  assert.equal(run(state, "enter").submit, true);
  assert.equal(run(state, { do: "to", index: 0 }, type("misc")).work.no_entities, false);
});

test("no entities over spans needs a second key", () => {
  const state = run(start(), "accept", "none");
  assert.equal(state.work.spans.length, 1);
  assert.deepEqual(run(state, "none").work.spans, []);
});

test("accept all takes what is shown, not the alternatives", () => {
  assert.deepEqual(plain(run(start(), "acceptAll").work.spans), [[2, 4, "person"], [5, 8, "band"]]);
});

test("view mode reads only", () => {
  const state = run(open(buildItem({ work: { spans: [{ ...span(2, 4, "person"), surface: "Mira Solberg", origin: "new" }] } }), "view"), "remove", type("song"), "enter");
  assert.deepEqual(plain(state.work.spans), [[2, 4, "person"]]);
  assert.ok(!state.submit);
});

test("spans never overlap and surfaces always match, whatever is typed", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const makers = [
    () => ({ do: "select", from: random(11), to: random(11) }), () => type(["band", "song", "misc"][random(3)]), () => ({ do: "accept" }),
    () => ({ do: "remove" }), () => ({ do: "undo" }), () => ({ do: "redo" }), () => ({ do: "tab", by: random(2) ? 1 : -1 }), () => ({ do: "alternative", by: 1 }),
    () => ({ do: "none" }), () => ({ do: "move", by: random(5) - 2 }),
  ];
  let state = start();
  for (let i = 0; i < 3000; i++) {
    state = run(state, makers[random(makers.length)]());
    let end = 0;
    for (const one of state.work.spans) {
      assert.ok(one.start >= end && one.end > one.start && one.end <= WORDS.length);
      assert.equal(one.surface, WORDS.slice(one.start, one.end).join(" "));
      end = one.end;
    }
  }
});

const FIRST = [span(2, 4, "person"), span(6, 8, "band")];
const checking = () => open(buildItem({ first: FIRST, suggestions: SUGGESTED }), "check");

test("checking starts from annotator 1's spans and shows no suggestions", () => {
  const state = checking();
  assert.deepEqual(state.work.spans.map((one) => one.origin), ["kept", "kept"]);
  assert.equal(openCount(state), 0);
});

test("a blind check is like annotating", () => {
  assert.equal(openCount(open(buildItem({ suggestions: SUGGESTED, blind: true }), "check")), 2);
});

test("a flag with a note leaves the span and can be taken back", () => {
  const flagged = run(checking(), "flag");
  assert.deepEqual(flagged.noting, span(2, 4, "person"));
  const noted = run(flagged, { do: "note", span: flagged.noting, text: "an artist?" });
  assert.deepEqual(snapshotOf(noted).flags, [{ ...span(2, 4, "person"), note: "an artist?" }]);
  assert.deepEqual(run(noted, "flag").work.flags, []);
});

test("retyping, moving and deleting flag the span of annotator 1 with the alternative beside it", () => {
  const state = run(checking(), type("writer"), { do: "select", from: 5, to: 7 }, type("band"));
  assert.deepEqual(state.work.spans.map((one) => one.origin), ["retyped", "moved"]);
  assert.deepEqual(plain(snapshotOf(state).flags), plain(FIRST));
  assert.deepEqual(snapshotOf(run(state, "undo", "undo")).flags, []);
});

test("a deleted span of annotator 1 stays visible and Space puts it back", () => {
  const state = run(checking(), "remove");
  assert.equal(marksOf(state)[0].kind, "gone");
  assert.deepEqual(plain(snapshotOf(state).flags), [[2, 4, "person"]]);
  assert.equal(run(state, "accept").work.spans[0].origin, "kept");
});

test("implied flags of a stored check go when the span comes back", () => {
  const stored = snapshotOf(run(checking(), "remove"));
  const state = run(open(buildItem({ first: FIRST, work: stored, revision: 1 }), "check"), { do: "to", index: 2 }, "accept");
  assert.deepEqual(snapshotOf(state).flags, []);
});

const unsure = (start, end, type, score) => ({ ...suggestion(start, end, type, score, "model:run 3"), hint: true });
const HINTED = [suggestion(5, 8, "band", 0.8), unsure(2, 4, "person", 0.3), unsure(9, 10, "location", 0.2)];

test("a hint is no suggestion: nobody is asked about it, and accept all leaves it", () => {
  const state = open(buildItem({ suggestions: HINTED }));
  assert.deepEqual(marksOf(state).map((mark) => mark.kind), ["unsure", "suggestion", "unsure"]);
  assert.equal(openCount(state), 1);
  assert.deepEqual(plain([focusedMark(state)]), [[5, 8, "band"]], "the first suggestion has the focus, not the hint");
  const done = run(state, "acceptAll", "enter");
  assert.deepEqual(plain(done.work.spans), [[5, 8, "band"]]);
  assert.equal(done.submit, true, "Enter asks about suggestions alone");
  assert.deepEqual(done.work.rejected, []);
});

test("Tab goes to a hint, one key takes it, and it counts as accepted", () => {
  const state = run(open(buildItem({ suggestions: HINTED })), { do: "tab", by: -1 }, "accept");
  assert.deepEqual(plain(state.work.spans), [[2, 4, "person"]]);
  assert.equal(state.work.spans[0].origin, "accepted");
  assert.deepEqual(plain([focusedMark(state)]), [[5, 8, "band"]], "and on to the next suggestion");
});

test("one key retypes a hint, and one drops it with all its sources", () => {
  const there = { do: "tab", by: 1 };
  const retyped = run(open(buildItem({ suggestions: HINTED })), there, type("event"));
  assert.deepEqual([plain(retyped.work.spans), retyped.work.spans[0].origin], [[[9, 10, "event"]], "retyped"]);
  const dropped = run(open(buildItem({ suggestions: HINTED })), there, "remove");
  assert.deepEqual(dropped.work.rejected.map((one) => one.source), ["model:run 3"]);
});

test("with hints alone the cursor stays at the beginning and Enter asks whether there are no entities", () => {
  const state = open(buildItem({ suggestions: HINTED.slice(1) }));
  assert.deepEqual(selectionOf(state), { start: 0, end: 1 });
  const asked = run(state, "enter");
  assert.ok(!asked.submit && /No entities/.test(asked.message));
});

test("the sources that the server merged are named side by side, and rejected one by one", () => {
  const merged = { ...suggestion(5, 8, "band", 0.93, "link"), sources: ["link", "model:run 3"] };
  const state = open(buildItem({ suggestions: [merged] }));
  assert.deepEqual(marksOf(state)[0].sources, ["link", "model:run 3"]);
  assert.deepEqual(run(state, "remove").work.rejected.map((one) => one.source), ["link", "model:run 3"]);
});
