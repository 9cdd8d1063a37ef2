import assert from "node:assert/strict";
import { test } from "node:test";
import { originWords, reasonWords, whyLine } from "../../../pages/components/span_editor/provenance.js";
import { unconfirmed } from "../../../pages/components/span_editor/marks.js";
import { focusedMark, openItem } from "../../../pages/components/span_editor/model.js";
import { actionFor } from "../../../pages/components/span_editor/keys.js";
import { buildItem, made, open, plain, run, span, type } from "./builders.mjs";

const FIRST = [span(2, 4, "person"), span(6, 8, "band"), span(9, 10, "location")];
const PROVENANCE = [made(2, 4, "person", ["new here"]), made(6, 8, "band"), made(9, 10, "location", ["rare: 1 time", "doubted: 41 %"])];
const check = (extra = {}) => open(buildItem({ first: FIRST, provenance: PROVENANCE, ...extra }), "check");
const waiting = (state) => plain(unconfirmed(state));

test("a check opens on the first span to confirm, and Enter does not send it", () => {
  const state = run(check(), "enter");
  assert.deepEqual(waiting(state), [[2, 4, "person"], [9, 10, "location"]]);
  assert.equal(focusedMark(state).start, 2);
  assert.equal(state.submit, false);
  assert.equal(state.message, "Confirm Mira Solberg (and 1 more span): new here. Space confirms; or change it, or ! doubts it.");
});

test("Enter goes to the first unconfirmed span, wherever the cursor is, however often it is pressed", () => {
  const state = run(check(), { do: "to", index: 9 }, "enter", "enter", "enter");
  assert.equal(focusedMark(state).start, 2);
  assert.equal(waiting(state).length, 2);
});

test("Space confirms and goes to the next; then Enter sends what was confirmed", () => {
  const one = run(check(), "accept");
  assert.deepEqual([one.message, focusedMark(one).start], ["Mira Solberg confirmed. 1 to go.", 9]);
  const all = run(one, "accept");
  assert.match(all.message, /Bergen confirmed. Enter submits./);
  const sent = run(all, "enter");
  assert.equal(sent.submit, true);
  assert.deepEqual(sent.work.spans.map(({ origin }) => origin), ["confirmed", "kept", "confirmed"]);
});

test("Space on a span that needs nothing goes to the next one that does", () => {
  const state = run(check(), { do: "focusMark", mark: FIRST[1] }, "accept");
  assert.equal(focusedMark(state).start, 9);
  assert.equal(waiting(state).length, 2);
});

test("a change, a removal and a flag settle a span as well; its own type's key confirms it", () => {
  assert.deepEqual(waiting(run(check(), type("band"))), [[9, 10, "location"]]);
  assert.deepEqual(waiting(run(check(), "remove")), [[9, 10, "location"]]);
  assert.deepEqual(waiting(run(check(), "flag")), [[9, 10, "location"]]);
  const same = run(check(), type("person"));
  assert.deepEqual([waiting(same), same.work.spans[0].origin], [[[9, 10, "location"]], "confirmed"]);
});

test("what settles a span leads to the next one; what only asks, or needs no look, does not", () => {
  const at = (...actions) => focusedMark(run(check(), ...actions)).start;
  assert.deepEqual([at(type("band")), at("remove")], [9, 9]);
  assert.equal(at("flag", { do: "note", span: FIRST[0], text: "a stage name?" }), 9);
  const asked = run(check(), { do: "select", from: 2, to: 6 }, type("band"));
  assert.deepEqual([asked.confirm, asked.anchor, asked.head], ["replace", 2, 6]);
  assert.equal(at({ do: "focusMark", mark: FIRST[1] }, type("song")), 6);
});

test("undo takes a confirmation back, and a span that was put back is to be confirmed", () => {
  assert.equal(waiting(run(check(), "accept", "undo")).length, 2);
  assert.equal(waiting(run(check(), "remove", { do: "restore", span: FIRST[0] })).length, 2);
});

test("what was confirmed before a reload is confirmed", () => {
  const { work } = run(check(), "accept");
  assert.deepEqual(waiting(check({ work })), [[9, 10, "location"]]);
});

test("blind checks and other stages have nothing to confirm", () => {
  assert.deepEqual(waiting(check({ first: null, provenance: undefined })), []);
  assert.deepEqual(waiting(open(buildItem({ provenance: PROVENANCE, units: [] }), "adjudicate")), []);
});

test("1 confirms at the check, where no type has that key", () => {
  const press = { key: "1", code: "", shiftKey: false, ctrlKey: false, metaKey: false, altKey: false };
  const at = (mode, typeKeys = {}) => actionFor(press, { mode, rtl: false, jump: false, typeKeys, leaving: false });
  assert.deepEqual(at("check"), { do: "accept" });
  assert.deepEqual(at("check", { 1: "song" }), { do: "type", type: "song" });
  assert.equal(at("annotate"), null);
});

test("! doubts at the check, asks at the adjudication", () => {
  const press = { key: "!", code: "", shiftKey: true, ctrlKey: false, metaKey: false, altKey: false };
  const at = (mode) => actionFor(press, { mode, rtl: false, jump: false, typeKeys: {}, leaving: false });
  assert.deepEqual([at("check"), at("adjudicate")], [{ do: "flag" }, { ui: "ask" }]);
});

test("the line below says by whom, from what and why", () => {
  const from = { start: 2, end: 4, type: "band", sources: ["link", "gazetteer"], score: 0.412 };
  const provenance = [made(2, 4, "person", ["new here"], { origin: "retyped", from })];
  assert.equal(whyLine(check({ provenance })), "Annotator 1: retyped from band, suggested by link, gazetteer 41 %; to confirm: new here");
  assert.match(whyLine(run(check(), "accept", "undo", "accept", { do: "focusMark", mark: FIRST[0] })), /suggestion; new here$/);
  assert.equal(reasonWords(check(), FIRST[2]), "Bergen: rare: 1 time, doubted: 41 %");
  const words = (more) => originWords(check(), made(2, 4, "person", [], more));
  assert.equal(words({ origin: "accepted", from }), "taken from link, gazetteer 41 %");
  const named = openItem(buildItem(), "check", {}, null, { open: "ask", floor: 0, sources: { model: "trained model", gazetteer: "names" } });
  const told = { ...from, sources: ["model:run 3", "gazetteer", "stranger"] };
  assert.equal(originWords(named, made(2, 4, "person", [], { from: told })), "taken from trained model (run 3), names, stranger 41 %");
  assert.equal(words({ origin: "identical", from }), "marked with the same words in this sentence");
  assert.equal(words({ origin: "new" }), "by hand");
  assert.equal(words({ origin: "new", shown: false }), "by hand, without suggestions");
  assert.equal(words({ origin: "kept", imported: true }), "imported");
  assert.equal(words({ origin: "confirmed", own: false }), "confirmed");
  assert.equal(words({ origin: "new", own: false }), "added by hand");
});

test("the expert's line says it of both annotators", () => {
  const [first, second] = [span(2, 4, "person"), span(2, 4, "band")];
  const provenance = [made(2, 4, "person", ["new here"]), made(2, 4, "band", [], { by: 2, origin: "retyped", own: false })];
  const state = open(buildItem({ units: [{ kind: "type", first, second, note: "" }], provenance }), "adjudicate");
  assert.equal(whyLine(state), "Annotator 1: taken from a suggestion; new here · Annotator 2: retyped");
});
