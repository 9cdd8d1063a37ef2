// The queue of items on this screen: which one is open, what the server answered, what goes to the outbox. Pure apart
// from what is injected.
import { openItem, reduce } from "./model.js";
import { snapshotOf } from "./marks.js";

const UNDO_KEPT = 20;
const RECENT_KEPT = 5;

/** `memory` keeps the sentences submitted last over a reload: {load, keep}, of this tab alone. */
export function createSession({ payload, outbox, sender, effort, memory = { load: () => null, keep: () => {} } }) {
  const session = { payload, state: null, base: 0, recent: [], notice: "", refused: "", restored: false };
  const finished = new Map(); // task → revision of my last submit or skip, so that an older list cannot bring it back
  const titles = () => Object.fromEntries((session.payload.types ?? []).map((type) => [type.name, type.title]));

  const isOver = (item) => outbox.finished(item.task) || (finished.get(item.task) ?? -1) > item.revision;
  const queue = () => session.payload.items.filter((item) => !isOver(item) && !conflicting(item.task));
  const conflicting = (task) => outbox.conflicts().some((one) => one.task === task && one.event.kind !== "draft");

  function open(item) {
    if (!item) {
      session.state = null;
      return;
    }
    const { work } = outbox.latest(item.task) ?? withheld(item) ?? {};
    session.restored = Boolean(work);
    session.base = item.revision;
    session.refused = outbox.refusal(item.task)?.message ?? session.refused;
    session.state = openItem(item, session.payload.mode, titles(), work ?? item.work, session.payload.rules);
    effort.open(item.task);
  }

  /** My work on an item that the server does not hold: in a conflict, or refused and waiting to be corrected. */
  function withheld(item) {
    const refusal = outbox.refusal(item.task);
    if (refusal && refusal.base < item.revision) outbox.contest(refusal, item);
    return outbox.conflicts().find((one) => one.task === item.task)?.event ?? refusal;
  }

  function put(kind, extra = {}) {
    const { item } = session.state;
    const work = snapshotOf(session.state);
    session.refused = "";
    outbox.forget(item.task);
    if (outbox.amendConflict(item.task, { work, kind: kind === "reopen" ? "draft" : kind, ...extra })) return null;
    return outbox.put({ kind, task: item.task, base: session.base, work, ...effort.take(item.task), ...extra });
  }

  function advance(kind, extra) {
    const event = put(kind, extra);
    const { item, work, past, opened } = session.state;
    if (event) finished.set(event.task, event.revision);
    const last = { item, work, past: past.slice(-UNDO_KEPT), mode: session.payload.mode, revision: event?.revision ?? item.revision, opened, kind };
    remember([last, ...session.recent.filter((other) => other.item.task !== item.task)].slice(0, RECENT_KEPT));
    session.notice = "";
    open(queue()[0]);
    sender.now();
  }

  function remember(recent) {
    session.recent = recent;
    memory.keep(recent);
  }

  /** Apply an action of the model; true when the item was left. */
  session.dispatch = (action) => {
    if (!session.state) return false;
    const before = session.state.work;
    session.state = reduce(session.state, action);
    if (session.state.submit) {
      advance("submit", { opened: session.state.opened });
      return true;
    }
    if (session.state.work !== before) {
      put("draft");
      sender.soon();
    }
    return false;
  };

  session.skip = (reason) => session.state && advance("skip", { reason });

  /** Bring a submitted sentence back on the screen: the last one, or one before it. */
  session.reopen = (place = 0) => {
    const last = session.recent[place];
    if (!last) return false;
    const base = finished.get(last.item.task) ?? last.revision;
    finished.delete(last.item.task);
    remember(session.recent.filter((other) => other !== last));
    session.base = base;
    session.state = { ...openItem(last.item, last.mode, titles(), last.work, session.payload.rules), past: last.past };
    session.notice = last.opened === "refuse" ? "Open suggestions were refused at submit: Ctrl+Z brings them back." : "";
    effort.open(last.item.task);
    put("reopen");
    sender.now();
    return true;
  };

  /** Take a new payload; keeps the open item while it is still mine. Returns the events it acknowledges. */
  session.receive = (fresh) => {
    session.payload = fresh;
    const { acked, rejected } = outbox.answer(fresh);
    for (const event of acked) noteAck(event);
    for (const one of rejected) noteRejection(one);
    sender.answered(acked.length + rejected.length > 0);
    settleOpenItem();
    return acked;
  };

  function noteAck(event) {
    if (event.kind === "submit" || event.kind === "skip") finished.set(event.task, event.revision);
    if (session.state?.item.task === event.task) session.base = Math.max(session.base, event.revision);
  }

  function noteRejection({ reason, message, event }) {
    finished.delete(event.task);
    if (reason === "conflict") return;
    if (reason === "lease") {
      session.notice = message || "The server refused a change.";
      if (session.state?.item.task === event.task) session.state = null;
    } else session.refused = outbox.refusal(event.task).message;
  }

  function settleOpenItem() {
    const items = queue();
    const current = session.state && items.find((item) => item.task === session.state.item.task);
    if (current) {
      const idle = !outbox.latest(current.task) && !outbox.conflicts().some((one) => one.task === current.task);
      if (idle && current.revision > session.base) {
        open(current);
        session.notice = session.restored ? "" : "Changed in another tab: this is the newest version.";
      } else if (idle && !session.state.past.length && textOf(current) !== textOf(session.state.item)) open(current);
      else follow(current);
      return;
    }
    if (session.state && outbox.pendingOf(session.state.item.task).length) return;
    if (session.state && outbox.conflicts().some((one) => one.task === session.state.item.task)) return;
    open(items[0]);
  }

  /** Take over what may change while somebody works: the notes and, when the domain's types change, suggestions and links. */
  function follow({ notes, suggestions, links, provenance }) {
    const { item, titles: before } = session.state;
    const now = titles();
    const same = JSON.stringify(now) === JSON.stringify(before);
    session.state = { ...session.state, titles: now, item: { ...item, notes, provenance, ...(same ? {} : { suggestions, links }) } };
  }

  /** Leave a sentence that waits for an answer for the next one, if there is one. */
  session.setAside = (task, notice) => {
    if (session.state?.item.task === task) {
      const items = queue();
      open(items.find((item) => item.task !== task) ?? items[0]);
    }
    session.notice = notice;
  };

  /** Drop refused work on the open item and show what is saved. */
  session.letGo = () => {
    const { item } = session.state;
    outbox.forget(item.task);
    session.refused = "";
    open(queue().find((one) => one.task === item.task) ?? queue()[0]);
  };

  /** Restore what a crashed tab left behind, on the screen too if it is about the open item. */
  session.adopt = () => {
    if (!outbox.adopt()) return false;
    const item = session.state && queue().find((one) => one.task === session.state.item.task);
    if (item && outbox.latest(item.task)) open(item);
    sender.now();
    return true;
  };

  const textOf = (item) => JSON.stringify([item.text, item.suggestions, item.first, item.units]);

  /** Answer the first conflict. */
  session.settle = (keepMine) => {
    const [conflict] = outbox.conflicts();
    if (!conflict) return;
    const { task } = conflict.event;
    const event = outbox.settle(conflict, keepMine);
    if (event && (event.kind === "submit" || event.kind === "skip")) finished.set(task, event.revision);
    const here = session.state?.item.task === task;
    if (here && keepMine) session.base = event.base;
    if (here && !keepMine) open(conflict.item ?? queue()[0]);
    if (!session.state) open(queue()[0]);
    if (keepMine) sender.now();
  };

  sender.now();
  const { acked, rejected } = outbox.answer(payload);
  acked.forEach(noteAck);
  rejected.forEach(noteRejection);
  // What is among the sentences again was reopened elsewhere: its work is newer than what this tab remembers.
  const reopened = (last) => queue().some((item) => item.task === last.item.task);
  session.recent = (memory.load() ?? []).filter((last) => last.mode === payload.mode && !reopened(last));
  open(queue()[0]);
  return session;
}

/** An answer's items, with those that came as their task's number taken from what is here; all as they are without any. */
export function completed(items, here) {
  return items?.map((item) => (item.text === undefined ? here.find((one) => one.task === item.task) : item)).filter(Boolean) ?? here;
}

/** Progress with these events, until the server counts again. */
export function progressAfter(progress, events) {
  const moves = { submit: [1, -1], skip: [0, -1], reopen: [-1, 1] };
  return events.reduce(({ done = 0, left = 0 }, { kind }) => {
    const [more, open] = moves[kind] ?? [0, 0];
    return { done: Math.max(0, done + more), left: Math.max(0, left + open) };
  }, progress);
}

/** Counts active time and keystrokes per task; the clock stops after `idle` ms without input and while the tab is hidden. */
export function createEffort({ now, idle = 30000 }) {
  const spent = new Map();
  let task = null;
  let mark = null;
  let input = now();
  const entry = (id) => spent.get(id) ?? spent.set(id, { active_ms: 0, keystrokes: 0 }).get(id);

  function touch() {
    const at = now();
    if (task !== null && mark !== null) entry(task).active_ms += Math.min(at - mark, idle);
    mark = at;
  }

  const touched = () => {
    input = now();
    touch();
  };

  return {
    touch: touched,
    /** Milliseconds since somebody last did something here, or opened the page. */
    quiet: () => now() - input,
    open: (id) => {
      touch();
      task = id;
    },
    key: () => {
      touched();
      if (task !== null) entry(task).keystrokes += 1;
    },
    /** Stop the clock until the next input. */
    pause: () => {
      touch();
      mark = null;
    },
    /** What was spent on a task since it was last taken. */
    take: (id) => {
      if (id === task && mark !== null) touch();
      const { active_ms, keystrokes } = entry(id);
      spent.delete(id);
      return { active_ms: Math.round(active_ms), keystrokes };
    },
  };
}
