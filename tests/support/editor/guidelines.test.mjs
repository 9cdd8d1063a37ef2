import assert from "node:assert/strict";
import { test } from "node:test";
import { matches, narrowed } from "../../../pages/components/span_editor/guidelines.js";

const example = (sentence, text) => ({ sentence, name: text, text, marks: [] });
const hard = (sentence, text, more = {}) => ({ sentence, text, marks: [], settled: [], comment: "", asked: [], ...more });
const HELD = {
  types: [
    { name: "band", title: "band", guideline: "Two or more people.", examples: [1, 2, 3, 4].map((id) => example(id, `The Gulls ${id}`)) },
    { name: "award", title: "award", guideline: "A prize with a name.", examples: [example(5, "the Harbour Prize")] },
  ],
  decisions: [
    hard(7, "Kid A was praised .", { settled: [{ kind: "type", first: "Kid A (song)", second: "Kid A (album)", gold: "Kid A (album)" }] }),
    hard(8, "He sang .", { asked: [{ question: "Is it a name?", answers: ["No, a verb."] }] }),
  ],
};
const names = (query, more = {}) => narrowed(HELD, { query, ...more }).types.map((type) => type.name);
const texts = (query, more = {}) => narrowed(HELD, { query, ...more }).decisions.map((one) => one.sentence);

test("every word of a query must be there, in any order and case", () => {
  assert.ok(matches("prize Harbour", ["the Harbour", "Prize"]) && matches(" ", []));
  assert.ok(!matches("prize harbor", ["the Harbour Prize"]));
});

test("types are found by title, guideline and example, decisions by all that was said", () => {
  assert.deepEqual([names("award"), names("people"), names("harbour")], [["award"], ["band"], ["award"]]);
  assert.deepEqual([texts("album"), texts("verb"), texts("nothing")], [[7], [8], []]);
  assert.deepEqual(narrowed(HELD, { query: "gulls 4" }).types[0].examples.map((one) => one.sentence), [4]);
});

test("three examples are shown, none of them the open sentence", () => {
  const shown = (sentence) => narrowed(HELD, { query: "", sentence }).types[0].examples.map((one) => one.sentence);
  assert.deepEqual([shown(null), shown(2)], [[1, 2, 3], [1, 3, 4]]);
  assert.deepEqual(texts("", { sentence: 7 }), [8]);
});

test("the type of the focused mark comes first until one searches", () => {
  assert.deepEqual([names("", { first: "award" }), names("")], [["award", "band"], ["band", "award"]]);
  assert.deepEqual(names("a", { first: "award" }), ["band", "award"]);
});
