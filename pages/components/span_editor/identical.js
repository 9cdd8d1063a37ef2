// The same words at other places of a sentence, and spans whose words are proposed in other sentences. Pure.
import { inOrder, overlaps, sameBounds, sameSpan, surfaceOf } from "./tokens.js";

/** Spans that `withIdentical` made of the words of a span, other than itself. */
function madeFrom(work, span) {
  return work.spans.filter((one) => one.origin === "identical" && one.surface === span.surface && !sameBounds(one, span));
}

/** The words with a capital on each side of a place; the first word of a sentence says nothing. */
function besides({ words }, { start, end }) {
  const capital = (word) => (/^\p{Lu}/u.test(word ?? "") ? word : "");
  return [start > 1 ? capital(words[start - 1]) : "", capital(words[end])];
}

/** Whether a place of a span's words looks like a part of a longer name, which the span is not. */
function withinLonger(split, span, place) {
  const own = besides(split, span);
  return besides(split, place).some((word, side) => word && word !== own[side]);
}

/**
 * Other places of a span's words, to the letter, that nothing marked, rejected or found before overlaps and that are not
 * within a longer name. Spans that were made from these words before count as free: they take the span's present type.
 */
export function placesLike(split, work, span) {
  const size = span.end - span.start;
  const words = surfaceOf(split, span.start, span.end);
  const made = madeFrom(work, span);
  const taken = [span, ...work.spans.filter((one) => !made.includes(one)), ...work.rejected];
  const places = [];
  for (let at = 0; at + size <= split.words.length; at++) {
    const place = { start: at, end: at + size };
    if (surfaceOf(split, at, place.end) !== words || withinLonger(split, span, place)) continue;
    if (![...taken, ...places].some((one) => overlaps(one, place))) places.push(place);
  }
  return places;
}

/** Whether the words of a span are proposed in other sentences, because of it or of a span of the same words. */
export function isProposedElsewhere(work, span) {
  return work.spans.some((one) => one.elsewhere && one.type === span.type && one.surface === span.surface);
}

/** The work with a span's words marked throughout the sentence, and proposed in others. */
export function withIdentical(split, work, span) {
  const linked = span.entity ? { entity: span.entity } : {};
  const added = placesLike(split, work, span).map((place) => ({ ...place, type: span.type, surface: span.surface, origin: "identical", ...linked }));
  const made = madeFrom(work, span);
  const asking = work.spans.filter((one) => !made.includes(one)).map((one) => (sameSpan(one, span) ? { ...one, elsewhere: true } : one));
  return { work: { ...work, spans: inOrder([...asking, ...added]) }, added };
}

/** The work without what `withIdentical` added for these words. */
export function withoutIdentical(work, span) {
  const alike = (one) => one.type === span.type && one.surface === span.surface;
  const made = madeFrom(work, span);
  const kept = work.spans.filter((one) => !made.includes(one));
  return { ...work, spans: kept.map(({ elsewhere, ...one }) => (elsewhere && !alike(one) ? { ...one, elsewhere } : one)) };
}

/** The words and types that some work has proposed in other sentences, as one text. */
export function proposedElsewhere(work) {
  return JSON.stringify([...new Set(work.spans.filter((one) => one.elsewhere).map((one) => `${one.type} ${one.surface}`))].sort());
}
