// The quiet parts around the sentence: status, focus line, changes, comment, skip, help, conflict.
import { count, overlaps, sameBounds, sameSpan, splitText, surfaceOf } from "./tokens.js";
import { addressesOf, linkIn, titleOf, titleOfEntity, titleOfResource } from "./links.js";
import { alternatives, candidates, changesOf, emptyWork, isProposed, unconfirmed } from "./marks.js";
import { focusedMark, selectionOf, sourceWords, typeTitle } from "./model.js";
import { reasonWords } from "./provenance.js";
import { helpRows } from "./keys.js";
import { scoreText } from "./sentence.js";
import { unitExtent } from "./adjudicate.js";
import { KIND_HELP, KIND_WORDS } from "./units.js";
import { button, h, keycap, replace } from "./dom.js";

const ORIGINS = {
  accepted: "accepted", retyped: "retyped", moved: "moved", new: "marked by you", kept: "by annotator 1", confirmed: "by annotator 1, confirmed by you",
  first: "as annotator 1", second: "as annotator 2", other: "your own decision", identical: "marked with the same words",
};
const REASONS = ["Not a sentence", "Another language", "Cannot tell without more text", "Should not be in the data"];

/** The line about what is focused, as nodes. */
export function focusLine(state, run) {
  const mark = focusedMark(state);
  const range = mark ?? selectionOf(state);
  const parts = [h("b", { dir: "auto" }, surfaceOf(state.split, range.start, range.end))];
  const unit = state.mode === "adjudicate" && state.item.units?.[state.unit];
  if (unit && overlaps(unitExtent(unit), range)) parts.push(h("span", {}, `${KIND_WORDS[unit.kind]}: ${KIND_HELP[unit.kind]}`));
  if (isProposed(mark)) parts.push(...suggestionLine(state, mark, run));
  else if (mark?.kind === "gone") parts.push(`${typeTitle(state, mark.type)}, deleted`, small("put back", "Space", () => run({ do: "restore", span: mark })));
  else if (mark) parts.push(...spanLine(state, mark, run));
  return [...parts, ...pagesLine(state, mark, range, run)];
}

/** The pages behind a link, and behind what a suggestion stands for, each to open in a new tab. */
function pagesLine(state, mark, range, run) {
  const link = linkIn(state.item, range);
  const titles = [link && titleOf(link.target), titleOfResource(mark?.entity)];
  const pages = [...new Set(titles)].filter(Boolean).map((title) =>
    h("span", { class: "quiet pages" }, h("span", { dir: "auto" }, title), ...addressesOf(title).map(anchor)));
  const marked = link && [mark, ...state.work.spans].some((one) => one && sameBounds(one, link));
  if (mark?.entity && mark.kind === "span" && /^https?:/.test(mark.entity) && !titleOfResource(mark.entity)) pages.push(anchor({ name: titleOfEntity(mark.entity), address: mark.entity }));
  const open = link && !marked && state.mode !== "view";
  const words = link?.type ? `as ${typeTitle(state, link.type)}` : "choose its type";
  return [...pages, open && small(words, "=", () => run({ do: "link" }))];
}

function anchor({ name, address }) {
  const on = { mousedown: (event) => event.preventDefault() };
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer", title: `${address} (opens in a new tab)`, on }, name);
}

function small(text, key, press) {
  return button(text, { class: "small", tabindex: "-1", press }, " ", keycap(key));
}

function suggestionLine(state, mark, run) {
  const others = alternatives(state.item, state.work, mark).length;
  const known = mark.entity && !titleOfResource(mark.entity) ? `, as ${mark.entity}` : "";
  const hint = mark.kind === "unsure";
  return [
    `${typeTitle(state, mark.type)}? ${hint ? "a hint of" : "suggested by"} ${sourceWords(state, mark.sources)} ${scoreText(mark.score)}${known}`,
    small(hint ? "take" : "accept", "Space", () => run({ do: "accept" })),
    small("drop", "⌫", () => run({ do: "remove" })),
    others > 0 && small(count(others, "other"), "↓", () => run({ do: "alternative", by: 1 })),
  ];
}

function linkWords(entity) {
  return entity && entity !== "NIL" ? `linked to ${titleOfEntity(entity)}` : titleOfEntity(entity);
}

function spanLine(state, mark, run) {
  const first = state.mode === "check" && (state.item.first ?? []).find((one) => sameBounds(one, mark));
  const flag = state.work.flags.find((one) => sameSpan(one, mark));
  const source = candidates(state.item).find((one) => sameSpan(one, mark));
  const how = `${ORIGINS[mark.origin] ?? ""}${mark.origin === "accepted" && source ? ` from ${sourceWords(state, source.sources)}` : ""}`;
  return [
    [typeTitle(state, mark.type), how, (state.rules.linking || mark.entity) && linkWords(mark.entity)].filter(Boolean).join(", "),
    state.rules.linking && state.mode !== "view" && small(mark.entity ? "relink" : "link", "@", () => run({ ui: "entities" })),
    state.mode === "check" && unconfirmed(state).some((one) => sameSpan(one, mark)) && small("confirm", "Space", () => run({ do: "accept" })),
    flag && h("span", { class: "warn" }, flag.note ? `flagged: ${flag.note}` : "flagged"),
    first && state.mode === "check" && small(flag ? "unflag" : "flag", "!", () => run({ do: "flag" })),
    state.mode !== "view" && state.mode !== "adjudicate" && small("remove", "⌫", () => run({ do: "remove" })),
  ];
}

/** Check mode: what is still to be confirmed, and why; the line stays once nothing is. */
function confirmLine(state) {
  const wanted = unconfirmed(state);
  const asked = state.item.provenance?.filter((one) => one.reasons.length).length;
  if (!asked) return [];
  const word = wanted.length ? `to confirm (${wanted.length})` : "nothing left to confirm";
  return [h("li", { class: "to-confirm" }, h("span", { class: `word${wanted.length ? " warn" : ""}` }, word), h("span", { dir: "auto" }, wanted.map((one) => reasonWords(state, one)).join(" · ")))];
}

/** Check mode: what annotator 2 changed, one line each, with a way back. */
export function changeLines(state, run) {
  if (state.mode !== "check" || !state.item.first) return [];
  const linked = (span) => (state.rules.linking ? `, ${titleOfEntity(span.entity)}` : "");
  const name = (span) => `${surfaceOf(state.split, span.start, span.end)} (${typeTitle(state, span.type)}${linked(span)})`;
  const flags = state.work.flags.filter((flag) => state.work.spans.some((span) => sameSpan(span, flag)));
  const lines = confirmLine(state);
  lines.push(...changesOf(state.item, state.work).map(({ kind, first, second }) =>
    h("li", {}, h("span", { class: "word" }, kind), h("span", { dir: "auto" }, [first, second].filter(Boolean).map(name).join(" → ")),
      first && button("put back", { class: "small", tabindex: "-1", press: () => run({ do: "restore", span: first }) }))));
  lines.push(...flags.map((flag) => h("li", {}, h("span", { class: "word warn" }, "flagged"), h("span", { dir: "auto" }, name(flag) + (flag.note ? `: ${flag.note}` : "")))));
  return lines;
}

/** A one-line text field below the sentence; Enter keeps the text, Esc discards it. */
export function createField({ placeholder, label, done, change = () => {} }) {
  const input = h("input", { type: "text", "aria-label": label, placeholder, maxlength: "2000", dir: "auto" });
  input.addEventListener("input", () => change(input.value));
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    done(event.key === "Enter" ? input.value : null);
  });
  return input;
}

/** The reasons to skip: digits pick a ready one while nothing is typed. */
export function createSkip({ skip, close }) {
  const input = createField({ placeholder: "or your own reason, then Enter", label: "Reason to skip", done: (text) => (text === null ? close() : text.trim() && skip(text.trim())) });
  input.addEventListener("keydown", (event) => {
    const reason = /^[1-9]$/.test(event.key) && !input.value ? REASONS[Number(event.key) - 1] : null;
    if (!reason) return;
    event.preventDefault();
    skip(reason);
  });
  const ready = REASONS.map((reason, i) => button("", { class: "plain", press: () => skip(reason) }, keycap(String(i + 1)), reason));
  const root = h("div", { class: "panel", hidden: true, role: "group", "aria-label": "Skip with a reason" }, h("span", { class: "word" }, "Skip because"), ...ready, input);
  return {
    root,
    open: () => {
      root.hidden = false;
      input.value = "";
      input.focus({ preventScroll: true });
    },
  };
}

/** The key help, drawn for a mode. */
export function drawHelp(root, mode, floor, linking) {
  const rows = helpRows(mode, floor, linking).map(({ keys, text }) => [h("dt", {}, ...keys.split(/\s{2,}/).map(keycap)), h("dd", {}, text)]);
  const colours = "A dashed mark is a suggestion, a filled one is decided. A dotted line in a type's colour is a hint, too uncertain to need a decision: Tab goes to it, Space accepts it. A grey dotted line is a Wikipedia link.";
  replace(root, h("dl", {}, ...rows.flat()), h("p", { class: "quiet" }, mode === "adjudicate" ? "Only what you decide here becomes gold." : colours));
}

/** Both versions in a conflict, their difference, and the two ways out; `titles` are those of the types. */
export function drawConflict(root, conflict, settle, titles) {
  root.hidden = !conflict;
  if (!conflict) return replace(root);
  const { item, event } = conflict;
  const keep = item && button("keep mine", { class: "small strong", press: () => settle(true) });
  const drop = button(item ? "take theirs" : "discard mine", { class: "small strong", press: () => settle(false) });
  if (!item) return replace(root, h("b", {}, "Conflict. "), "One sentence was changed in another tab or on another device.", drop);
  const split = splitText(item.text, item.tokens);
  const name = (span) => `${surfaceOf(split, span.start, span.end)} (${titles[span.type] ?? span.type})`;
  const theirs = { ...emptyWork(), ...item.work };
  const version = (title, work) => [h("dt", {}, title), h("dd", { dir: "auto" }, work.spans.map(name).join(", ") || (work.no_entities ? "no entities" : "nothing marked"))];
  const snippet = Array.from(item.text).slice(0, 60).join("");
  replace(root, h("p", {}, h("b", {}, "Conflict. "), h("span", { dir: "auto" }, `“${snippet}…” was saved by ${whose(item.saved)}.`)),
    h("dl", {}, ...version("Mine", event.work), ...version("Theirs", theirs)),
    h("ul", { class: "differences", "aria-label": "What mine changes in theirs" }, ...differenceLines(event.work, theirs, name)), keep, drop);
}

function whose(saved) {
  const where = saved?.where ?? "another tab or browser";
  const time = saved ? `, at ${new Date(saved.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}` : "";
  return `you in ${where}${time}`;
}

const DIFFERENCES = { added: "only in mine", deleted: "only in theirs", retyped: "retyped by mine", relinked: "linked otherwise by mine", moved: "other bounds in mine" };
const OTHER_PARTS = { comment: "comment", flags: "flags", decisions: "decisions", no_entities: "“no entities”", example: "example" };

function differenceLines(mine, theirs, name) {
  const spans = changesOf({ first: theirs.spans }, mine).map(({ kind, first, second }) =>
    h("li", { class: kind }, h("b", {}, `${DIFFERENCES[kind]} `), h("span", { dir: "auto" }, [first, second].filter(Boolean).map(name).join(" → "))));
  const others = Object.keys(OTHER_PARTS).filter((part) => JSON.stringify(mine[part]) !== JSON.stringify(theirs[part]));
  if (others.length) spans.push(h("li", {}, `Also different: ${others.map((part) => OTHER_PARTS[part]).join(", ")}.`));
  return spans.length ? spans : [h("li", {}, "Both mark the same.")];
}
