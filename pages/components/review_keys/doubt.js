// One doubt on the screen: how far the queue is, the sentence, both sides, the reason, and the keys.
import { button, h, keycap, replace, setText } from "../span_editor/dom.js";
import { progressText, question } from "./review.js";

/** The empty parts; `press` has a handler for each button. */
export function buildDoubt(press) {
  const act = (text, key, handler, props = {}) => button(h("span", {}, text), { class: "act", ...props, press: handler }, " ", keycap(key));
  const view = {
    progress: h("span", { class: "progress" }),
    status: h("span", { class: "status", "aria-live": "off" }),
    track: h("div", { class: "track", role: "progressbar", "aria-label": "Decided", "aria-valuemin": "0" }, h("i", {})),
    about: h("p", { class: "about" }),
    sentence: h("p", { class: "doubted", dir: "auto" }),
    sides: h("div", { class: "sides" }),
    why: h("p", { class: "why" }),
    other: h("div", { class: "beside" }),
    empty: h("p", { class: "empty", hidden: true }),
    say: h("p", { class: "say", role: "status", "aria-live": "polite" }),
    last: h("span", { class: "quiet" }),
    keep: act("Keep", "1", press.keep, { title: "The gold is right." }),
    second: act("Change", "2", press.second),
    reopen: act("Reopen", "3", press.reopen, { title: "Adjudicate the sentence again." }),
    later: act("Later", "4", press.later, { class: "plain" }),
    undo: act("Undo", "0", press.undo, { class: "plain", title: "Take your last decision back." }),
  };
  view.body = h("div", { class: "body" }, view.about, view.sentence, view.sides, view.why, view.other);
  view.actions = h("div", { class: "actions", role: "toolbar", "aria-label": "Decisions" }, view.keep, view.second, view.reopen, view.later, view.undo, view.last);
  const bar = h("div", { class: "bar" }, view.progress, view.status);
  view.root = h("div", { class: "editor review" }, bar, view.track, view.empty, view.body, view.say, view.actions);
  return view;
}

/** Bring the screen in line with the review. */
export function drawDoubt(view, review, types) {
  const { item, progress } = review;
  view.root.dataset.task = item ? String(item.task) : "";
  setText(view.progress, progressText(review));
  drawTrack(view.track, progress);
  view.body.hidden = !item;
  view.empty.hidden = Boolean(item);
  setText(view.empty, progress?.left ? "The next doubts are on their way." : progress?.done ? "Nothing is waiting here." : "This check found nothing to doubt.");
  if (item) drawItem(view, item, byName(types));
  for (const name of ["keep", "reopen"]) view[name].disabled = !item?.can.includes(name);
  drawSecond(view.second, item);
  view.later.disabled = !item;
  view.undo.disabled = !review.canUndo();
  setText(view.say, question(review) || review.notice);
  view.say.classList.toggle("asks", Boolean(review.asked || review.notice));
  setText(view.last, review.last && `Last ${review.last}`);
}

function drawTrack(track, progress) {
  const { done = 0, left = 0 } = progress ?? {};
  track.hidden = !(done + left);
  track.setAttribute("aria-valuemax", String(done + left));
  track.setAttribute("aria-valuenow", String(done));
  track.firstChild.style.width = `${(100 * done) / Math.max(1, done + left)}%`;
}

function drawSecond(second, item) {
  const leaves = item?.can.includes("leave_out");
  setText(second.firstChild, leaves ? "Leave out" : "Change");
  second.disabled = !item || !(leaves || item.can.includes("change"));
  second.title = leaves ? `Models no longer learn from the copy in ${item.leaves.from}.` : "The proposal becomes gold; the previous version is kept.";
}

function drawItem(view, item, types) {
  setText(view.about, item.about);
  replace(view.sentence, ...item.pieces.map((piece) => pieceOf(piece, types)));
  replace(view.sides, ...item.sides.flatMap((side) => sideOf(side, types)));
  setText(view.why, item.why);
  replace(view.other, ...otherOf(item, types));
}

function otherOf({ other, leaves }, types) {
  const lines = [];
  if (other) lines.push(h("p", { class: "about" }, `The other sentence, in ${other.split}:`), h("p", { class: "doubted", dir: "auto" }, ...other.pieces.map((piece) => pieceOf(piece, types))));
  if (leaves)
    lines.push(
      h("p", { class: "about" }, h("b", {}, "Leave out"),
        `: the copy in ${leaves.from} stays gold with all its labels, but snapshots frozen from now on lack it, and no training on them uses its text. The copy in ${leaves.stays} does not change.`),
    );
  return lines;
}

function pieceOf({ type, parts }, types) {
  const words = parts.map(([text, doubted]) => (doubted ? h("u", {}, text) : text));
  if (type === null) return h("span", {}, ...words);
  return h("span", { class: `mark span t${types[type]?.color ?? 0}` }, ...words, h("span", { class: "cap" }, types[type]?.title ?? type));
}

function sideOf({ name, spans, probability }, types) {
  const chips = spans.flatMap(({ text, type }, index) => [
    index > 0 && " · ", h("span", {}, `${text} `), h("span", { class: `chip-type t${types[type]?.color ?? 0}` }, types[type]?.title ?? type),
  ]);
  const share = probability === null || probability === undefined ? null : h("span", { class: "quiet" }, ` ${Math.round(100 * probability)} %`);
  return [h("span", { class: "quiet" }, name), h("span", { dir: "auto" }, ...(spans.length ? chips : ["no entity"]), share)];
}

const byName = (types) => Object.fromEntries(types.map((type) => [type.name, type]));
