import assert from "node:assert/strict";
import { test } from "node:test";
import { addressesOf, kindIn, titleOf, titleOfResource } from "../../../pages/components/span_editor/links.js";
import { actionFor } from "../../../pages/components/span_editor/keys.js";
import { buildItem, open, plain, run, suggestion } from "./builders.mjs";

const ARTIST = { start: 2, end: 4, target: "mira_Solberg#Life", type: "musicalartist" };
const BAND = { start: 5, end: 8, target: "Copper Lanterns (Norwegian band)", type: null };
const spans = (state) => plain(state.work.spans);
const withLinks = (extra = {}, mode = "annotate") => open(buildItem({ links: [ARTIST, BAND], ...extra }), mode);

test("one key makes the link under the cursor a span of the suggested type, from any of its tokens", () => {
  assert.deepEqual(actionFor({ key: "=", code: "Equal", shiftKey: false }, { mode: "annotate", typeKeys: {} }), { do: "link" });
  for (const index of [2, 3]) {
    const state = run(withLinks(), { do: "to", index }, "link");
    assert.deepEqual(spans(state), [[2, 4, "musicalartist"]]);
    assert.deepEqual([state.anchor, state.head, state.choosing], [2, 3, null]);
    assert.deepEqual(spans(run(state, "undo")), []);
  }
});

test("off the links the key goes to the next one, and past those that are spans", () => {
  const first = run(withLinks(), "link");
  assert.deepEqual([first.anchor, first.head, spans(first)], [2, 3, []]);
  const next = run(first, "link", "link");
  assert.deepEqual([next.anchor, next.head, spans(next)], [5, 7, [[2, 4, "musicalartist"]]]);
  const all = run(next, { do: "type", type: "band" }, "link");
  assert.equal(all.message, "Every link here is a span.");
  assert.equal(run(open(buildItem()), "link").message, "No links in this sentence.");
});

test("a link without a suggested type asks for one, by what its title says", () => {
  const state = run(withLinks(), { do: "to", index: 6 }, "link");
  assert.deepEqual([state.choosing, spans(state)], ["band", []]);
  assert.deepEqual(spans(run(state, { do: "type", type: "band" })), [[5, 8, "band"]]);
  assert.equal(run(state, { do: "move", by: 1 }).choosing, null);
  assert.equal(kindIn("Mira Solberg"), "");
});

test("a link that would replace another span asks first", () => {
  const state = run(withLinks(), { do: "to", index: 3 }, { do: "type", type: "song" }, { do: "to", index: 2 }, "link");
  assert.deepEqual(spans(state), [[3, 4, "song"]]);
  assert.equal(state.confirm, "replace");
  assert.deepEqual(spans(run(state, "link")), [[2, 4, "musicalartist"]]);
});

test("a link whose tokens are suggested counts as accepted, and in a check as new", () => {
  const state = run(withLinks({ suggestions: [suggestion(2, 4, "musicalartist")] }), { do: "to", index: 2 }, "link");
  assert.equal(state.work.spans[0].origin, "accepted");
  const checked = run(withLinks({ first: [] }, "check"), { do: "to", index: 2 }, "link");
  assert.equal(checked.work.spans[0].origin, "new");
});

test("when adjudicating a link decides its unit, for the annotator who has it so", () => {
  const units = [{ kind: "missing", first: null, second: { start: 2, end: 4, type: "musicalartist" }, note: "" }];
  const state = run(withLinks({ units }, "adjudicate"), { do: "to", index: 2 }, "link");
  assert.deepEqual([state.work.decisions, spans(state)], [[{ unit: 0, choice: "second" }], [[2, 4, "musicalartist"]]]);
});

test("titles are those of pages; addresses hold nothing but the encoded title", () => {
  assert.equal(titleOf(":the_Tin  Gulls#Members"), "The Tin Gulls");
  assert.equal(titleOf("élan"), "Élan");
  assert.deepEqual(addressesOf(titleOf("#Life")), []);
  const address = (title) => addressesOf(title).map((one) => one.address);
  assert.deepEqual(address("AC/DC & Co"), [
    "https://en.wikipedia.org/wiki/AC/DC_%26_Co", "https://dbpedia.org/resource/AC/DC_%26_Co",
    "https://www.wikidata.org/wiki/Special:ItemByTitle?site=enwiki&page=AC%2FDC%20%26%20Co",
  ]);
  for (const title of ["javascript:alert(1)", "//evil.example/x", "../../x", "?a=b#c", "\"><b>", "\ud800x", "100%"])
    for (const one of addressesOf(titleOf(title))) {
      const { protocol, hostname, hash } = new URL(one.address);
      assert.equal(protocol, "https:");
      assert.ok(["en.wikipedia.org", "dbpedia.org", "www.wikidata.org"].includes(hostname), one.address);
      assert.equal(hash, "");
    }
});

test("a resource of DBpedia has its page's title, an address of another place has none", () => {
  assert.equal(titleOfResource("http://dbpedia.org/resource/Bj%C3%B6rk_(album)"), "Björk (album)");
  assert.equal(titleOfResource("http://dbpedia.org/resource/100%_Pure"), "100% Pure");
  for (const address of ["http://evil.example/resource/X", "javascript:x", null]) assert.equal(titleOfResource(address), null);
});
