// What is drawn on a sentence: spans, open suggestions, and the difference to annotator 1. Pure.
import { inOrder, overlaps, sameBounds, sameLinked, sameSpan } from "./tokens.js";

/** Empty work, as the server stores it. */
export function emptyWork() {
  return { spans: [], rejected: [], flags: [], decisions: [], no_entities: false, comment: "", example: false };
}

/** Suggestions with the same bounds and type as one, its sources side by side, best score first. */
export function candidates(item) {
  const merged = [];
  for (const given of item.suggestions ?? []) {
    const twin = merged.find((other) => sameSpan(other, given));
    const sources = given.sources ?? [given.source];
    if (!twin) merged.push({ ...given, sources: [...sources], hint: Boolean(given.hint) });
    else {
      twin.sources.push(...sources.filter((one) => !twin.sources.includes(one)));
      twin.hint &&= Boolean(given.hint);
      if (given.score > twin.score) Object.assign(twin, { score: given.score, source: given.source });
      twin.entity ??= given.entity;
    }
  }
  return merged.sort((a, b) => b.score - a.score || b.end - b.start - (a.end - a.start) || a.start - b.start);
}

/** Candidates that no span covers and the annotator has not rejected. */
export function openCandidates(item, work) {
  if (work.no_entities) return [];
  return candidates(item).filter(
    (one) => !work.spans.some((span) => overlaps(span, one)) && !work.rejected.some((gone) => sameSpan(gone, one)),
  );
}

/** The suggestions to show: no two overlap; `preferred` (chosen by the annotator) go first, then the best score. */
export function shownSuggestions(item, work, preferred = []) {
  const open = openCandidates(item, work);
  const liked = (one) => preferred.some((span) => sameSpan(span, one));
  const shown = [];
  for (const one of [...open.filter(liked), ...open.filter((other) => !liked(other))])
    if (!shown.some((other) => overlaps(other, one))) shown.push(one);
  return inOrder(shown);
}

/** Open suggestions that compete with a shown one. */
export function alternatives(item, work, shown) {
  return openCandidates(item, work).filter((one) => overlaps(one, shown) && !sameSpan(one, shown));
}

/** Everything Tab stops at, in reading order. */
export function marksOf(state) {
  const { item, work, preferred, mode } = state;
  const spans = work.spans.map((span) => ({ ...span, kind: "span" }));
  const open = wantsSuggestions(mode, item)
    ? shownSuggestions(item, work, preferred).map((one) => ({ ...one, kind: one.hint ? "unsure" : "suggestion" }))
    : [];
  const gone = mode === "check" && item.first ? removedFirst(item, work).map((span) => ({ ...span, kind: "gone" })) : [];
  return inOrder([...spans, ...open, ...gone]);
}

/** Proposed by a machine and not decided: a suggestion, which needs a decision, or a hint, which does not. */
export function isProposed(mark) {
  return mark?.kind === "suggestion" || mark?.kind === "unsure";
}

/** Suggestions are for annotating, including blind checks; other checks and adjudication start from people's work. */
export function wantsSuggestions(mode, item) {
  return mode === "annotate" || (mode === "check" && !item.first);
}

/** How a span came about, given what the machine or annotator 1 had proposed. */
export function originOf(reference, span, same) {
  if (reference.some((one) => sameSpan(one, span))) return same;
  if (reference.some((one) => sameBounds(one, span))) return "retyped";
  if (reference.some((one) => overlaps(one, span))) return "moved";
  return "new";
}

/** Annotator 1's spans that no span touches any more: the ones to draw as deleted. */
export function removedFirst(item, work) {
  return (item.first ?? []).filter((one) => !work.spans.some((span) => overlaps(span, one)));
}

/** Why a span of annotator 1 is to be confirmed, as texts; none where it is not. */
export function reasonsOf(item, span) {
  return (item.provenance ?? []).find((one) => one.by === 1 && sameSpan(one, span))?.reasons ?? [];
}

/** Annotator 1's spans that annotator 2 has yet to confirm, change or flag. */
export function unconfirmed({ item, work, mode }) {
  if (mode !== "check" || !item.first) return [];
  const flagged = (span) => work.flags.some((flag) => sameSpan(flag, span));
  return work.spans.filter((span) => span.origin !== "confirmed" && reasonsOf(item, span).length && !flagged(span));
}

/** The change against annotator 1, one entry a line: {kind, first, second}. */
export function changesOf(item, work) {
  const first = item.first ?? [];
  const out = first
    .filter((one) => !work.spans.some((span) => sameLinked(span, one)))
    .map((one) => {
      const second = work.spans.find((span) => sameBounds(span, one)) ?? work.spans.find((span) => overlaps(span, one));
      const kind = !second ? "deleted" : sameSpan(second, one) ? "relinked" : sameBounds(second, one) ? "retyped" : "moved";
      return { kind, first: one, second: second ?? null };
    });
  const added = work.spans.filter((span) => !first.some((one) => overlaps(one, span)));
  out.push(...added.map((span) => ({ kind: "added", first: null, second: span })));
  const at = (change) => (change.first ?? change.second).start;
  return out.sort((a, b) => at(a) - at(b));
}

/** The work as it is sent: in check mode every span of annotator 1 that is gone counts as flagged. */
export function snapshotOf(state) {
  const { item, work, mode } = state;
  if (mode !== "check" || !item.first) return work;
  const gone = item.first.filter((one) => !work.spans.some((span) => sameSpan(span, one)));
  const known = (span) => work.flags.some((flag) => sameSpan(flag, span));
  const implied = gone.filter((one) => !known(one)).map(({ start, end, type }) => ({ start, end, type, note: "" }));
  return { ...work, flags: inOrder([...work.flags, ...implied]) };
}

/**
 * The inverse for stored work: implied flags go, so that putting a span back also takes its flag back. Refused work may
 * decide units that no longer exist; those decisions go, too.
 */
export function workFromStored(item, stored) {
  const work = { ...emptyWork(), ...stored };
  if (item.units) work.decisions = work.decisions.filter((one) => one.unit < item.units.length);
  if (!item.first) return work;
  const kept = (flag) => flag.note || work.spans.some((span) => sameSpan(span, flag));
  return { ...work, flags: work.flags.filter(kept) };
}
