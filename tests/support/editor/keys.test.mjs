import assert from "node:assert/strict";
import { test } from "node:test";
import { actionFor, charOf, helpRows, mayRepeat, typeKeysOf } from "../../../pages/components/span_editor/keys.js";

const press = (key, more = {}) => ({ key, code: "", shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, ...more });
const context = (more = {}) => ({ mode: "annotate", rtl: false, jump: false, typeKeys: { r: "writer", 1: "song", a: "album" }, leaving: false, ...more });

test("type keys are letters and digits, capital letters too", () => {
  assert.deepEqual(actionFor(press("r"), context()), { do: "type", type: "writer" });
  assert.deepEqual(actionFor(press("R", { shiftKey: true }), context()), { do: "type", type: "writer" });
  assert.deepEqual(actionFor(press("1"), context()), { do: "type", type: "song" });
  assert.equal(actionFor(press("k"), context()), null);
});

test("when adjudicating 1, 2 and 0 choose", () => {
  const choices = ["1", "2", "0"].map((key) => actionFor(press(key), context({ mode: "adjudicate" })).choice);
  assert.deepEqual(choices, ["first", "second", "none"]);
});

test("arrows follow the direction of the text", () => {
  assert.deepEqual(actionFor(press("ArrowLeft"), context()), { do: "move", by: -1 });
  assert.deepEqual(actionFor(press("ArrowLeft", { shiftKey: true }), context({ rtl: true })), { do: "extend", by: 1 });
});

test("a Cyrillic or Arabic layout reaches the type keys by place", () => {
  assert.equal(charOf(press("к", { code: "KeyR" })), "r");
  assert.equal(charOf(press("١", { code: "Digit1" })), "1");
  assert.equal(charOf(press("ك", { code: "Semicolon" })), ";");
  assert.equal(charOf(press("é", { code: "Unknown" })), "é");
});

test("in jump mode letters are hints, the commands wait", () => {
  assert.deepEqual(actionFor(press("r"), context({ jump: true })), { do: "hint", char: "r" });
  assert.deepEqual(actionFor(press("0"), context({ jump: true })), { do: "hint", char: "0" });
  assert.deepEqual(actionFor(press(";"), context({ jump: true })), { do: "jump" });
  assert.equal(actionFor(press("Escape"), context({ jump: true })).do, "escape");
});

test("control and command keys: undo, redo, accept all; the browser keeps the rest", () => {
  assert.deepEqual(actionFor(press("z", { ctrlKey: true }), context()), { do: "undo" });
  assert.deepEqual(actionFor(press("Z", { metaKey: true, shiftKey: true }), context()), { do: "redo" });
  assert.deepEqual(actionFor(press("a", { ctrlKey: true }), context()), { do: "acceptAll" });
  assert.equal(actionFor(press("r", { ctrlKey: true }), context()), null);
});

test("Tab is ours until Esc lets it go", () => {
  assert.equal(actionFor(press("Tab"), context()).do, "tab");
  assert.equal(actionFor(press("Tab"), context({ leaving: true })), null);
});

test("a type on a command's key is left to the filter, not to the key", () => {
  assert.deepEqual(typeKeysOf([{ name: "x", key: "0" }, { name: "y", key: "Y" }, { name: "z", key: null }]), { y: "y" });
});

test("when adjudicating 1 and 2 are no keys of types", () => {
  const types = [{ name: "x", key: "1" }, { name: "y", key: "2" }, { name: "z", key: "3" }];
  assert.deepEqual(typeKeysOf(types, "adjudicate"), { 3: "z" });
  assert.deepEqual(typeKeysOf(types, "check"), { 1: "x", 2: "y", 3: "z" });
});

test("a key held down goes on moving and taking back; what decides or leaves waits for the next press", () => {
  const held = (key, more, where) => mayRepeat(actionFor(press(key, more), context(where)));
  const shift = { shiftKey: true };
  for (const [key, more] of [["ArrowLeft"], ["ArrowRight", shift], ["ArrowDown"], ["Home"], ["Tab"], ["z", { ctrlKey: true }]]) assert.ok(held(key, more), key);
  for (const [key, more] of [["Enter"], ["Enter", shift], [" "], [" ", shift], ["a", { ctrlKey: true }], ["0"], ["Backspace"], ["Delete"], ["r"], ["!"], [";"]])
    assert.ok(!held(key, more), key);
  for (const key of ["1", "2", "0"]) assert.ok(!held(key, {}, { mode: "adjudicate" }), key);
  assert.ok(!held("s", {}, { jump: true }));
});

test("every mode has its help", () => {
  for (const mode of ["annotate", "check", "adjudicate", "view"]) assert.ok(helpRows(mode).length >= 4);
  assert.ok(!helpRows("annotate").some((row) => row.keys === "!"));
  assert.ok(helpRows("check").some((row) => row.keys.startsWith("Space") && row.text.startsWith("confirm")));
  const rowOf = (floor) => helpRows("annotate", floor).find((row) => row.keys === "Shift + Space").text;
  assert.equal(rowOf(0.8), "accept all suggestions of 80 % or more; the others stay open, no hints");
  assert.equal(rowOf(0), "accept all suggestions, no hints");
  for (const mode of ["check", "adjudicate", "view"])
    assert.ok(helpRows(mode).every((row) => !/another suggestion|accept/.test(row.text)), "suggestions are shown when annotating only");
});
