import assert from "node:assert/strict";
import { test } from "node:test";
import { createWire, exchange } from "../../../pages/components/span_editor/wire.js";

const reply = (status, body) => new Response(typeof body === "string" ? body : JSON.stringify(body), { status });
const ask = (answer, message = {}) => exchange({ fetch: async () => answer, url: "/labelling/3/annotate", token: "t" }, message);

test("a message is posted as JSON with the form token, and the answer is read", async () => {
  const requests = [];
  const fetch = async (url, options) => requests.push([url, options]) && reply(200, { acks: { tab: 1 } });
  const { answer } = await exchange({ fetch, url: "/labelling/3/annotate", token: "t" }, { client: "tab", events: [] });
  const [[url, { method, headers, body }]] = requests;
  assert.deepEqual([url, method, headers["x-form-token"], headers["content-type"]], ["/labelling/3/annotate", "POST", "t", "application/json"]);
  assert.deepEqual([JSON.parse(body), answer], [{ client: "tab", events: [] }, { acks: { tab: 1 } }]);
});

test("every kind of refusal is told apart, with the server's words where it has any", async () => {
  const cases = [
    [reply(401, "Sign in first."), { kind: "signed-out", words: "" }],
    [reply(403, { problem: "Ann is a researcher." }), { kind: "barred", words: "Ann is a researcher." }],
    [reply(403, { problem: "Old page.", reason: "reload" }), { kind: "reload", words: "Old page." }],
    [reply(409, { problem: "Somebody else.", reason: "reload" }), { kind: "reload", words: "Somebody else." }],
    [reply(413, { problem: "Too large." }), { kind: "barred", words: "Too large." }],
    [reply(503, { problem: "Try later." }), { kind: "offline", words: "Try later." }],
    [reply(502, "<html>a proxy's page</html>"), { kind: "offline", words: "" }],
    [reply(200, "<html>not an answer</html>"), { kind: "offline", words: "" }],
  ];
  for (const [answer, trouble] of cases) assert.deepEqual(await ask(answer), { trouble });
  const gone = await exchange({ fetch: async () => { throw new TypeError("no connection"); }, url: "/", token: "" }, {});
  assert.deepEqual(gone, { trouble: { kind: "offline", words: "" } });
});

test("a server that does not answer is given up on", async () => {
  const fetch = (_url, { signal }) => new Promise((_, refuse) => signal.addEventListener("abort", () => refuse(signal.reason)));
  const waiting = setTimeout(() => {}, 5000); // the time limit alone does not keep Node running
  assert.deepEqual(await exchange({ fetch, url: "/", token: "", limit: 20 }, {}), { trouble: { kind: "offline", words: "" } });
  clearTimeout(waiting);
});

function setUp() {
  const sent = [];
  const done = { answered: [], failed: [], again: 0 };
  const send = (message) => new Promise((settle) => sent.push({ message, settle }));
  const post = createWire({ send, answered: (answer) => done.answered.push(answer), failed: (trouble) => done.failed.push(trouble), again: () => (done.again += 1) });
  return { sent, done, post };
}

test("one message is on its way at a time, and what came up meanwhile is sent after the answer", async () => {
  const { sent, done, post } = setUp();
  const first = post("draft");
  post("submit");
  post("submit again");
  assert.deepEqual(sent.map(({ message }) => message), ["draft"]);
  sent[0].settle({ answer: { acks: {} } });
  await first;
  assert.deepEqual([done.answered.length, done.again], [1, 1]);
  const second = post("next");
  sent[1].settle({ answer: {} });
  await second;
  assert.equal(done.again, 1, "nothing came up");
});

test("after a failure nothing is sent at once: the sender's pause goes first", async () => {
  const { sent, done, post } = setUp();
  const first = post("draft");
  post("submit");
  sent[0].settle({ trouble: { kind: "offline", words: "" } });
  await first;
  assert.deepEqual([done.failed.length, done.again], [1, 0]);
});
