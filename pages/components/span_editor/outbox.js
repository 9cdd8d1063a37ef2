// What the server has not acknowledged yet. The core is pure: storage, clock and keys are injected.
//
// A box belongs to one tab (client). Events wait in it, in localStorage too, until the server acknowledges them. One event
// per task is in flight at a time, so that `base` is the revision the server holds unless somebody else wrote; tasks do
// not wait for each other. `seq` is assigned at the first send. A later snapshot replaces an unsent draft of its task.

const FINAL = new Set(["submit", "skip"]);
const MOST_EVENTS = 100; // of a message: the server limits its size

// A tab that closes marks its box as closed; only closed boxes, and those whose tab has been silent for `stale` ms (a
// crash), are taken over by another tab. Two tabs never number the events of one box.
export function createOutbox({ storage, prefix, client, now, newKey, stale = 90000 }) {
  const boxes = new Map();
  const box = (id) => boxes.get(id) ?? boxes.set(id, { next: 1, events: [], conflicts: [], refused: [], closed: false }).get(id);
  let stored = true;

  function save(id) {
    const { next, events, conflicts, refused, closed } = box(id);
    const name = `${prefix}:${id}`;
    try {
      const kept = { next, events, conflicts, refused, closed, at: now() };
      if (events.length || conflicts.length || refused.length) storage.setItem(name, JSON.stringify(kept));
      else storage.removeItem(name);
      stored = true;
    } catch {
      stored = false; // full or forbidden: the status line says so, the copy in memory remains
    }
  }

  function recover() {
    const names = [];
    try {
      for (let i = 0; i < storage.length; i++) names.push(storage.key(i));
    } catch {
      stored = false;
    }
    for (const name of names.filter((one) => one?.startsWith(`${prefix}:`))) {
      const id = name.slice(prefix.length + 1);
      if (boxes.has(id)) continue;
      const found = parseBox(storage.getItem(name));
      if (found?.closed || (found && now() - found.at > stale)) boxes.set(id, { ...found, closed: true });
    }
    return boxes.size;
  }

  function pendingOf(task) {
    return [...boxes.values()].flatMap((one) => one.events.filter((event) => event.task === task));
  }

  /** Queue a snapshot; `base` is the server revision that the shown state is based on. Returns the event. */
  function put({ kind, task, base, work, reason = "", opened, active_ms = 0, keystrokes = 0 }) {
    const mine = box(client);
    const waiting = mine.events.find((event) => event.task === task && event.seq === null && event.kind === "draft");
    const before = newestOf(pendingOf(task).filter((event) => event !== waiting));
    const from = before ? before.revision : (waiting?.base ?? base);
    const revision = Math.max(from, waiting?.revision ?? 0) + 1;
    const event = {
      seq: null, key: newKey(), kind, task, base: from, revision, work, reason, ...(opened && { opened }),
      active_ms: active_ms + (waiting?.active_ms ?? 0), keystrokes: keystrokes + (waiting?.keystrokes ?? 0),
    };
    mine.events = [...mine.events.filter((one) => one !== waiting), event];
    save(client);
    forget(task);
    return event;
  }

  /** Whether an event has to wait for another event of its task, from any tab. */
  function held(event) {
    return pendingOf(event.task).some((other) => other !== event && other.revision <= event.base);
  }

  /** The message for one client, or null if none of its events may be sent; numbers events at their first send. */
  function message(id, counter) {
    const { events } = box(id);
    const tasks = new Set();
    const first = events.filter((event) => !tasks.has(event.task) && tasks.add(event.task)).slice(0, MOST_EVENTS);
    const travelling = first.filter((event) => event.seq !== null || !held(event));
    if (!travelling.length) return null;
    let numbered = false;
    for (const event of travelling)
      if (event.seq === null) {
        event.seq = box(id).next++;
        numbered = true;
      }
    if (numbered) save(id);
    const inOrder = [...travelling].sort((a, b) => a.seq - b.seq);
    return { client: id, events: inOrder, sent: counter };
  }

  /** Take the server's answer; returns {acked, rejected}, each with the events that left. */
  function answer({ acks, rejections }) {
    const rejected = [];
    for (const rejection of rejections ?? []) {
      const home = boxes.get(rejection.client);
      const event = home?.events.find((one) => one.seq === rejection.seq);
      if (!event) continue;
      const newest = newestOf(pendingOf(event.task));
      for (const [id, other] of boxes) {
        const kept = other.events.filter((one) => one.task !== event.task);
        if (kept.length === other.events.length) continue;
        other.events = kept;
        save(id);
      }
      forget(event.task);
      if (rejection.reason === "conflict") box(client).conflicts = [...box(client).conflicts, { ...rejection, event: newest }];
      if (rejection.reason === "invalid") {
        const { task, base } = event;
        box(client).refused = [...box(client).refused, { task, base, work: newest.work, message: rejection.message || "The server refused a change." }];
      }
      rejected.push({ ...rejection, event: newest });
      save(client);
    }
    const acked = [];
    for (const [id, highest] of Object.entries(acks ?? {})) {
      const home = boxes.get(id);
      if (!home) continue;
      const done = home.events.filter((event) => event.seq !== null && event.seq <= highest);
      if (!done.length) continue;
      home.events = home.events.filter((event) => !done.includes(event));
      acked.push(...done);
      save(id);
    }
    return { acked, rejected };
  }

  /** Settle a conflict: `keepMine` queues my work again on top of theirs, otherwise it is dropped. */
  function settle(conflict, keepMine) {
    for (const [id, home] of boxes) {
      if (!home.conflicts.includes(conflict)) continue;
      home.conflicts = home.conflicts.filter((one) => one !== conflict);
      save(id);
    }
    if (!keepMine) return null;
    const { kind, task, work, reason, opened } = conflict.event;
    return put({ kind, task, work, reason, opened, base: conflict.item?.revision ?? conflict.event.base });
  }

  /** Work on a task that the server refused, with its base revision and the reason; it waits to be corrected. */
  function refusal(task) {
    return [...boxes.values()].flatMap((one) => one.refused).find((one) => one.task === task) ?? null;
  }

  /** Drop refused work on a task. */
  function forget(task) {
    for (const [id, home] of boxes) {
      const kept = home.refused.filter((one) => one.task !== task);
      if (kept.length === home.refused.length) continue;
      home.refused = kept;
      save(id);
    }
  }

  /** Refused work whose sentence has since been saved elsewhere: its author chooses, as in any conflict. */
  function contest({ task, base, work }, item) {
    const event = { kind: "draft", task, base, work, reason: "" };
    box(client).conflicts = [...box(client).conflicts, { client, seq: null, task, reason: "conflict", message: "", item, event }];
    save(client);
    forget(task);
  }

  /** While a conflict is open, further edits go into the work it holds. */
  function amendConflict(task, changes) {
    for (const [id, home] of boxes) {
      const conflict = home.conflicts.find((one) => one.task === task);
      if (!conflict) continue;
      Object.assign(conflict.event, changes);
      save(id);
      return true;
    }
    return false;
  }

  recover();
  return {
    client,
    /** Take over boxes of tabs that have died; true if there were any. */
    adopt: () => boxes.size < recover(),
    /** Record in the storage that this tab is alive. */
    beat: () => (box(client).events.length || box(client).refused.length) && save(client),
    close: () => {
      box(client).closed = true;
      save(client);
    }, put, message, answer, settle, amendConflict, pendingOf, refusal, forget, contest,
    clients: () => [...boxes.keys()].filter((id) => box(id).events.length),
    conflicts: () => [...boxes.values()].flatMap((one) => one.conflicts),
    waiting: () => [...boxes.values()].flatMap((one) => one.events),
    pending: () => [...boxes.values()].reduce((sum, one) => sum + one.events.length, 0),
    holds: () => [...boxes.values()].some((one) => one.events.length || one.refused.length),
    finished: (task) => pendingOf(task).some((event) => FINAL.has(event.kind)),
    latest: (task) => newestOf(pendingOf(task)),
    kinds: () => [...boxes.values()].flatMap((one) => one.events.map(({ kind }) => kind)),
    keepsCopy: () => stored,
  };
}

function newestOf(events) {
  return events.reduce((best, event) => (!best || event.revision >= best.revision ? event : best), null);
}

function parseBox(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return null; // not ours, or cut off: nothing to restore
  }
  if (!found || !Array.isArray(found.events)) return null;
  const events = found.events.filter((event) => event?.key && Number.isInteger(event.task) && event.work);
  const highest = events.reduce((top, event) => Math.max(top, event.seq ?? 0), 0);
  const next = Math.max(found.next ?? 1, highest + 1);
  const refused = (Array.isArray(found.refused) ? found.refused : []).filter((one) => Number.isInteger(one?.task) && one.work);
  return { next, events, conflicts: found.conflicts ?? [], refused, closed: Boolean(found.closed), at: found.at ?? 0 };
}

/**
 * Sends the outbox: at once or after a pause, again after `patience` ms without an answer, one client at a time. While
 * nothing waits, `ask` asks what has changed: every `often` ms while somebody is here, else every `rarely` ms.
 */
export function createSender({ outbox, post, timers, pause = 400, patience = 4000, often = 30000, rarely = 60000 }) {
  let counter = 0;
  let due = null;
  let retry = null;
  let last = null;
  let waitingSince = null;
  let posted = timers.now();

  function send() {
    if (due !== null) timers.clear(due);
    due = null;
    const ids = outbox.clients();
    if (retry !== null) timers.clear(retry);
    retry = null;
    if (!ids.length) {
      waitingSince = null;
      return;
    }
    // Another tab's leftovers and our own take turns, so that neither can block the other.
    const from = ids.indexOf(last) + 1;
    for (const id of [...ids.slice(from), ...ids.slice(0, from)]) {
      const message = outbox.message(id, counter + 1);
      if (!message) continue;
      last = id;
      counter += 1;
      waitingSince ??= timers.now();
      posted = timers.now();
      post(message);
      break;
    }
    retry = timers.set(send, patience);
  }

  return {
    soon: () => {
      if (due !== null) timers.clear(due);
      due = timers.set(send, pause);
    },
    now: send,
    /** Ask, if it is time to; the last input was `quiet` ms ago. Leases are renewed for people, not for open tabs. */
    ask: (quiet) => {
      const since = timers.now() - posted;
      if (outbox.pending() || since < (quiet < since ? often : rarely)) return;
      counter += 1;
      posted = timers.now();
      post({ client: outbox.client, events: [], sent: counter, ask: true });
    },
    /** Post now, with whatever waits, what a message says beside its events. */
    nudge: () => {
      if (outbox.pending()) return send();
      counter += 1;
      posted = timers.now();
      return post({ client: outbox.client, events: [], sent: counter });
    },
    answered: (progress) => {
      if (progress) waitingSince = null;
      if (progress && outbox.clients().length) send();
      else if (!outbox.clients().length) {
        if (retry !== null) timers.clear(retry);
        retry = null;
        waitingSince = null;
      }
    },
    waited: () => (waitingSince === null ? 0 : timers.now() - waitingSince),
    stop: () => [due, retry].forEach((timer) => timer !== null && timers.clear(timer)),
  };
}

/** One word for the state of saving: conflict, signed-out, barred, saved, offline, lost, saving. */
export function statusOf({ outbox, waited, online, trouble = null, patience = 6000 }) {
  if (outbox.conflicts().length) return "conflict";
  if (trouble && trouble.kind !== "offline") return trouble.kind === "reload" ? "barred" : trouble.kind;
  if (!outbox.pending()) return "saved";
  if (!online || waited > patience || trouble?.words) return outbox.keepsCopy() ? "offline" : "lost";
  return "saving";
}

const KEPT = "Your changes wait in this browser and are sent again.";

/** The state of saving in words: `words` are the reason, where there is one, and `pending` says that something waits. */
export function statusText(status, { words = "", pending }) {
  const reason = words ? ` ${words}` : "";
  const texts = {
    saved: "Saved",
    saving: "Saving…",
    offline: words ? `Not saved. ${KEPT}${reason}` : "Not saved: no connection. Kept in this browser, and sent once you are online again.",
    lost: `Not saved${words ? `.${reason} This` : ": no connection, and this"} browser keeps no copy. Leave the page open.`,
    conflict: "Conflict",
    refused: `Not saved.${reason}`,
    barred: pending ? `Not saved.${reason} Your changes are kept in this browser.` : words,
    "signed-out": pending ? "Not saved: you are signed out. Your changes are kept in this browser and sent once you sign in again." : "You are signed out.",
  };
  return texts[status];
}

/** Whether unsent work of somebody else lies in this browser. */
export function othersWork(storage, user) {
  const owners = [];
  for (let i = 0; i < storage.length; i++) owners.push(/^crossner:(\d+):/.exec(storage.key(i))?.[1]);
  return owners.some((owner) => owner && owner !== String(user));
}
