// Carries messages to the server and its answers back, one message at a time. Pure apart from what is injected.

/** Post one message; returns {answer} or {trouble: {kind, words}}, of kind offline, signed-out, barred or reload. */
export async function exchange({ fetch, url, token, limit = 10000 }, message) {
  let reply;
  try {
    const headers = { "content-type": "application/json", "x-form-token": token };
    reply = await fetch(url, { method: "POST", headers, body: JSON.stringify(message), signal: AbortSignal.timeout(limit) });
    if (reply.ok) return { answer: await reply.json() };
  } catch {
    return { trouble: { kind: "offline", words: "" } };
  }
  const { problem = "", reason = "" } = await reply.json().catch(() => ({})); // a proxy answers with pages of its own
  const barred = reason === "reload" ? "reload" : "barred";
  return { trouble: { kind: reply.status === 401 ? "signed-out" : reply.status < 500 ? barred : "offline", words: problem } };
}

/** Get what is shown beside the sentences, as JSON; null if that failed: nothing of a person's work is in it. */
export async function fetched({ fetch, url, limit = 10000 }) {
  try {
    const reply = await fetch(url, { headers: { accept: "application/json" }, signal: AbortSignal.timeout(limit) });
    return reply.ok ? await reply.json() : null;
  } catch {
    return null;
  }
}

/**
 * A post that waits for its answer before the next: a slow server is not asked more and more often. What came up
 * meanwhile is in the outbox; `again` sends it.
 */
export function createWire({ send, answered, failed, again }) {
  let busy = false;
  let skipped = false;
  return async function post(message) {
    if (busy) {
      skipped = true;
      return;
    }
    busy = true;
    const { answer, trouble } = await send(message);
    busy = false;
    const more = skipped;
    skipped = false;
    if (trouble) failed(trouble);
    else answered(answer);
    if (answer && more && !busy) again();
  };
}
