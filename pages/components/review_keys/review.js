// The doubts of one queue: which is open, what was decided, what goes to the outbox. Pure apart from what is injected.

const HASTE = 300; // ms: a decision that follows another sooner was not read
const UNDO_KEPT = 50;
const SOON = 4; // doubts left here when more are asked for
const WORDS = { keep: "kept", change: "changed", leave_out: "left out", reopen: "reopened", revert: "undone" };
const NAMES = { keep: "Keep", change: "Change", leave_out: "Leave out", reopen: "Reopen" };
const KEYS = { keep: "1", change: "2", leave_out: "2", reopen: "3" };
const GONE = "The gold has changed there, or somebody else decided: the doubt that was shown no longer applies.";

/** `memory` keeps what may be undone over a reload: {load, keep}, of this tab alone. */
export function createReview({ data, outbox, sender, memory = { load: () => null, keep: () => {} } }) {
  const review = { item: null, asked: null, notice: "", last: "", items: data.items ?? [], progress: null, pace: data.pace ?? null };
  const done = memory.load() ?? [];
  const later = [];
  const first = []; // what was undone is decided next, however little it is doubted
  let acted = -HASTE;

  const kindOf = (task) => outbox.latest(task)?.kind;
  const isDecided = (task) => ![undefined, "revert"].includes(kindOf(task));
  /** What is not decided yet: what was undone comes first, what was put off last, in that order. */
  const queue = () => {
    const place = ({ task }) => later.indexOf(task) + 1 - (first.includes(task) ? 1e6 : 0);
    return review.items.filter((item) => !isDecided(item.task)).sort((one, other) => place(one) - place(other));
  };
  const without = (list, task) => list.includes(task) && list.splice(list.indexOf(task), 1);
  const title = (item) => titleOf(item, Object.fromEntries((data.types ?? []).map((type) => [type.name, type.title])));

  /** Take the server's count, and add what it does not know of yet. */
  function count(progress) {
    review.progress = shift(progress, outbox.kinds().reduce((sum, kind) => sum + (kind === "revert" ? -1 : 1), 0));
  }

  function advance() {
    review.asked = null;
    [review.item = null] = queue();
  }

  function send(kind, item, test) {
    outbox.put({ kind, task: item.task, base: 0, work: { test } });
    review.progress = shift(review.progress, kind === "revert" ? -1 : 1);
    memory.keep(done.slice(-UNDO_KEPT));
  }

  /** Decide the open doubt at `time`; true if something changed on the screen. */
  review.decide = (kind, time) => {
    const { item } = review;
    if (!item?.can.includes(kind) || time - acted < HASTE) return false;
    acted = time;
    review.notice = "";
    if (item.asks.includes(kind) && review.asked !== kind) {
      review.asked = kind;
      return true;
    }
    done.push({ item, kind });
    without(first, item.task);
    send(kind, item, review.asked === kind);
    review.last = `${WORDS[kind]}: ${title(item)}`;
    advance();
    sender.now();
    return true;
  };

  review.later = (time) => {
    if (!review.item || time - acted < HASTE) return false;
    acted = time;
    const { task } = review.item;
    without(first, task);
    without(later, task);
    later.push(task);
    advance();
    return true;
  };

  /** Take the last decision of this tab back, and show its doubt. */
  review.undo = () => {
    const last = done.pop();
    if (!last) return false;
    const { item, kind } = last;
    review.asked = null;
    if (kind === "reopen") {
      memory.keep(done);
      review.notice = `${title(item)} was reopened: it waits for you under Adjudicate, so correct it there.`;
      return true;
    }
    send("revert", item, false);
    first.unshift(item.task);
    review.items = [item, ...review.items.filter(({ task }) => task !== item.task)];
    review.item = item;
    review.notice = "";
    review.last = `${WORDS.revert}: ${title(item)}`;
    sender.now();
    return true;
  };

  /** Take an answer: what it acknowledges leaves the outbox, what it refuses is told. Returns how many left. */
  review.receive = (answer) => {
    const { acked, rejected } = outbox.answer(answer);
    for (const { message, event } of rejected) {
      review.notice = `Not ${WORDS[event.kind]}: ${title(itemOf(event.task))}. ${message}`;
      forget(event.task);
    }
    if (answer.items) review.items = merged(answer.items);
    review.pace = answer.pace ?? review.pace;
    if (answer.progress) count(answer.progress);
    sender.answered(acked.length + rejected.length > 0);
    settle();
    return acked.length + rejected.length;
  };

  /** The server's doubts, with those it names by number taken from here; and what was undone but is not there yet. */
  function merged(fresh) {
    const undone = review.items.filter(({ task }) => kindOf(task) === "revert" && !fresh.some((item) => item.task === task));
    return [...undone, ...fresh.map((item) => (item.text === undefined ? itemOf(item.task) : item)).filter(Boolean)];
  }

  function settle() {
    const open = queue();
    const same = review.item && open.find(({ task }) => task === review.item.task);
    if (same) review.item = same;
    else {
      if (review.item) review.notice ||= GONE;
      advance();
    }
  }

  function forget(task) {
    const index = done.findLastIndex(({ item }) => item.task === task);
    if (index >= 0) done.splice(index, 1);
    memory.keep(done.slice(-UNDO_KEPT));
  }

  const itemOf = (task) => [...review.items, ...done.map(({ item }) => item)].find((item) => item.task === task);

  review.dismiss = () => {
    const had = Boolean(review.notice || review.asked);
    review.notice = "";
    review.asked = null;
    return had;
  };
  /** What a message says beside its events. */
  review.state = () => ({ known: review.items.map(({ task }) => task), later: [...later], first: [...first] });
  review.canUndo = () => done.length > 0;
  /** Whether more doubts are to be fetched, because few of those that are here are open or not put off. */
  review.hungry = () => {
    const open = queue();
    return open.length < (review.progress?.left ?? 0) && open.filter(({ task }) => !later.includes(task)).length < SOON;
  };

  count(data.progress);
  advance();
  return review;
}

/** What asks before a decision alters test; empty if nothing does. */
export function question({ asked }) {
  if (!asked) return "";
  return (
    "This sentence is in test: models are measured on its gold, and scores before and after would differ. " +
    `Press ${KEYS[asked]} (${NAMES[asked]}) again to alter test all the same; it is recorded. Esc: leave it as it is.`
  );
}

/** How far the queue is and how long the rest takes at one's own pace, in words. */
export function progressText({ progress, pace }) {
  if (!progress) return "";
  const whole = progress.done + progress.left;
  const words = `${progress.done} of ${whole} decided`;
  if (!pace || !progress.left) return words;
  const minutes = Math.ceil((pace * progress.left) / 60);
  return `${words}, about ${minutes} min left`;
}

function titleOf(item, titles) {
  if (!item) return "a doubt";
  const spans = item.sides[0]?.spans ?? [];
  if (spans.length) return spans.map(({ text, type }) => `${text} (${titles[type] ?? type})`).join(" · ");
  return item.pieces.flatMap(({ parts }) => parts.filter(([, doubted]) => doubted).map(([text]) => text)).join("") || item.text;
}

function shift(progress, by) {
  return progress && { done: Math.max(0, progress.done + by), left: Math.max(0, progress.left - by) };
}
