import assert from "node:assert/strict";
import { test } from "node:test";
import { actionFor, helpRows } from "../../../pages/components/span_editor/keys.js";
import { isProposedElsewhere, placesLike, proposedElsewhere } from "../../../pages/components/span_editor/identical.js";
import { createElsewhere, offerWords } from "../../../pages/components/span_editor/elsewhere.js";
import { buildItem, open, plain, run, span, suggestion, type } from "./builders.mjs";

const WORDS = "The Gulls and The Gulls met the Gulls , The Gulls in Oslo and Oslo".split(" ");
const item = (extra = {}) => buildItem(extra, WORDS);
const band = (state) => run(state, { do: "select", from: 0, to: 1 }, type("band"));
const IDENTICAL = { do: "identical" };
const EVERYWHERE = [[0, 2, "band"], [3, 5, "band"], [9, 11, "band"]];

test("one key marks the same words throughout the sentence and proposes them elsewhere; one undo takes all back", () => {
  const marked = band(open(item()));
  const all = run(marked, IDENTICAL);
  assert.deepEqual(plain(all.work.spans), EVERYWHERE);
  assert.deepEqual(all.work.spans.map((one) => [one.origin, one.elsewhere ?? false]), [["new", true], ["identical", false], ["identical", false]]);
  assert.match(all.message, /The Gulls \(band\): 2 more marked here, proposed in open sentences/);
  assert.deepEqual([all.anchor, all.head], [0, 1]);
  assert.deepEqual(run(all, "undo").work, marked.work);
  assert.deepEqual(run(all, "undo", "redo").work, all.work);
});

test("the same key again takes back what it marked and proposed, and nothing else", () => {
  const own = run(band(open(item())), { do: "select", from: 12, to: 12 }, type("location"), IDENTICAL);
  const both = run(own, { do: "focusMark", mark: span(0, 2) }, IDENTICAL, IDENTICAL);
  assert.deepEqual(plain(both.work.spans), [[0, 2, "band"], [12, 13, "location"], [14, 15, "location"]]);
  assert.deepEqual(both.work.spans.map((one) => one.elsewhere ?? false), [false, true, false]);
});

test("what is marked or rejected stays as it is; letters and whole tokens decide", () => {
  const marked = run(open(item()), { do: "select", from: 4, to: 4 }, type("misc"), { do: "select", from: 0, to: 1 }, type("band"), IDENTICAL);
  assert.deepEqual(plain(marked.work.spans), [[0, 2, "band"], [4, 5, "misc"], [9, 11, "band"]]);
  const offered = open(item({ suggestions: [suggestion(9, 11, "band")] }));
  const refused = run(band(run(offered, { do: "focusMark", mark: span(9, 11) }, "remove")), IDENTICAL);
  assert.deepEqual(plain(refused.work.spans), [[0, 2, "band"], [3, 5, "band"]]);
  const { split, work } = open(item());
  assert.deepEqual([placesLike(split, work, span(6, 7)), placesLike(split, work, span(7, 8))], [[], [span(1, 2)]].map((places) => places.map(({ start, end }) => ({ start, end }))));
});

test("a part of a longer name is another name, unless the span stands in one as well", () => {
  const at = (words, start) => placesLike(open(buildItem({}, words.split(" "))).split, open(buildItem()).work, span(start, start + 1));
  assert.deepEqual(at("They met Labour , the Labour Party , New Labour and Labour", 2).map(({ start }) => start), [11]);
  assert.deepEqual(at("Then Mr Smith and Ms Smith met Mr Smith", 2).map(({ start }) => start), [8]);
  assert.deepEqual(at("Near Oslo in Oslo", 3).map(({ start }) => start), [1]);
});

test("a suggestion is taken with it in one step, and a new type goes to all that were made from it", () => {
  const offered = open(item({ suggestions: [suggestion(0, 2, "band")] }));
  const all = run(offered, IDENTICAL);
  assert.deepEqual(plain(all.work.spans), EVERYWHERE);
  assert.equal(all.work.spans[0].origin, "accepted");
  assert.equal(run(all, "undo").work.spans.length, 0);
  const retyped = run(all, type("organisation"));
  assert.equal(proposedElsewhere(retyped.work), "[]", "a span of another type proposes nothing until it is asked to");
  assert.deepEqual(plain(run(retyped, IDENTICAL).work.spans), EVERYWHERE.map(([start, end]) => [start, end, "organisation"]));
});

test("it needs a span, and belongs to annotating", () => {
  assert.match(run(open(item()), IDENTICAL).message, /give it a type first/);
  const first = [span(0, 2, "band")];
  const checked = run(open(item({ first }), "check"), IDENTICAL);
  assert.deepEqual(plain(checked.work.spans), [[0, 2, "band"]]);
  assert.match(checked.message, /while annotating/);
  const press = (more) => actionFor({ key: "Enter", code: "Enter", shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, ...more }, { mode: "annotate", typeKeys: {} });
  assert.deepEqual([press({ ctrlKey: true }), press({ metaKey: true }), press({}).do], [IDENTICAL, IDENTICAL, "enter"]);
  const helps = (mode) => helpRows(mode).some(({ keys }) => keys === "Ctrl + Enter");
  assert.deepEqual([helps("annotate"), helps("check"), helps("adjudicate")], [true, false, false]);
});

test("the offer counts sentence, document and campaign, and says when they are proposed", () => {
  const marked = band(open(item()));
  assert.equal(offerWords(marked, { document: 3, campaign: 12 }), "also 2 here, 3 in this document, 12 elsewhere");
  assert.equal(offerWords(marked, undefined), "also 2 here");
  const all = run(marked, IDENTICAL);
  assert.ok(isProposedElsewhere(all.work, all.work.spans[2]));
  assert.equal(offerWords(all, { document: 0, campaign: 1 }), "proposed 1 in the campaign");
  const alone = run(open(item()), { do: "select", from: 5, to: 5 }, type("misc"));
  assert.equal(offerWords(alone, { document: 0, campaign: 0 }), "");
});

function clock() {
  const due = new Map();
  let id = 0;
  return { set: (step) => (due.set((id += 1), step), id), clear: (one) => due.delete(one), now: () => 0, run: () => [...due].forEach(([one, step]) => due.delete(one) && step()) };
}

test("counts are asked for once the focus rests on a span, by any message that goes then", () => {
  const timers = clock();
  let nudges = 0;
  const elsewhere = createElsewhere({ timers, nudge: () => (nudges += 1) });
  const marked = band(open(item()));
  elsewhere.follow(marked);
  assert.deepEqual(elsewhere.carried({ events: [] }).look, { task: 41, start: 0, end: 2 });
  timers.run();
  timers.run();
  assert.equal(nudges, 2, "asked again until there is an answer");
  elsewhere.take({ document: 1, campaign: 2 }, { task: 41, start: 0, end: 2 }, []);
  timers.run();
  elsewhere.follow(marked);
  timers.run();
  assert.deepEqual([nudges, elsewhere.carried({ events: [] }).look], [2, undefined]);
  elsewhere.follow(run(marked, { do: "to", index: 6 }));
  timers.run();
  assert.equal(nudges, 2);
});

test("a message that changes what is proposed asks for the sentences anew, until it is acknowledged", () => {
  const elsewhere = createElsewhere({ timers: clock(), nudge: () => {} });
  const marked = band(open(item()));
  const all = run(marked, IDENTICAL);
  const asks = (work) => elsewhere.carried({ events: [{ task: 41, work }] }).ask ?? false;
  assert.deepEqual([asks(marked.work), asks(all.work), asks(all.work)], [false, true, true]);
  elsewhere.take(undefined, undefined, [{ task: 41, work: all.work }]);
  assert.deepEqual([asks(all.work), asks(marked.work)], [false, true]);
});
