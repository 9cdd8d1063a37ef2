// The editor's state and its reducer: no DOM, no clock, no network.
import { count, hintPages, jumpHints, overlaps, sameBounds, sameSpan, splitText, surfaceOf, inOrder } from "./tokens.js";
import { kindIn, linkIn, nextLink, titleOf, titleOfEntity } from "./links.js";
import { alternatives, candidates, emptyWork, isProposed, marksOf, openCandidates, originOf, reasonsOf, unconfirmed, workFromStored } from "./marks.js";
import { chooseUnit, initialAdjudication, nextUnit, removeOwnSpan, setOwnSpan, undecided, unitExtent, choiceOf } from "./adjudicate.js";
import { isProposedElsewhere, withIdentical, withoutIdentical } from "./identical.js";
import { nextUnlinked, unlinked, withEntity } from "./linking.js";

const UNDO_STEPS = 200;
const NO_RULES = { open: "ask", floor: 0 };

/** State of one item, from what is stored for it; `rules` are the campaign's: open suggestions at submit, floor of *accept all*, names of sources. */
export function openItem(item, mode, titles = {}, stored = item.work, rules = NO_RULES) {
  const split = splitText(item.text, item.tokens);
  const state = {
    item, mode, titles, rules, split, work: firstWork(item, mode, stored), past: [], future: [], preferred: [],
    anchor: 0, head: 0, explicit: false, unit: -1, jump: null, confirm: null, pending: null, opened: "none", noting: null, choosing: null, commenting: false, message: "", said: 0,
  };
  return focusFirst(state);
}

function firstWork(item, mode, stored) {
  if (stored) return workFromStored(item, stored);
  if (mode === "adjudicate") return initialAdjudication(item);
  const split = splitText(item.text, item.tokens);
  if (mode === "check" && item.first) {
    const kept = item.first.map(({ start, end, type, entity = null }) => ({ start, end, type, surface: surfaceOf(split, start, end), origin: "kept", entity }));
    return { ...emptyWork(), spans: inOrder(kept) };
  }
  return emptyWork();
}

function focusFirst(state) {
  if (state.mode === "adjudicate") return focusUnit(state, nextUnit(state.item, state.work, -1, 1));
  const marks = marksOf(state);
  const mark = unconfirmed(state)[0] ?? marks.find((one) => one.kind === "suggestion") ?? marks.find((one) => one.kind !== "unsure");
  return mark ? focusRange(state, mark) : state;
}

/** The selected tokens, [start, end). */
export function selectionOf(state) {
  return { start: Math.min(state.anchor, state.head), end: Math.max(state.anchor, state.head) + 1 };
}

/** The mark that commands act on: the selected one, or the one under the cursor. */
export function focusedMark(state) {
  const selection = selectionOf(state);
  const marks = marksOf(state);
  const exact = marks.find((mark) => sameBounds(mark, selection));
  if (exact || state.explicit) return exact ?? null;
  return marks.find((mark) => mark.start <= state.head && state.head < mark.end) ?? null;
}

/** The suggestions still to be decided. */
function openMarks(state) {
  return marksOf(state).filter((mark) => mark.kind === "suggestion");
}

/** Number of suggestions still to be decided. */
export function openCount(state) {
  return openMarks(state).length;
}

export function typeTitle(state, type) {
  return state.titles[type] ?? type;
}

/** The sources of suggestions in words: `model:run 3` is "model (run 3)". */
export function sourceWords(state, sources) {
  const named = sources.map((source) => {
    const [kind, ...more] = source.split(":");
    const name = state.rules.sources?.[kind] ?? kind;
    return more.length ? `${name} (${more.join(":")})` : name;
  });
  return named.join(", ");
}

function words(state, span) {
  return surfaceOf(state.split, span.start, span.end);
}

function say(state, message) {
  return { ...state, message, said: state.said + 1 };
}

function focusRange(state, range) {
  return { ...state, anchor: range.start, head: range.end - 1, explicit: false };
}

function focusUnit(state, unit) {
  if (unit < 0) return state;
  return { ...focusRange(state, unitExtent(state.item.units[unit])), unit };
}

function edit(state, work, message) {
  const before = { work: state.work, anchor: state.anchor, head: state.head, explicit: state.explicit, unit: state.unit };
  const past = [...state.past.slice(-UNDO_STEPS + 1), before];
  return say({ ...state, work, past, future: [], explicit: false }, message);
}

const ACTIONS = {
  move: (state, { by }) => place(state, state.head + by),
  to: (state, { index }) => place(state, index),
  extend: (state, { by }) => stretch(state, state.head + by),
  extendTo: (state, { index }) => stretch(state, index),
  select: (state, { from, to }) => stretch({ ...state, anchor: clamp(state, from) }, to),
  end: (state, { last, extend }) => (extend ? stretch : place)(state, last ? state.item.tokens.length - 1 : 0),
  tab: (state, { by }) => (state.mode === "adjudicate" && state.item.units?.length ? tabUnit(state, by) : tabMark(state, by)),
  focusMark: (state, { mark }) => focusRange(state, mark),
  focusUnit: (state, { unit }) => say(focusUnit(state, unit), describeUnit(state, unit)),
  type: giveType,
  link: markLink,
  accept: acceptFocused,
  acceptAll,
  identical: markIdentical,
  entity: linkEntity,
  toUnlinked,
  remove: removeFocused,
  restore: (state, { span }) => putBack(state, span),
  alternative: nextAlternative,
  choose,
  flag: toggleFlag,
  note: setNote,
  none: noEntities,
  comment: writeComment,
  example: toggleExample,
  jump: startJump,
  hint: jumpTo,
  undo: (state) => travel(state, "past", "future", "Undone."),
  redo: (state) => travel(state, "future", "past", "Redone."),
  enter,
  escape: (state) => (state.confirm ? say(state, "Taken back; nothing has changed.") : { ...state, jump: null, explicit: false, anchor: state.head }),
};
const READING = new Set(["move", "to", "extend", "extendTo", "select", "end", "tab", "focusMark", "focusUnit", "escape"]);

/** The next state; an unknown or forbidden action leaves it unchanged. `submit` is set when Enter ends the item. */
export function reduce(state, action) {
  if (state.mode === "view" && !READING.has(action.do)) return say(state, "Read only.");
  const handler = ACTIONS[action.do];
  if (!handler) return state;
  const next = handler({ ...state, submit: false, noting: null, choosing: null }, action);
  const pending = next.pending === state.pending ? null : next.pending;
  const asked = action.do === "enter" || action.do === "none" ? next.confirm : null;
  const message = next.said === state.said ? "" : next.message;
  return { ...next, confirm: pending ? "replace" : asked, pending, message, commenting: action.do === "comment" };
}

function clamp(state, index) {
  return Math.max(0, Math.min(state.item.tokens.length - 1, index));
}

function place(state, index) {
  const at = clamp(state, index);
  return { ...state, anchor: at, head: at, explicit: false };
}

function stretch(state, index) {
  const from = state.explicit || state.anchor !== state.head ? state.anchor : state.head;
  return { ...state, anchor: from, head: clamp(state, index), explicit: true };
}

function tabMark(state, by) {
  const marks = marksOf(state);
  if (!marks.length) return say(state, "Nothing is marked yet.");
  const here = marks.findIndex((mark) => sameBounds(mark, selectionOf(state)));
  let at = here + by;
  if (here < 0) {
    const later = marks.findIndex((mark) => mark.start > state.head);
    at = by > 0 ? later : (later < 0 ? marks.length : later) - 1;
    if (by > 0 && later < 0) at = 0;
  }
  return focusRange(state, marks[(at + marks.length) % marks.length]);
}

function tabUnit(state, by) {
  const unit = nextUnit(state.item, state.work, state.unit, by);
  return say(focusUnit(state, unit), describeUnit(state, unit));
}

function describeUnit(state, unit) {
  const { kind, first, second } = state.item.units[unit];
  const side = (span) => (span ? `${words(state, span)}, ${typeTitle(state, span.type)}` : "nothing");
  return `${unit + 1}, ${kind}: first ${side(first)}; second ${side(second)}; ${choiceOf(state.work, unit) ?? "undecided"}.`;
}

/** The next open suggestion after a place, else stay. */
function toNextSuggestion(state) {
  const from = selectionOf(state);
  const open = marksOf(state).filter((mark) => mark.kind === "suggestion");
  const next = open.find((mark) => mark.start >= from.start) ?? open[0];
  return next ? focusRange(state, next) : state;
}

function giveType(state, { type }) {
  const mark = focusedMark(state);
  if (state.mode === "adjudicate") return giveOwnType(state, type, mark);
  const range = mark && !state.explicit ? mark : selectionOf(state);
  const done = unlessReplacing(state, { start: range.start, end: range.end, type }) ?? putSpan(state, range, type, isProposed(mark));
  return settles(state, mark, done);
}

/** The question what a new span would replace, or null where it is answered, or nothing but bounds would change. */
function unlessReplacing(state, span) {
  const replaced = state.work.spans.filter((one) => overlaps(one, span) && !sameBounds(one, span));
  const moves = replaced.length === 1 && replaced[0].type === span.type;
  if (!replaced.length || moves || (state.pending && sameSpan(state.pending, span))) return null;
  const old = replaced.map((one) => `${words(state, one)} (${typeTitle(state, one.type)})`).join(" and ");
  const made = `${words(state, span)} (${typeTitle(state, span.type)})`;
  return say({ ...state, pending: span }, `${made} would replace ${old}, as spans neither overlap nor nest: the same key or Enter replaces, Esc drops it.`);
}

function giveOwnType(state, type, mark) {
  const unit = state.item.units?.[state.unit];
  const fallback = unit && !state.explicit && sameBounds(selectionOf(state), unitExtent(unit)) ? unit.first ?? unit.second : null;
  const range = state.explicit ? selectionOf(state) : fallback ?? mark ?? selectionOf(state);
  const span = { start: range.start, end: range.end, type, surface: words(state, range) };
  const { work, reopened } = setOwnSpan(state.item, state.work, state.unit, span);
  return afterChoice(state, edit(state, work, `${span.surface}: ${typeTitle(state, type)}.`), reopened);
}

/** The link under the cursor becomes a span of the type suggested for it, else its type is asked for; off a link, to the next. */
function markLink(state) {
  const link = linkIn(state.item, selectionOf(state));
  if (!link || state.work.spans.some((span) => sameBounds(span, link))) return toNextLink(state);
  const here = { ...state, anchor: link.start, head: link.end - 1, explicit: true };
  if (!link.type) return say({ ...here, choosing: kindIn(link.target) }, `No type is suggested for ${titleOf(link.target)}: choose one.`);
  if (state.mode === "adjudicate") return giveOwnType(here, link.type, null);
  return unlessReplacing(here, { start: link.start, end: link.end, type: link.type }) ?? putSpan(here, link, link.type, false);
}

/** Link the span in focus to a resource, to `NIL` or (null) to nothing, and go on to the next that is not linked. */
function linkEntity(state, { entity }) {
  const mark = focusedMark(state);
  const span = mark?.kind === "span" && state.work.spans.find((one) => sameSpan(one, mark));
  if (!span) return say(state, "Only a span can be linked to a resource.");
  const done = edit(state, withEntity(state.item, state.work, state.mode, span, entity), `${span.surface}: ${titleOfEntity(entity)}.`);
  const next = entity && nextUnlinked(done.work, span.start);
  return next ? focusRange(done, next) : focusRange(done, span);
}

function toUnlinked(state) {
  const next = nextUnlinked(state.work, state.head);
  if (next) return focusRange(state, next);
  return say(state, state.work.spans.length ? "Every span is linked." : "There is no span to link.");
}

function toNextLink(state) {
  const link = nextLink(state.item, state.work.spans, state.head);
  if (!link) return say(state, state.item.links?.length ? "Every link here is a span." : "No links in this sentence.");
  return say({ ...state, anchor: link.start, head: link.end - 1, explicit: true }, `Link to ${titleOf(link.target)}.`);
}

function reference(state) {
  return state.mode === "check" && state.item.first ? state.item.first : candidates(state.item);
}

function putSpan(state, { start, end }, type, advance) {
  if (end > state.item.tokens.length) return state;
  const same = state.mode === "check" && state.item.first ? "kept" : "accepted";
  const span = { start, end, type, surface: words(state, { start, end }) };
  span.origin = originOf(reference(state), span, same);
  const before = state.work.spans.find((one) => sameBounds(one, span));
  if (before?.entity) span.entity = before.entity;
  if (before?.type === type && isUnconfirmed(state, before)) return confirmSpan(state, before);
  if (before && before.type === type) return say(state, `${span.surface} is already ${typeTitle(state, type)}.`);
  const spans = inOrder([...state.work.spans.filter((one) => !overlaps(one, span)), span]);
  const rejected = state.work.rejected.filter((one) => !sameBounds(one, span));
  const done = edit(state, { ...state.work, spans, rejected, no_entities: false }, `${span.surface}: ${typeTitle(state, type)}.`);
  return advance ? toNextSuggestion(focusRange(done, span)) : focusRange(done, span);
}

function acceptFocused(state) {
  if (state.mode === "adjudicate") return say(state, "Choose 1, 2, 0 or a type.");
  const mark = focusedMark(state);
  if (isProposed(mark)) return putSpan(state, mark, mark.type, true);
  if (mark?.kind === "gone") return putBack(state, mark);
  if (isUnconfirmed(state, mark)) return confirmSpan(state, mark);
  if (unconfirmed(state).length) return toUnconfirmed(state);
  return openCount(state) ? toNextSuggestion(state) : tabMark(state, 1);
}

function isUnconfirmed(state, mark) {
  return Boolean(mark) && unconfirmed(state).some((one) => sameSpan(one, mark));
}

/** Annotator 2 looked at a span and leaves it as it is; the next one to confirm comes into focus. */
function confirmSpan(state, span) {
  const spans = state.work.spans.map((one) => (sameSpan(one, span) ? { ...one, origin: "confirmed" } : one));
  const done = edit(state, { ...state.work, spans }, "");
  const left = unconfirmed(done).length;
  return say(toUnconfirmed(focusRange(done, span)), `${words(state, span)} confirmed. ${left ? `${left} to go.` : "Enter submits."}`);
}

/** What a change of a span leads to: if that was to be confirmed, on to the next one to confirm. */
function settles(before, mark, after) {
  return isUnconfirmed(before, mark) && unconfirmed(after).length < unconfirmed(before).length ? toUnconfirmed(after) : after;
}

/** The next span to confirm after a place, else the first; stay if there is none. */
function toUnconfirmed(state) {
  const open = unconfirmed(state);
  const next = open.find((span) => span.start >= selectionOf(state).start) ?? open[0];
  return next ? focusRange(state, next) : state;
}

function acceptAll(state) {
  const open = openMarks(state);
  if (!open.length) return say(state, "No suggestions are open.");
  const { sure, low } = byFloor(state, open);
  const left = low.length ? ` ${low.length} below ${state.rules.floor.toFixed(2)} left open: Space accepts one.` : "";
  if (!sure.length) return say(toNextSuggestion(state), `Nothing accepted.${left}`);
  const done = edit(state, withAccepted(state, sure), `${count(sure.length, "suggestion")} accepted.${left}`);
  return low.length ? toNextSuggestion(done) : done;
}

/** Open suggestions that may be accepted unseen, and those below the campaign's floor. */
function byFloor({ rules }, open) {
  return { sure: open.filter((one) => one.score >= rules.floor), low: open.filter((one) => one.score < rules.floor) };
}

function withAccepted(state, marks) {
  const added = marks.map(({ start, end, type }) => ({ start, end, type, surface: words(state, { start, end }), origin: "accepted" }));
  return { ...state.work, spans: inOrder([...state.work.spans, ...added]), no_entities: false };
}

function withRefused(state, marks) {
  return { ...state.work, rejected: [...state.work.rejected, ...marks.flatMap((one) => rejecting(state, one))] };
}

/** The focused span's words, or a suggestion's that is taken with it, are marked throughout the sentence and proposed in others. */
function markIdentical(state) {
  if (state.mode !== "annotate") return say(state, "Identical words are proposed while annotating.");
  const mark = focusedMark(state);
  if (!mark) return say(state, "Nothing is marked here: give it a type first.");
  const { work, split } = isProposed(mark) ? putSpan(state, mark, mark.type, false) : state;
  const span = work.spans.find((one) => sameSpan(one, mark));
  const name = `${span.surface} (${typeTitle(state, span.type)})`;
  if (isProposedElsewhere(work, span)) return focusRange(edit(state, withoutIdentical(work, span), `${name}: no longer proposed elsewhere.`), span);
  const { work: all, added } = withIdentical(split, work, span);
  const here = added.length ? `${added.length} more marked here, ` : "";
  return focusRange(edit(state, all, `${name}: ${here}proposed in open sentences. Ctrl+Z takes it back.`), span);
}

function putBack(state, span) {
  return putSpan(state, span, span.type, false);
}

function rejecting(state, range) {
  const open = openCandidates(state.item, { ...state.work, spans: [] }).filter((one) => sameBounds(one, range));
  return open.flatMap(({ start, end, type, sources }) => sources.map((source) => ({ start, end, type, source })));
}

function removeFocused(state) {
  const range = selectionOf(state);
  const inside = marksOf(state).filter((mark) => range.start <= mark.start && mark.end <= range.end);
  const mark = focusedMark(state);
  const targets = (state.explicit && inside.length ? inside : mark ? [mark] : []).filter((one) => one.kind !== "gone");
  if (state.mode === "adjudicate") return removeDecided(state, targets);
  if (!targets.length) return say(state, "Nothing is marked here.");
  const spans = state.work.spans.filter((span) => !targets.some((one) => one.kind === "span" && sameSpan(one, span)));
  const rejected = [...state.work.rejected, ...(state.mode === "check" && state.item.first ? [] : targets.flatMap((one) => rejecting(state, one)))];
  const what = targets.length === 1 ? words(state, targets[0]) : count(targets.length, "mark");
  const removed = edit(state, { ...state.work, spans, rejected }, `${what} removed.`);
  return targets.every(isProposed) ? toNextSuggestion(removed) : settles(state, mark, removed);
}

function removeDecided(state, targets) {
  const own = targets.find((span) => span.origin === "other" || span.origin === "new");
  if (own) return edit(state, removeOwnSpan(state.item, state.work, own).work, `${words(state, own)} removed.`);
  return state.unit >= 0 ? choose(state, { choice: "none" }) : say(state, "Nothing is marked here.");
}

function nextAlternative(state, { by }) {
  const mark = focusedMark(state);
  if (!isProposed(mark)) return state;
  const others = [mark, ...alternatives(state.item, state.work, mark)];
  if (others.length === 1) return say(state, "No other suggestion here.");
  const ring = candidates(state.item).filter((one) => others.some((other) => sameSpan(one, other)));
  const at = ring.findIndex((one) => sameSpan(one, mark));
  const chosen = ring[(at + by + ring.length) % ring.length];
  const preferred = [chosen, ...state.preferred.filter((one) => !overlaps(one, chosen))];
  return say(focusRange({ ...state, preferred }, chosen), `${words(state, chosen)}: ${typeTitle(state, chosen.type)}, suggested.`);
}

function choose(state, { choice, unit = state.unit }) {
  if (state.mode !== "adjudicate" || unit < 0) return state;
  const given = state.item.units[unit];
  if (choice !== "none" && !given[choice]) return say(state, `The ${choice} annotator has no span here: 0 decides for no entity.`);
  const { work, reopened } = chooseUnit(state.item, state.work, unit, choice);
  const what = choice === "none" ? "no entity" : `${words(state, given[choice])}, ${typeTitle(state, given[choice].type)}`;
  return afterChoice({ ...state, unit }, edit({ ...state, unit }, work, `Decided: ${what}.`), reopened);
}

function afterChoice(before, state, reopened) {
  const open = undecided(state.item, state.work);
  const moved = open.length ? focusUnit(state, nextUnit(state.item, state.work, before.unit, 1)) : state;
  if (!reopened.length) return open.length ? moved : say(moved, `${state.message} Everything is decided: Enter submits.`);
  return say(moved, `${state.message} ${count(reopened.length, "overlapping decision")} open again.`);
}

function toggleFlag(state) {
  if (state.mode !== "check" || !state.item.first) return say(state, "Only a check has flags.");
  const mark = focusedMark(state);
  const span = mark && state.item.first.find((one) => sameBounds(one, mark));
  if (!span) return say(state, "Only a span of annotator 1 can be flagged.");
  const { start, end, type } = span;
  const flagged = state.work.flags.some((flag) => sameSpan(flag, span));
  const rest = state.work.flags.filter((flag) => !sameSpan(flag, span));
  const flags = flagged ? rest : inOrder([...rest, { start, end, type, note: "" }]);
  const done = edit(state, { ...state.work, flags }, `${words(state, span)} ${flagged ? "no longer flagged" : "flagged"}.`);
  return focusRange({ ...done, noting: flagged ? null : { start, end, type } }, mark);
}

function setNote(state, { span, text }) {
  const flags = state.work.flags.map((flag) => (sameSpan(flag, span) ? { ...flag, note: text } : flag));
  const done = edit({ ...state, noting: null }, { ...state.work, flags }, text ? "Note saved." : "Flagged without a note.");
  return toUnconfirmed(focusRange(done, span));
}

/** Typing a comment is one undo step, not one per letter. */
function writeComment(state, { text }) {
  if (text === state.work.comment) return state;
  const work = { ...state.work, comment: text };
  return state.commenting ? { ...state, work } : { ...edit(state, work, ""), explicit: state.explicit };
}

/** An expert's gold that everybody sees beside the guidelines. */
function toggleExample(state) {
  if (state.mode !== "adjudicate") return state;
  const example = !state.work.example;
  return edit(state, { ...state.work, example }, example ? "An example for all, once submitted." : "No longer an example.");
}

function noEntities(state) {
  if (state.mode === "adjudicate") return choose(state, { choice: "none" });
  if (state.work.no_entities) return edit(state, { ...state.work, no_entities: false }, "No longer marked as having no entities.");
  if (state.work.spans.length && state.confirm !== "none")
    return say({ ...state, confirm: "none" }, `0 again removes ${count(state.work.spans.length, "span")} and marks the sentence as having no entities.`);
  const open = state.mode === "check" && state.item.first ? [] : candidates(state.item);
  const rejected = open.flatMap(({ start, end, type, sources }) => sources.map((source) => ({ start, end, type, source })));
  return { ...edit(state, { ...state.work, spans: [], rejected, no_entities: true }, "No entities. Enter submits."), confirm: null };
}

function startJump(state) {
  const pages = hintPages(state.split.words);
  if (!state.jump) return say({ ...state, jump: { stage: "start", page: 0 } }, "Jump: type the hint of the first token.");
  return { ...state, jump: { ...state.jump, page: (state.jump.page + 1) % pages } };
}

function jumpTo(state, { char }) {
  if (!state.jump) return state;
  const hint = [...jumpHints(state.split.words, state.jump.page)].find(([, one]) => one === char);
  if (!hint) return say(state, `No token has the hint ${char}.`);
  const [index] = hint;
  if (state.jump.stage === "start") return say({ ...place(state, index), jump: { ...state.jump, stage: "end" } }, "Now the hint of the last token.");
  const selected = { ...state, head: index, explicit: true, jump: null };
  return say(selected, `${words(state, selectionOf(selected))} selected: now a type.`);
}

function travel(state, from, to, message) {
  if (!state[from].length) return say(state, from === "past" ? "Nothing to undo." : "Nothing to redo.");
  const { work, anchor, head, explicit, unit } = state;
  const step = state[from][state[from].length - 1];
  const stacks = { [from]: state[from].slice(0, -1), [to]: [...state[to], { work, anchor, head, explicit, unit }] };
  return say({ ...state, ...step, ...stacks }, message);
}

function enter(state) {
  if (state.mode === "adjudicate") {
    const open = undecided(state.item, state.work);
    if (open.length) return say(focusUnit(state, open[0]), `${count(open.length, "unit")} undecided: decide ${open.length === 1 ? "it" : "them"} first.`);
  }
  const [first, ...others] = unconfirmed(state);
  if (first && !state.pending) return say(focusRange(state, first), askToConfirm(state, first, others));
  if (state.pending) return { ...putSpan(state, state.pending, state.pending.type, false), confirm: null };
  return openCount(state) ? enterWithOpen(state) : enterWith(state, state.work, "none");
}

function askToConfirm(state, first, others) {
  const more = others.length ? ` (and ${count(others.length, "more span")})` : "";
  return `Confirm ${words(state, first)}${more}: ${reasonsOf(state.item, first).join(", ")}. Space confirms; or change it, or ! doubts it.`;
}

/** Open suggestions were decided by nobody: the campaign's rule decides, else one question. */
function enterWithOpen(state) {
  const { sure, low } = byFloor(state, openMarks(state));
  if (state.rules.open === "refuse") return enterWith(state, withRefused(state, openMarks(state)), "refuse");
  if (state.rules.open === "accept" && !low.length) return enterWith(state, withAccepted(state, sure), "accept");
  const taken = state.rules.open === "accept" && sure.length ? edit(state, withAccepted(state, sure), "") : state;
  const open = openMarks(taken);
  if (taken.confirm === "refuse") return submitted(taken, withRefused(taken, open), "refuse");
  const them = open.length === 1 ? "it" : "them";
  const then = state.work.spans.length || taken !== state ? "" : " and submits without entities";
  return say({ ...taken, confirm: "refuse" }, `${count(open.length, "suggestion")} undecided: Enter again refuses ${them}${then}, Shift+Space accepts all, Esc goes back.`);
}

function enterWith(state, work, opened) {
  const bare = state.mode !== "adjudicate" && !work.spans.length && !work.no_entities;
  if (bare && state.confirm !== "empty") return say({ ...state, confirm: "empty" }, "No entities? Enter again confirms, Esc goes back.");
  const loose = state.rules.linking ? unlinked(work).length : 0;
  if (loose && state.confirm !== "unlinked") return say({ ...state, confirm: "unlinked" }, `${count(loose, "span")} not linked: Enter again submits, @ links, Esc goes back.`);
  return submitted(state, work, opened);
}

/** The item as it is submitted; what Enter itself decided is one step of undo, should the item come back. */
function submitted(state, given, opened) {
  const work = { ...given, no_entities: !given.spans.length };
  const decided = opened !== "none" || work.no_entities !== state.work.no_entities;
  return { ...(decided ? edit(state, work, "") : state), work, confirm: null, opened, submit: true };
}
