import assert from "node:assert/strict";
import { test } from "node:test";
import { actionFor, helpRows } from "../../../pages/components/span_editor/keys.js";
import { takenBy } from "../../../pages/components/span_editor/entities.js";
import { entityFrom, titleOfEntity } from "../../../pages/components/span_editor/links.js";
import { changesOf } from "../../../pages/components/span_editor/marks.js";
import { openItem } from "../../../pages/components/span_editor/model.js";
import { buildItem, run, span, type } from "./builders.mjs";

const DBPEDIA = "http://dbpedia.org/resource/";
const open = (item, mode = "annotate") => openItem(item, mode, {}, item.work, { open: "ask", floor: 0, linking: true });
const link = (entity) => ({ do: "entity", entity });
const two = () => run(open(buildItem()), { do: "select", from: 2, to: 3 }, type("artist"), { do: "select", from: 9, to: 9 }, type("place"), { do: "focusMark", mark: span(2, 4) });
const entities = (state) => state.work.spans.map((one) => one.entity ?? null);

test("a link goes to the span in focus, and the focus to the next that has none; one undo takes it back", () => {
  const linked = run(two(), link(`${DBPEDIA}Mira_Solberg`));
  assert.deepEqual(entities(linked), [`${DBPEDIA}Mira_Solberg`, null]);
  assert.deepEqual([linked.anchor, linked.head], [9, 9]);
  assert.match(linked.message, /Mira Solberg: Mira Solberg\./);
  assert.deepEqual(entities(run(linked, "undo")), [null, null]);
  const none = run(linked, link("NIL"));
  assert.deepEqual(entities(none), [`${DBPEDIA}Mira_Solberg`, "NIL"]);
  assert.deepEqual(entities(run(none, { do: "focusMark", mark: span(2, 4) }, link(null))), [null, "NIL"]);
});

test("another type keeps the link, other bounds drop it", () => {
  const linked = run(two(), link("NIL"), { do: "focusMark", mark: span(2, 4) });
  assert.deepEqual(entities(run(linked, type("band"))), ["NIL", null]);
  assert.deepEqual(entities(run(linked, { do: "select", from: 1, to: 3 }, type("artist"))), [null, null]);
});

test("Enter asks once about spans without a link, where the campaign links", () => {
  const asked = run(two(), "enter");
  assert.equal(asked.confirm, "unlinked");
  assert.match(asked.message, /2 spans not linked/);
  assert.ok(run(asked, "enter").submit);
  assert.ok(run(two(), link("NIL"), link("NIL"), "enter").submit);
  assert.ok(run({ ...two(), rules: { open: "ask", floor: 0 } }, "enter").submit);
});

test("a check begins with annotator 1's links, and another link is a change", () => {
  const first = [{ ...span(2, 4, "artist"), entity: `${DBPEDIA}A` }];
  const check = open(buildItem({ first }), "check");
  assert.deepEqual(entities(check), [`${DBPEDIA}A`]);
  assert.deepEqual(changesOf(check.item, check.work), []);
  const changed = run(check, { do: "focusMark", mark: span(2, 4) }, link("NIL"));
  assert.deepEqual(changesOf(changed.item, changed.work).map(({ kind }) => kind), ["relinked"]);
});

test("an expert decides for one link or the other, or links otherwise", () => {
  const side = (entity) => ({ ...span(2, 4, "artist"), entity });
  const units = [{ kind: "entity", first: side(`${DBPEDIA}A`), second: side("NIL"), note: "" }];
  const state = open(buildItem({ units }), "adjudicate");
  assert.deepEqual(state.work.decisions, []);
  const second = run(state, { do: "choose", choice: "second", unit: 0 });
  assert.deepEqual([entities(second), second.work.decisions], [["NIL"], [{ unit: 0, choice: "second" }]]);
  const third = run(second, { do: "focusMark", mark: span(2, 4) }, link(`${DBPEDIA}C`));
  assert.deepEqual([entities(third), third.work.decisions], [[`${DBPEDIA}C`], [{ unit: 0, choice: "other" }]]);
  const back = run(third, { do: "focusMark", mark: span(2, 4) }, link(`${DBPEDIA}A`));
  assert.deepEqual([entities(back), back.work.decisions], [[`${DBPEDIA}A`], [{ unit: 0, choice: "first" }]]);
});

test("the keys: @ opens, digits take, 0 is none; the help has them where spans are linked", () => {
  const context = { mode: "annotate", rtl: false, jump: false, typeKeys: {}, leaving: false };
  assert.deepEqual(actionFor({ key: "@" }, context), { ui: "entities" });
  const offered = [{ address: "a" }, { address: "b" }];
  assert.deepEqual(["@", "Enter", "2", "3", "0", "Backspace", "x"].map((key) => takenBy(key, offered)), ["a", "a", "b", undefined, "NIL", null, undefined]);
  assert.ok(helpRows("check", 0, true).some(({ keys }) => keys.startsWith("@")));
  assert.ok(!helpRows("check").some(({ keys }) => keys.startsWith("@")));
});

test("what one types becomes an address, and an address a title", () => {
  assert.equal(entityFrom("queen (band)"), `${DBPEDIA}Queen_(band)`);
  assert.equal(entityFrom("https://en.wikipedia.org/wiki/Queen_(band)#History"), `${DBPEDIA}Queen_(band)`);
  assert.equal(entityFrom("AC/DC?"), `${DBPEDIA}AC/DC%3F`);
  assert.equal(entityFrom("q15862"), "http://www.wikidata.org/entity/Q15862");
  assert.equal(entityFrom("https://example.org/a b"), "https://example.org/a%20b");
  assert.equal(entityFrom("nil"), "NIL");
  assert.deepEqual([null, "NIL", `${DBPEDIA}Queen_(band)`, "http://www.wikidata.org/entity/Q15862"].map(titleOfEntity), ["not linked", "no resource (NIL)", "Queen (band)", "Q15862"]);
});
