// What stands beside the sentence, to read and not to mark: the text around it, and what one submitted a moment ago.
import { typeTitle } from "./model.js";
import { button, h, keycap, replace } from "./dom.js";

const REACHES = [0, 1, 3, 10]; // sentences on either side
const KEPT_REACH = "crossner-context";
const WAIT = 400; // ms: what one has just submitted is marked in the text around the next sentence
const SHOWN = 3;

/** The next wider or narrower reach; the widest and the narrowest stay. Pure. */
export function widened(reach, by) {
  const place = REACHES.indexOf(reach);
  return REACHES[Math.max(0, Math.min(REACHES.length - 1, place + by))];
}

/** A text cut at its marks (code points): [{text, type}], type null between them. Pure. */
export function piecesOf(text, marks) {
  const points = Array.from(text);
  const cut = (from, to) => points.slice(from, to).join("");
  const pieces = [];
  let end = 0;
  for (const mark of marks) {
    if (mark.start > end) pieces.push({ text: cut(end, mark.start), type: null });
    pieces.push({ text: cut(mark.start, mark.end), type: mark.type });
    end = mark.end;
  }
  if (end < points.length) pieces.push({ text: cut(end, points.length), type: null });
  return pieces;
}

/** A context as far as it is to be shown. Pure. */
export function within({ before, after, note }, reach) {
  return { before: reach ? before.slice(-reach) : [], after: after.slice(0, reach), note };
}

/**
 * Keeps the contexts of the items: those of coming sentences are fetched ahead, so that nothing moves when they open.
 * `load(tasks, reach)` returns them by task, or null; `drawn` is called when something came.
 */
export function createContexts({ load, drawn, timers }) {
  const kept = new Map(); // task → {reach, context}
  let asked = "";
  let timer = null;

  async function fetchThem(tasks, reach) {
    const contexts = await load(tasks, reach);
    if (!contexts) asked = ""; // again at the next occasion
    for (const [task, context] of Object.entries(contexts ?? {})) kept.set(Number(task), { reach, context });
    if (contexts) drawn();
  }

  return {
    of: (task, reach) => {
      const held = kept.get(task);
      return held && reach ? within(held.context, reach) : null;
    },
    /** Ask for what these items need; the open one is asked for again, as more may be marked around it by now. */
    follow: (items, open, reach) => {
      const placed = items.filter((item) => item.origin).map((item) => item.task);
      const wish = JSON.stringify([placed, open, reach]);
      if (wish === asked || !reach || !placed.length) return;
      asked = wish;
      for (const task of kept.keys()) if (!placed.includes(task)) kept.delete(task);
      const tasks = placed.filter((task) => task === open || (kept.get(task)?.reach ?? 0) < reach);
      timers.clear(timer);
      const ready = (kept.get(open)?.reach ?? 0) >= reach;
      timer = timers.set(() => fetchThem(tasks, reach), ready ? WAIT : 0);
    },
    stop: () => timers.clear(timer),
  };
}

/** The reach this browser keeps. */
export function keptReach(storage) {
  const reach = Number(storage.getItem(KEPT_REACH) ?? 1);
  return REACHES.includes(reach) ? reach : 1;
}

export function keepReach(storage, reach) {
  try {
    storage.setItem(KEPT_REACH, String(reach));
  } catch {
    return; // full or forbidden: it lasts as long as the page
  }
}

/** A text with its marks in grey, each with its type's title. */
export function greyText(text, marks, title) {
  return piecesOf(text, marks).map((piece) =>
    piece.type ? h("span", { class: "past" }, piece.text, h("span", { class: "past-type" }, title(piece.type))) : piece.text);
}

/** The line above: where the sentence comes from, and how much of the text around it is shown. */
function originLine(origin, reach, widen) {
  const where = [origin.title, origin.section].filter(Boolean).join(" › ");
  const page = origin.link
    ? h("a", { href: origin.link, target: "_blank", rel: "noopener noreferrer", tabindex: "-1", title: "Open the page in a new tab" }, where, " ↗")
    : h("span", {}, where);
  const size = reach ? `${reach} before and after` : "no text around";
  const act = (text, label, key, by) => button("", { class: "small", tabindex: "-1", "aria-label": label, title: label, disabled: widened(reach, by) === reach, press: () => widen(by) }, keycap(key), text);
  return [page, h("span", { class: "reach" }, size, act("", "Less text around", "−", -1), act("", "More text around", "+", 1))];
}

/** Draws what stands around the open sentence. */
export function createAround({ origin, before, after }, widen) {
  let drawn = "";

  function fill(root, lines, gapAfter, title) {
    const nodes = lines.flatMap((line) => {
      const text = h("span", { class: "line", dir: "auto" }, ...greyText(line.text, line.marks, title));
      return gapAfter ? [text, line.gap ? " … " : " "] : [line.gap ? "… " : "", text, " "];
    });
    replace(root, h("div", { class: "lines" }, ...nodes));
    const cut = root.scrollHeight > root.clientHeight + 2;
    root.classList.toggle("cut", cut);
    if (cut && !root.classList.contains("near")) root.setAttribute("tabindex", "0"); // it scrolls, by keys too
    else root.removeAttribute("tabindex");
  }

  return {
    show: (state, context, reach) => {
      const from = state.item.origin;
      const signature = JSON.stringify([state.item.task, from, context, reach, state.titles]);
      if (signature === drawn) return;
      drawn = signature;
      origin.hidden = !from;
      for (const root of [before, after]) {
        root.hidden = !from || !reach;
        root.classList.toggle("near", reach === 1);
      }
      if (!from) return;
      replace(origin, ...originLine(from, reach, widen));
      const title = (name) => typeTitle(state, name);
      fill(before, context?.before ?? [], true, title);
      fill(after, context?.after ?? [], false, title);
      if (context?.note) replace(after, h("span", {}, context.note));
      before.scrollTop = before.scrollHeight;
    },
  };
}

/** The sentences submitted last, the newest first; each opens again. */
export function createRecent(root, { reopen, titles }) {
  let drawn = "";
  return {
    show: (recent) => {
      const shown = recent.slice(0, SHOWN);
      const names = titles();
      const signature = JSON.stringify([shown.map(({ item, revision, work }) => [item.task, revision, work.spans]), names]);
      if (signature === drawn) return;
      drawn = signature;
      root.hidden = !shown.length;
      const row = ({ item, work, kind }, place) => {
        const marks = work.spans.map(({ start, end, type }) => ({ start: item.tokens[start][0], end: item.tokens[end - 1][1], type }));
        const line = h("span", { class: "line", dir: "auto" }, ...greyText(item.text, marks, (name) => names[name] ?? name));
        const how = kind === "skip" ? "skipped" : marks.length ? "" : "no entities";
        return h("li", {}, button("", { class: "again", title: "Open this sentence again", press: () => reopen(place) }, line), how && h("span", { class: "quiet" }, how));
      };
      replace(root, h("li", { class: "word" }, "Submitted last"), ...shown.map(row));
    },
  };
}
