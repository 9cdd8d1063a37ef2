import assert from "node:assert/strict";
import { test } from "node:test";
import { createOutbox } from "../../../pages/components/span_editor/outbox.js";
import { createReview, progressText, question } from "../../../pages/components/review_keys/review.js";
import { memoryStorage } from "./builders.mjs";

const TYPES = [{ name: "band", title: "band" }, { name: "musicalartist", title: "musical artist" }];
const item = (task, extra = {}) => ({
  task, text: `Sentence ${task}`, pieces: [{ type: null, parts: [[`word ${task}`, true]] }],
  sides: [{ name: "Gold", spans: [{ text: `Name ${task}`, type: "musicalartist" }] }], can: ["keep", "change", "reopen"], asks: [], ...extra,
});

function make({ items = [1, 2, 3].map((task) => item(task)), progress = { done: 5, left: 3 }, memory, storage = memoryStorage(), client = "tab" } = {}) {
  let keys = 0;
  const outbox = createOutbox({ storage, prefix: "crossner:7:3:review-x", client, now: () => 0, newKey: () => `${client}-key-${++keys}` });
  const sent = { count: 0 };
  const sender = { now: () => sent.count++, answered: () => {} };
  const review = createReview({ data: { items, progress, types: TYPES }, outbox, sender, memory });
  /** What the server would get now, and its acknowledgement. */
  const travel = () => outbox.message(client, 1)?.events ?? [];
  const acknowledge = (fresh, more = {}) => {
    const events = travel();
    review.receive({ acks: { [client]: Math.max(...events.map(({ seq }) => seq)) }, rejections: [], items: fresh, ...more });
  };
  return { review, outbox, sent, travel, acknowledge };
}

let clock = 0;
const soon = () => (clock += 1000);

test("a decision shows the next doubt at once and is queued with a key", () => {
  const { review, travel, sent } = make();
  assert.equal(review.item.task, 1);
  assert.ok(review.decide("keep", soon()));
  assert.deepEqual([review.item.task, review.progress, review.last], [2, { done: 6, left: 2 }, "kept: Name 1 (musical artist)"]);
  const [{ kind, task, key, work }] = travel();
  assert.deepEqual([kind, task, work, sent.count], ["keep", 1, { test: false }, 1]);
  assert.ok(key.length >= 8);
});

test("a decision within 300 ms of the last one is not meant", () => {
  const { review, outbox } = make();
  review.decide("keep", 10_000);
  assert.equal(review.decide("keep", 10_299), false);
  assert.equal(review.later(10_299), false);
  assert.ok(review.decide("keep", 10_300));
  assert.equal(outbox.pending(), 2);
});

test("what would alter test asks, and only the same key again answers", () => {
  const { review, travel } = make({ items: [item(1, { asks: ["change", "reopen"] }), item(2)] });
  review.decide("change", soon());
  assert.match(question(review), /is in test.*Press 2 \(Change\) again/);
  assert.equal(review.item.task, 1);
  review.decide("reopen", soon());
  assert.match(question(review), /Press 3 \(Reopen\)/);
  review.dismiss();
  assert.equal(question(review), "");
  review.decide("change", soon());
  assert.deepEqual(travel(), []);
  review.decide("change", soon());
  assert.deepEqual([travel()[0].kind, travel()[0].work, review.item.task, question(review)], ["change", { test: true }, 2, ""]);
});

test("a decision that the doubt does not allow does nothing", () => {
  const { review, outbox } = make({ items: [item(1, { can: ["keep", "reopen"] })] });
  assert.equal(review.decide("change", soon()), false);
  assert.equal(review.decide("leave_out", soon()), false);
  assert.equal(outbox.pending(), 0);
});

test("undo queues the reversal behind the decision and shows the doubt again", () => {
  const { review, travel, acknowledge } = make();
  review.decide("change", soon());
  review.undo();
  assert.deepEqual([review.item.task, review.progress, review.last], [1, { done: 5, left: 3 }, "undone: Name 1 (musical artist)"]);
  assert.deepEqual(travel().map(({ kind }) => kind), ["change"]); // one event of a doubt travels at a time
  acknowledge([item(2), item(3)]); // the server does not know of the reversal yet
  assert.equal(review.item.task, 1);
  assert.deepEqual(travel().map(({ kind }) => kind), ["revert"]);
  acknowledge([{ task: 1 }, { task: 2 }, { task: 3 }]);
  assert.deepEqual([review.item.task, review.item.text, review.items.length, review.state().first], [1, "Sentence 1", 3, [1]]);
  assert.ok(review.decide("keep", soon()));
  assert.deepEqual([review.item.task, review.state().first], [2, []]);
});

test("undo goes back step by step, over a reload too, but not over a reopened sentence", () => {
  let kept = null;
  const memory = { load: () => kept, keep: (value) => (kept = JSON.parse(JSON.stringify(value))) };
  const { review } = make({ memory });
  review.decide("keep", soon());
  review.decide("reopen", soon());
  const again = make({ memory, items: [item(3)] }).review;
  assert.ok(again.undo());
  assert.match(again.notice, /Name 2 .* was reopened: it waits for you under Adjudicate/);
  assert.equal(again.item.task, 3);
  again.undo();
  assert.equal(again.item.task, 1);
  assert.equal(again.undo(), false);
});

test("what is put off comes last, in that order, and is said to the server", () => {
  const { review } = make();
  review.later(soon());
  review.later(soon());
  assert.equal(review.item.task, 3);
  review.later(soon());
  assert.deepEqual([review.item.task, review.state().later, review.progress], [1, [1, 2, 3], { done: 5, left: 3 }]);
});

test("a refused decision is told with its reason, and cannot be undone", () => {
  const { review, travel } = make();
  review.decide("change", soon());
  const [{ seq }] = travel();
  const rejections = [{ client: "tab", seq, task: 1, reason: "refused", message: "The gold has changed." }];
  review.receive({ acks: {}, rejections, items: [item(2), item(3)], progress: { done: 5, left: 2 } });
  assert.equal(review.notice, "Not changed: Name 1 (musical artist). The gold has changed.");
  assert.deepEqual([review.item.task, review.progress, review.canUndo()], [2, { done: 5, left: 2 }, false]);
});

test("a doubt that no longer stands gives way, and the person is told", () => {
  const { review } = make();
  review.receive({ items: [item(2), item(3)], progress: { done: 6, left: 2 } });
  assert.deepEqual([review.item.task, /no longer applies/.test(review.notice)], [2, true]);
});

test("the server's count is completed by what it does not know of yet", () => {
  const { review } = make();
  review.decide("keep", soon());
  review.decide("keep", soon());
  review.undo();
  review.receive({ items: [1, 2, 3].map((task) => ({ task })), progress: { done: 5, left: 3 } });
  assert.deepEqual([review.progress, review.item.task], [{ done: 6, left: 2 }, 2]);
});

test("what a closed tab left behind is not shown again and is sent", () => {
  const storage = memoryStorage();
  const old = make({ storage, client: "old" });
  old.review.decide("keep", soon());
  old.outbox.close();
  const { review, outbox } = make({ storage, client: "new" });
  assert.equal(review.item.task, 2);
  assert.deepEqual(outbox.message("old", 1).events.map(({ kind, task }) => [kind, task]), [["keep", 1]]);
});

test("more doubts are wanted only while there are more than are here", () => {
  const { review } = make({ progress: { done: 0, left: 40 } });
  assert.ok(review.hungry());
  assert.equal(make({ progress: { done: 0, left: 3 } }).review.hungry(), false);
});

test("progress says how long the rest takes at one's own pace", () => {
  assert.equal(progressText({ progress: { done: 3, left: 40 }, pace: 4.2 }), "3 of 43 decided, about 3 min left");
  assert.equal(progressText({ progress: { done: 3, left: 40 }, pace: null }), "3 of 43 decided");
  assert.equal(progressText({ progress: { done: 3, left: 0 }, pace: 4 }), "3 of 3 decided");
});
