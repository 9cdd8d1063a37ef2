import assert from "node:assert/strict";
import { test } from "node:test";
import { createContexts, keepReach, keptReach, piecesOf, widened, within } from "../../../pages/components/span_editor/context.js";
import { memoryStorage } from "./builders.mjs";

test("a key widens and narrows the text around, to its ends", () => {
  assert.deepEqual([0, 1, 3, 10].map((reach) => widened(reach, 1)), [1, 3, 10, 10]);
  assert.deepEqual([0, 1, 3, 10].map((reach) => widened(reach, -1)), [0, 0, 1, 3]);
});

test("a text is cut at its marks by code points", () => {
  assert.deepEqual(piecesOf("🎸 Zoë sang .", [{ start: 2, end: 5, type: "person" }]), [
    { text: "🎸 ", type: null }, { text: "Zoë", type: "person" }, { text: " sang .", type: null },
  ]);
  assert.deepEqual(piecesOf("Zoë", [{ start: 0, end: 3, type: "person" }]), [{ text: "Zoë", type: "person" }]);
});

test("of a wide context the nearest lines are shown", () => {
  const wide = { before: ["a", "b", "c"], after: ["d", "e"], note: "" };
  assert.deepEqual(within(wide, 1), { before: ["c"], after: ["d"], note: "" });
  assert.deepEqual(within(wide, 0), { before: [], after: [], note: "" });
});

const item = (task, origin = { title: "t" }) => ({ task, origin });
const lines = { before: ["b"], after: ["a"], note: "" };

function setUp(answer = (tasks) => Object.fromEntries(tasks.map((task) => [task, lines]))) {
  const asked = [];
  const waits = [];
  let step = () => {};
  const timers = { set: (then, ms) => (waits.push(ms), (step = then)), clear: () => (step = () => {}) };
  const load = async (tasks, reach) => (asked.push([tasks, reach]), answer(tasks));
  const contexts = createContexts({ load, drawn: () => {}, timers });
  return { contexts, asked, waits, pass: () => step() };
}

test("contexts of all sentences are fetched at once, later only what is new and the open one anew", async () => {
  const { contexts, asked, waits, pass } = setUp();
  contexts.follow([item(1), item(2), item(3, null)], 1, 1);
  await pass();
  assert.deepEqual(contexts.of(2, 1), lines);
  contexts.follow([item(1), item(2), item(3, null)], 1, 1);
  contexts.follow([item(2), item(3, null), item(4)], 2, 1);
  assert.equal(contexts.of(1, 1), null, "what is not among the sentences any more is dropped");
  await pass();
  assert.deepEqual(asked, [[[1, 2], 1], [[2, 4], 1]]);
  assert.ok(waits[0] === 0 && waits[1] > 0, "what is there already is shown, and asked for again a little later");
});

test("a wider reach asks again, a narrower one does not lose what is there", async () => {
  const { contexts, asked, pass } = setUp();
  contexts.follow([item(1)], 1, 3);
  await pass();
  contexts.follow([item(1)], 1, 1);
  assert.deepEqual(contexts.of(1, 1), lines);
  contexts.follow([item(1)], 1, 10);
  await pass();
  assert.deepEqual(asked.map(([, reach]) => reach), [3, 10]);
});

test("without sentences of documents, or with no text around, nothing is asked", async () => {
  const { contexts, asked, pass } = setUp();
  contexts.follow([item(1, null)], 1, 1);
  contexts.follow([item(2)], 2, 0);
  await pass();
  assert.deepEqual([asked, contexts.of(2, 0)], [[], null]);
});

test("what could not be fetched is asked for again", async () => {
  const { contexts, asked, pass } = setUp(() => null);
  contexts.follow([item(1)], 1, 1);
  await pass();
  contexts.follow([item(1)], 1, 1);
  await pass();
  assert.equal(asked.length, 2);
});

test("the browser keeps the reach; what is no reach of ours counts as one sentence", () => {
  const storage = memoryStorage();
  assert.equal(keptReach(storage), 1);
  keepReach(storage, 3);
  assert.equal(keptReach(storage), 3);
  keepReach(storage, 7);
  assert.equal(keptReach(storage), 1);
  keepReach({ setItem: () => { throw new Error("full"); } }, 3);
});
