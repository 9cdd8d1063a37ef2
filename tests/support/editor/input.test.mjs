import assert from "node:assert/strict";
import { test } from "node:test";
import { listen } from "../../../pages/components/span_editor/input.js";
import { typeKeysOf } from "../../../pages/components/span_editor/keys.js";
import { createEffort, createSession } from "../../../pages/components/span_editor/session.js";
import { createOutbox } from "../../../pages/components/span_editor/outbox.js";
import { buildItem, memoryStorage, suggestion } from "./builders.mjs";

/** The editor's keys on a session of these items, without a browser; `press` returns the event as the page gets it back. */
function keyboard(items, mode) {
  globalThis.window = globalThis.document = new EventTarget();
  globalThis.getComputedStyle = () => ({ direction: "ltr" });
  const types = [{ name: "person", title: "Person", key: "p" }];
  const outbox = createOutbox({ storage: memoryStorage(), prefix: "crossner:7:3:x", client: "tab", now: () => 0, newKey: () => "key" });
  const sender = { soon: () => {}, now: () => {}, answered: () => {} };
  const effort = createEffort({ now: () => 0 });
  const session = createSession({ payload: { mode, types, items, acks: {}, rejections: [] }, outbox, sender, effort });
  const parts = { sentence: new EventTarget(), root: new EventTarget() };
  const done = [];
  let clock = 0;
  const commands = { reopen: () => done.push("reopen"), skip: () => done.push("skip") };
  const run = (action) => done.push(action.do) && session.dispatch(action);
  listen({ parts, effort, outbox, sender, session, data: { mode }, typeKeys: typeKeysOf(types), commands, run, leaving: false, drag: null });
  const press = (key, { after = 1000, ...more } = {}) => {
    const event = Object.assign(new Event("keydown", { cancelable: true }), { key, code: "", repeat: false, ...more });
    Object.defineProperty(event, "timeStamp", { value: (clock += after) });
    parts.sentence.dispatchEvent(event);
    return event;
  };
  const hold = (key, more = {}) => [press(key, more), ...Array.from({ length: 7 }, () => press(key, { ...more, repeat: true }))];
  return { session, outbox, done, hold, press };
}

const numbered = (extra) => [1, 2, 3, 4].map((task) => buildItem({ task, ...extra(task) }));

test("Enter held down asks about open suggestions and waits; a second press answers and submits one sentence", () => {
  const { session, outbox, hold } = keyboard(numbered(() => ({ suggestions: [suggestion(2, 4, "person")] })), "annotate");
  const events = hold("Enter");
  assert.equal(session.state.item.task, 1);
  assert.match(session.state.message, /Enter again/);
  assert.ok(events.every((event) => event.defaultPrevented), "a repeat must not reach the page either");
  hold("Enter");
  assert.equal(session.state.item.task, 2);
  assert.equal(outbox.pending(), 1);
});

test("a second Enter within 300 ms does nothing, neither to a question nor to the next sentence", () => {
  const { session, outbox, press } = keyboard(numbered(() => ({ suggestions: [suggestion(2, 4, "person")] })), "annotate");
  press("Enter");
  press("Enter", { after: 150 });
  press("Enter", { after: 149 });
  assert.deepEqual([session.state.item.task, outbox.pending()], [1, 0]);
  press("Enter", { after: 1 }); // 300 ms after the one that asked
  assert.deepEqual([session.state.item.task, outbox.pending()], [2, 1]);
  press("Enter", { after: 100 });
  assert.equal(session.state.confirm, null);
  press(" ", { after: 50 });
  press("Enter", { after: 50 });
  assert.equal(session.state.item.task, 3, "after another key, Enter is meant");
});

test("Enter held down sends one checked sentence, and one that is agreed", () => {
  const first = [{ start: 2, end: 4, type: "person" }];
  const checking = keyboard(numbered(() => ({ first })), "check");
  checking.hold("Enter");
  assert.equal(checking.session.state.item.task, 2);
  const agreed = [{ kind: "agree", first: first[0], second: first[0] }];
  const judging = keyboard(numbered(() => ({ units: agreed })), "adjudicate");
  judging.hold("Enter");
  assert.equal(judging.session.state.item.task, 2);
});

test("a deciding key that is held decides once, an arrow that is held moves on", () => {
  const two = [suggestion(2, 4, "person"), suggestion(5, 8, "person")];
  const { session, done, hold } = keyboard(numbered(() => ({ suggestions: two })), "annotate");
  hold("Backspace");
  assert.equal(session.state.work.rejected.length, 1);
  hold(" ");
  assert.equal(session.state.work.spans.length, 1);
  hold("Enter", { shiftKey: true });
  hold(".");
  assert.deepEqual(done, ["remove", "accept", "reopen", "skip"]);
  hold("Home");
  hold("ArrowRight");
  assert.equal(session.state.head, 8);
});
