import assert from "node:assert/strict";
import { test } from "node:test";
import { hintPages, jumpHints, splitText, surfaceOf } from "../../../pages/components/span_editor/tokens.js";
import { filterTypes, groupTypes } from "../../../pages/components/span_editor/types.js";
import { isDark } from "../../../pages/components/span_editor/dom.js";

test("offsets count code points, not UTF-16 units", () => {
  const split = splitText("🎸 Zoë👩‍🎤 a\u0301b", [[0, 1], [2, 5], [5, 8], [9, 12]]);
  assert.deepEqual(split.words, ["🎸", "Zoë", "👩‍🎤", "a\u0301b"]);
  assert.deepEqual(split.gaps, ["", " ", "", " ", ""]);
  assert.equal(surfaceOf(split, 0, 3), "🎸 Zoë👩‍🎤");
});

test("inner white space and the tail are kept as they are", () => {
  const split = splitText("  a\u00a0 b\n", [[2, 3], [5, 6]]);
  assert.deepEqual(split.gaps, ["  ", "\u00a0 ", "\n"]);
  assert.equal(surfaceOf(split, 0, 2), "a\u00a0 b");
});

test("every token has a hint of its own while they last", () => {
  const words = Array.from({ length: 62 }, (_, i) => (i % 2 ? "," : "w"));
  const hints = jumpHints(words);
  assert.equal(hints.size, 62);
  assert.equal(new Set(hints.values()).size, 62);
});

test("in a long sentence punctuation goes without a hint, then pages begin", () => {
  const words = Array.from({ length: 140 }, (_, i) => (i % 2 ? "," : "w"));
  assert.equal(hintPages(words), 2);
  assert.ok(![...jumpHints(words).keys()].some((i) => words[i] === ","));
  assert.equal(jumpHints(words, 1).size, 8);
});

const TYPES = [
  { name: "band", title: "band", parent: "organisation", key: "b" },
  { name: "person", title: "person", parent: null, key: "p" },
  { name: "musicalartist", title: "musical artist", parent: "person", key: "m" },
  { name: "theory", title: "music theory", parent: "misc", key: "t" },
];

test("parents group their children and come first; a parent that is no type is a heading", () => {
  const groups = groupTypes(TYPES);
  assert.deepEqual(groups.map((group) => group.title), ["organisation", null, "misc"]);
  assert.deepEqual(groups[1].types.map((type) => type.name), ["person", "musicalartist"]);
});

test("the filter finds by title, any word, and parent", () => {
  const found = (text) => filterTypes(TYPES, text).map((type) => type.name);
  assert.deepEqual(found("art"), ["musicalartist"]);
  assert.deepEqual(found("theo"), ["theory"]);
  assert.deepEqual(found("pers"), ["person", "musicalartist"]);
  assert.deepEqual(found("zzz"), []);
});

test("dark backgrounds are told from light ones in every notation", () => {
  assert.deepEqual(["#0e1117", "#fff", "rgb(14, 17, 23)", "rgba(255,255,255,1)", "#000"].map(isDark), [true, false, true, false, true]);
});
