import assert from "node:assert/strict";
import { test } from "node:test";
import { createOutbox, createSender, othersWork, statusOf } from "../../../pages/components/span_editor/outbox.js";
import { completed, createEffort, createSession, progressAfter } from "../../../pages/components/span_editor/session.js";
import { buildItem, memoryStorage, plain, suggestion } from "./builders.mjs";

let keys = 0;
const make = (storage = memoryStorage(), client = "tab") =>
  createOutbox({ storage, prefix: "crossner:7:3:annotate", client, now: () => 0, newKey: () => `key-${++keys}` });
const draft = (task, base, spans = 1) => ({ kind: "draft", task, base, work: { spans: Array(spans).fill(0) }, active_ms: 10, keystrokes: 1 });

function leaveBehind(storage, event) {
  const old = make(storage, "old");
  old.put(event);
  old.close();
}

test("an unsent draft is replaced by the next, its effort adds up", () => {
  const outbox = make();
  outbox.put(draft(41, 0));
  outbox.put(draft(41, 0, 2));
  const { events } = outbox.message("tab", 1);
  assert.equal(events.length, 1);
  assert.deepEqual([events[0].base, events[0].revision, events[0].active_ms, events[0].keystrokes], [0, 2, 20, 2]);
});

test("one event of a task travels at a time, tasks side by side, and numbers grow as they are sent", () => {
  const outbox = make();
  outbox.put(draft(41, 0));
  outbox.message("tab", 1);
  outbox.put({ ...draft(41, 0), kind: "submit" });
  outbox.put(draft(42, 5));
  assert.deepEqual(outbox.message("tab", 2).events.map((event) => [event.task, event.seq]), [[41, 1], [42, 2]]);
  outbox.answer({ acks: { tab: 2 } });
  const [submit] = outbox.message("tab", 3).events;
  assert.deepEqual([submit.kind, submit.seq, submit.base, submit.revision], ["submit", 3, 1, 2]);
});

test("an ack never drops what was not sent yet", () => {
  const outbox = make();
  outbox.put(draft(41, 0));
  outbox.message("tab", 1);
  outbox.put(draft(41, 0, 3));
  outbox.answer({ acks: { tab: 99 } });
  assert.equal(outbox.pending(), 1);
});

test("unacknowledged events come back under their own client, with their key, after a reload", () => {
  const storage = memoryStorage();
  const before = make(storage, "old");
  const { key } = before.put(draft(41, 0));
  before.message("old", 1);
  before.put(draft(41, 0, 2));
  before.close();
  const after = make(storage, "new");
  assert.deepEqual(after.clients(), ["old"]);
  assert.equal(after.latest(41).work.spans.length, 2);
  assert.equal(after.message("old", 1).events[0].key, key);
  after.answer({ acks: { old: 1 } });
  assert.equal(after.message("old", 2).events[0].base, 1);
  after.answer({ acks: { old: 2 } });
  assert.equal(storage.length, 0);
});

test("my edit waits for what another tab of mine left behind", () => {
  const storage = memoryStorage();
  leaveBehind(storage, draft(41, 0));
  const outbox = make(storage, "new");
  const event = outbox.put(draft(41, 0, 2));
  assert.deepEqual([event.base, event.revision], [1, 2]);
  assert.equal(outbox.message("new", 1), null);
  outbox.message("old", 1);
  outbox.answer({ acks: { old: 1 } });
  assert.equal(outbox.message("new", 2).events[0].base, 1);
});

test("the box of a living tab is left alone, that of a silent one is taken over", () => {
  const storage = memoryStorage();
  make(storage, "other").put(draft(41, 0));
  let at = 0;
  const outbox = createOutbox({ storage, prefix: "crossner:7:3:annotate", client: "tab", now: () => at, newKey: () => "k" });
  assert.deepEqual(outbox.clients(), []);
  at = 91000;
  assert.equal(outbox.adopt(), true);
  assert.deepEqual(outbox.clients(), ["other"]);
  assert.equal(outbox.adopt(), false);
});

test("a broken or foreign record in the storage is passed over", () => {
  const outbox = make(memoryStorage({ "crossner:7:3:annotate:x": "{not json", "crossner:7:3:annotate:y": '{"events":[{"task":"a"}]}', other: "1" }));
  assert.equal(outbox.pending(), 0);
});

test("a full storage is said, and the event still travels", () => {
  const outbox = make({ ...memoryStorage(), length: 0, key: () => null, setItem: () => { throw new Error("quota"); } });
  outbox.put(draft(41, 0));
  assert.equal(outbox.message("tab", 1).events.length, 1);
  assert.equal(statusOf({ outbox, waited: 0, online: false }), "lost");
});

test("a conflict holds my newest work; keep mine sends it on top of theirs with a new key", () => {
  const outbox = make();
  const { key } = outbox.put(draft(41, 0));
  outbox.message("tab", 1);
  outbox.put(draft(41, 0, 5));
  outbox.answer({ rejections: [{ client: "tab", seq: 1, task: 41, reason: "conflict", item: buildItem({ revision: 7 }) }], acks: { tab: 1 } });
  assert.equal(outbox.pending(), 0);
  const [conflict] = outbox.conflicts();
  assert.equal(conflict.event.work.spans.length, 5);
  assert.equal(statusOf({ outbox, waited: 0, online: true }), "conflict");
  const event = outbox.settle(conflict, true);
  assert.deepEqual([event.base, event.revision], [7, 8]);
  assert.notEqual(event.key, key);
  assert.equal(outbox.conflicts().length, 0);
});

test("an open conflict survives a reload", () => {
  const storage = memoryStorage();
  const outbox = make(storage);
  outbox.put(draft(41, 0));
  outbox.message("tab", 1);
  outbox.answer({ rejections: [{ client: "tab", seq: 1, task: 41, reason: "conflict", item: buildItem({ revision: 7 }) }] });
  outbox.close();
  assert.equal(make(storage, "next").conflicts().length, 1);
});

function clock() {
  const due = new Map();
  let at = 0;
  let ids = 0;
  return {
    now: () => at,
    set: (run, ms) => (due.set(++ids, [at + ms, run]), ids),
    clear: (id) => due.delete(id),
    pass: (ms) => {
      const end = at + ms;
      for (;;) {
        const next = [...due].filter(([, [when]]) => when <= end).sort((a, b) => a[1][0] - b[1][0])[0];
        if (!next) break;
        due.delete(next[0]);
        at = next[1][0];
        next[1][1]();
      }
      at = end;
    },
  };
}

test("drafts wait 400 ms, are sent again every 4 s with a new counter, and stop when acknowledged", () => {
  const outbox = make();
  const timers = clock();
  const posts = [];
  const sender = createSender({ outbox, timers, post: (message) => posts.push(message) });
  outbox.put(draft(41, 0));
  sender.soon();
  timers.pass(399);
  assert.equal(posts.length, 0);
  timers.pass(1);
  timers.pass(8000);
  assert.deepEqual(posts.map((post) => post.sent), [1, 2, 3]);
  assert.equal(new Set(posts.map((post) => post.events[0].key)).size, 1);
  assert.equal(statusOf({ outbox, waited: sender.waited(), online: true }), "offline");
  outbox.answer({ acks: { tab: 1 } });
  sender.answered(true);
  timers.pass(20000);
  assert.equal(posts.length, 3);
  assert.equal(statusOf({ outbox, waited: sender.waited(), online: true }), "saved");
});

test("somebody who only reads asks every 30 s, an idle tab every 60 s and says how long, one that waits for an answer never", () => {
  const outbox = make();
  const timers = clock();
  const posts = [];
  const effort = createEffort({ now: timers.now });
  const post = (message) => posts.push(structuredClone({ ...message, quiet: effort.quiet() }));
  const sender = createSender({ outbox, timers, post });
  const live = (seconds, doing = () => {}) => {
    for (let i = 0; i < seconds; i++) {
      timers.pass(1000);
      doing();
      sender.ask(effort.quiet());
    }
  };
  effort.open(41);
  live(120);
  assert.deepEqual(posts.map(({ quiet }) => quiet), [60000, 120000], "an open sentence is no sign of a person");
  live(95, effort.touch);
  assert.deepEqual(posts.slice(2).map(({ client, events, ask, quiet }) => [client, events.length, ask, quiet]), Array(3).fill(["tab", 0, true, 0]));
  assert.deepEqual(posts.map(({ sent }) => sent), [1, 2, 3, 4, 5]);
  outbox.put(draft(41, 0));
  live(60, effort.key);
  assert.equal(posts.length, 5, "unsent work is sent, no question covers it");
  sender.now();
  assert.equal(posts.at(-1).sent, 6);
});

test("a message holds at most a hundred events, the others follow", () => {
  const outbox = make();
  for (let task = 1; task <= 130; task++) outbox.put(draft(task, 0));
  const { events } = outbox.message("tab", 1);
  assert.equal(events.length, 100);
  outbox.answer({ acks: { tab: events.at(-1).seq } });
  assert.equal(outbox.message("tab", 2).events.length, 30);
});

test("trouble with the server has a word of its own, and work of somebody else is noticed", () => {
  const storage = memoryStorage();
  const outbox = make(storage);
  const word = (trouble, waited = 0) => statusOf({ outbox, waited, online: true, trouble });
  assert.deepEqual([word({ kind: "offline", words: "" }), word({ kind: "signed-out" })], ["saved", "signed-out"]);
  assert.equal(othersWork(storage, 7), false);
  outbox.put(draft(41, 0));
  assert.deepEqual([word(null), word({ kind: "offline", words: "" }), word({ kind: "offline", words: "Try later." })], ["saving", "saving", "offline"]);
  assert.deepEqual([word({ kind: "barred" }), word({ kind: "reload" })], ["barred", "barred"]);
  assert.deepEqual([othersWork(storage, 7), othersWork(storage, 8)], [false, true]);
});

test("sentences that are here already come as a number", () => {
  const here = [1, 2, 3].map((task) => buildItem({ task }));
  const fresh = buildItem({ task: 4 });
  assert.deepEqual(completed([{ task: 2 }, { task: 3 }, { task: 9 }, fresh], here), [here[1], here[2], fresh]);
  assert.deepEqual([completed(undefined, here), completed([], here)], [here, []]);
});

test("progress goes on with what is acknowledged", () => {
  const kinds = ["draft", "submit", "submit", "skip", "reopen"].map((kind) => ({ kind }));
  assert.deepEqual(progressAfter({ done: 3, left: 5 }, kinds), { done: 4, left: 3 });
  assert.deepEqual(progressAfter({ done: 0, left: 0 }, [{ kind: "submit" }, { kind: "reopen" }, { kind: "reopen" }]), { done: 0, left: 2 });
});

test("leftovers that are never answered do not block the own outbox", () => {
  const storage = memoryStorage();
  leaveBehind(storage, draft(40, 0));
  const outbox = make(storage, "new");
  const timers = clock();
  const clients = [];
  const sender = createSender({ outbox, timers, post: (message) => clients.push(message.client) });
  outbox.put(draft(41, 0));
  sender.now();
  timers.pass(4000);
  assert.deepEqual(new Set(clients), new Set(["old", "new"]));
});

function setUp(items, storage = memoryStorage(), client = "tab", memory = undefined) {
  const outbox = make(storage, client);
  const timers = clock();
  const posts = [];
  const sender = createSender({ outbox, timers, post: (message) => posts.push(structuredClone(message)) });
  const effort = createEffort({ now: timers.now });
  const payload = { mode: "annotate", types: [], items, acks: {}, rejections: [] };
  const session = createSession({ payload, outbox, sender, effort, memory });
  return { session, outbox, timers, posts, effort, payload };
}

const two = () => [buildItem({ task: 1, suggestions: [suggestion(2, 4, "person")] }), buildItem({ task: 2 }), buildItem({ task: 3 })];
const submit = (session) => ["accept", "enter"].forEach((step) => session.dispatch({ do: step }));

test("enter shows the next item at once and sends without waiting", () => {
  const { session, posts } = setUp(two());
  submit(session);
  assert.equal(session.state.item.task, 2);
  assert.deepEqual(posts.at(-1).events.map((event) => [event.task, event.kind]), [[1, "submit"]]);
});

test("a list from before the submit does not bring the item back, a returned one does", () => {
  const { session, payload } = setUp(two());
  submit(session);
  session.receive({ ...payload, items: two() });
  assert.equal(session.state.item.task, 2);
  session.receive({ ...payload, items: two(), acks: { tab: 1 } });
  assert.equal(session.state.item.task, 2);
  session.receive({ ...payload, items: [buildItem({ task: 1, revision: 9 })] });
  assert.equal(session.state.item.task, 1);
});

test("an acknowledged draft keeps the open item, its undo steps and its place", () => {
  const { session, timers, payload } = setUp(two());
  session.dispatch({ do: "accept" });
  timers.pass(400);
  const [first, ...rest] = two();
  session.receive({ ...payload, items: [{ ...first, revision: 1, work: session.state.work }, ...rest], acks: { tab: 1 } });
  assert.equal(session.state.past.length, 1);
  assert.equal(session.base, 1);
});

test("a newer revision of another tab is shown when nothing of mine waits", () => {
  const { session, payload } = setUp(two());
  const theirs = { spans: [{ start: 0, end: 1, type: "misc", surface: "In", origin: "new" }] };
  session.receive({ ...payload, items: [{ ...two()[0], revision: 3, work: theirs }] });
  assert.deepEqual(plain(session.state.work.spans), [[0, 1, "misc"]]);
  assert.equal(session.base, 3);
});

test("take theirs shows their work, keep mine continues on their revision", () => {
  for (const keep of [true, false]) {
    const { session, timers, payload, posts } = setUp(two());
    session.dispatch({ do: "accept" });
    timers.pass(400);
    const theirs = { ...two()[0], revision: 5, work: { spans: [] } };
    session.receive({ ...payload, items: [theirs], rejections: [{ client: "tab", seq: 1, task: 1, reason: "conflict", item: theirs }] });
    assert.equal(session.state.work.spans.length, 1, "mine stays on the screen until somebody decides");
    session.settle(keep);
    assert.equal(session.state.work.spans.length, keep ? 1 : 0);
    assert.equal(session.base, 5);
    if (keep) assert.deepEqual([posts.at(-1).events[0].base, posts.at(-1).events[0].revision], [5, 6]);
  }
});

test("a reload brings unsent work back onto the screen", () => {
  const storage = memoryStorage();
  const before = setUp(two(), storage, "old");
  before.session.dispatch({ do: "accept" });
  before.outbox.close();
  const { session, posts } = setUp(two(), storage, "new");
  assert.equal(session.state.work.spans.length, 1);
  assert.ok(session.restored);
  assert.equal(posts[0].client, "old");
});

test("the last sentence can be brought back and submitted again", () => {
  const { session, payload, posts } = setUp(two());
  submit(session);
  session.receive({ ...payload, items: two().slice(1), acks: { tab: 1 } });
  assert.ok(session.reopen());
  assert.equal(session.state.item.task, 1);
  assert.deepEqual(posts.at(-1).events.map((event) => [event.kind, event.base]), [["reopen", 2]]);
  session.receive({ ...payload, items: [{ ...two()[0], revision: 2 }, ...two().slice(1)], acks: { tab: 2 } });
  assert.equal(session.state.item.task, 1);
});

test("a lost lease says so and goes on", () => {
  const { session, timers, payload } = setUp(two());
  session.dispatch({ do: "accept" });
  timers.pass(400);
  session.receive({ ...payload, items: two().slice(1), rejections: [{ client: "tab", seq: 1, task: 1, reason: "lease", message: "Handed to somebody else." }] });
  assert.equal(session.state.item.task, 2);
  assert.match(session.notice, /somebody else/);
});

test("refused work stays on the screen, is said, and the next edit sends it again", () => {
  const { session, timers, payload, posts } = setUp(two());
  session.dispatch({ do: "accept" });
  timers.pass(400);
  session.receive({ ...payload, rejections: [{ client: "tab", seq: 1, task: 1, reason: "invalid", message: "No such type." }] });
  assert.equal(session.state.work.spans.length, 1);
  assert.equal(session.refused, "No such type.");
  session.dispatch({ do: "comment", text: "x" });
  timers.pass(400);
  assert.equal(session.refused, "");
  assert.deepEqual([posts.at(-1).events[0].seq, posts.at(-1).events[0].base], [2, 0]);
});

test("a refused submit comes back with the work that was refused", () => {
  const { session, payload } = setUp(two());
  submit(session);
  session.receive({ ...payload, items: two(), rejections: [{ client: "tab", seq: 1, task: 1, reason: "invalid", message: "No." }] });
  submit(session);
  session.dispatch({ do: "enter" });
  assert.equal(session.state.item.task, 1);
  assert.equal(session.state.work.spans.length, 1);
});

const refuse = (session, payload, more = {}) =>
  session.receive({ ...payload, ...more, rejections: [{ client: "tab", seq: 1, task: 1, reason: "invalid", message: "No such type." }] });

function refusedThenReloaded(items) {
  const storage = memoryStorage();
  const { session, timers, payload, outbox } = setUp(two(), storage);
  session.dispatch({ do: "accept" });
  timers.pass(400);
  refuse(session, payload);
  outbox.close();
  return { storage, ...setUp(items, storage, "new") };
}

test("refused work and why it was refused are there after a reload, until it is mended", () => {
  const { session, outbox, storage, posts, timers, payload } = refusedThenReloaded(two());
  assert.equal(outbox.pending(), 0);
  assert.deepEqual(plain(session.state.work.spans), [[2, 4, "person"]]);
  assert.deepEqual([session.refused, session.restored], ["No such type.", true]);
  session.dispatch({ do: "remove" });
  timers.pass(400);
  assert.deepEqual([session.refused, posts.at(-1).events[0].base, posts.at(-1).events[0].work.spans.length], ["", 0, 0]);
  session.receive({ ...payload, acks: { new: 1 } });
  assert.equal(storage.length, 0);
});

test("refused work can be let go for what is saved", () => {
  const { session, storage } = refusedThenReloaded(two());
  session.letGo();
  assert.deepEqual([session.state.work.spans.length, session.refused, session.state.item.task, storage.length], [0, "", 1, 0]);
});

test("refused work never goes over what was saved elsewhere since: it is a conflict", () => {
  const theirs = { spans: [{ start: 0, end: 1, type: "misc", surface: "In", origin: "new" }] };
  const saved = { ...two()[0], revision: 3, work: theirs };
  for (const keep of [true, false]) {
    const { session, outbox, posts } = refusedThenReloaded([saved, ...two().slice(1)]);
    assert.equal(outbox.conflicts().length, 1);
    assert.deepEqual(plain(session.state.work.spans), [[2, 4, "person"]], "mine stays on the screen until somebody decides");
    session.dispatch({ do: "comment", text: "x" });
    session.settle(keep);
    assert.equal(outbox.refusal(1), null);
    if (keep) assert.deepEqual([posts.at(-1).events[0].base, posts.at(-1).events[0].work.comment], [3, "x"]);
    else assert.deepEqual(plain(session.state.work.spans), [[0, 1, "misc"]]);
  }
});

test("a tab that holds refused work is alive, and what it held goes with the lease", () => {
  const storage = memoryStorage();
  let at = 0;
  const at90 = (client) => createOutbox({ storage, prefix: "crossner:7:3:annotate", client, now: () => at, newKey: () => client });
  const outbox = at90("tab");
  const invalid = { client: "tab", seq: 1, task: 41, reason: "invalid", message: "No." };
  outbox.put(draft(41, 0));
  outbox.message("tab", 1);
  outbox.answer({ rejections: [invalid] });
  at = 80000;
  outbox.beat();
  at = 160000;
  assert.equal(at90("other").refusal(41), null);
  outbox.put(draft(41, 0));
  outbox.message("tab", 2);
  outbox.answer({ rejections: [{ ...invalid, seq: 2 }] });
  assert.equal(outbox.refusal(41).message, "No.");
  outbox.put(draft(41, 0));
  outbox.message("tab", 3);
  outbox.answer({ rejections: [{ ...invalid, seq: 3, reason: "lease" }] });
  assert.equal(outbox.refusal(41), null);
  assert.equal(storage.length, 0);
});

test("a domain with other types brings its suggestions to the open sentence; my steps stay", () => {
  const both = { suggestions: [suggestion(2, 4, "person"), suggestion(5, 8, "band")] };
  const types = ["person", "band"].map((name) => ({ name, title: name }));
  const { session, payload } = setUp([buildItem({ task: 1, ...both })]);
  const shown = () => plain(session.state.item.suggestions);
  session.receive({ ...payload, types, items: [buildItem({ task: 1, ...both })] });
  session.dispatch({ do: "comment", text: "mine" });
  const now = buildItem({ task: 1, suggestions: both.suggestions.slice(0, 1) });
  session.receive({ ...payload, types, items: [now] });
  assert.equal(shown().length, 2, "what a model says anew does not move the marks under somebody's hands");
  session.receive({ ...payload, types: types.slice(0, 1), items: [now] });
  assert.deepEqual(shown(), [[2, 4, "person"]]);
  assert.deepEqual([session.state.work.comment, session.state.past.length, session.state.titles], ["mine", 1, { person: "person" }]);
});

test("the sentences submitted last are kept, newest first, and any of them opens again", () => {
  const kept = [];
  const memory = { load: () => kept.at(-1) ?? null, keep: (recent) => kept.push(structuredClone(recent)) };
  const { session, outbox } = setUp(two(), undefined, "tab", memory);
  submit(session);
  session.dispatch({ do: "none" });
  session.dispatch({ do: "enter" });
  session.skip("Not a sentence");
  assert.deepEqual(session.recent.map(({ item, kind }) => [item.task, kind]), [[3, "skip"], [2, "submit"], [1, "submit"]]);
  assert.ok(session.reopen(2));
  assert.deepEqual(plain(session.state.work.spans), [[2, 4, "person"]]);
  assert.deepEqual([session.state.item.task, outbox.latest(1).kind], [1, "reopen"]);
  assert.ok(!session.reopen(2), "there is no third any more");
  assert.deepEqual(kept.at(-1).map(({ item }) => item.task), [3, 2]);
  const { session: later } = setUp([buildItem({ task: 2 }), buildItem({ task: 9 })], undefined, "tab", memory);
  assert.deepEqual(later.recent.map(({ item }) => item.task), [3], "what is among the sentences again is not offered");
});

test("skipping sends the reason", () => {
  const { session, posts } = setUp(two());
  session.skip("Not a sentence");
  assert.deepEqual([posts.at(-1).events[0].kind, posts.at(-1).events[0].reason, session.state.item.task], ["skip", "Not a sentence", 2]);
});

test("active time stops after half a minute without input and while the tab is hidden", () => {
  const timers = clock();
  const effort = createEffort({ now: timers.now });
  effort.open(1);
  timers.pass(5000);
  effort.key();
  timers.pass(100000);
  effort.key();
  timers.pass(1000);
  effort.pause();
  timers.pass(60000);
  effort.touch();
  timers.pass(500);
  assert.deepEqual(effort.take(1), { active_ms: 5000 + 30000 + 1000 + 500, keystrokes: 2 });
  assert.deepEqual(effort.take(1), { active_ms: 0, keystrokes: 0 });
});
