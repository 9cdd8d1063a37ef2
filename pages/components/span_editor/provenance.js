// Why a span was marked: by whom, from which suggestion, and why annotator 2 has to confirm it. Pure.
import { overlaps, sameSpan, surfaceOf } from "./tokens.js";
import { reasonsOf, unconfirmed } from "./marks.js";
import { focusedMark, selectionOf, sourceWords, typeTitle } from "./model.js";

const inPercent = (score) => `${Math.round(100 * score)} %`;

/** A span to confirm with the reasons for it. */
export function reasonWords(state, span) {
  return `${surfaceOf(state.split, span.start, span.end)}: ${reasonsOf(state.item, span).join(", ")}`;
}

/** How a span came about, in words. */
export function originWords(state, { origin, imported, from, shown, own }) {
  if (imported) return "imported";
  const sources = from ? `${sourceWords(state, from.sources)} ${inPercent(from.score)}` : "a suggestion";
  if (origin === "accepted") return `taken from ${sources}`;
  if (origin === "identical") return "marked with the same words in this sentence";
  if (origin === "confirmed") return "confirmed";
  if (origin === "kept") return "left as it was";
  if (!own) return { retyped: "retyped", moved: "given other bounds" }[origin] ?? "added by hand";
  if (origin === "retyped") return from ? `retyped from ${typeTitle(state, from.type)}, suggested by ${sources}` : "retyped";
  if (origin === "moved") return from ? `other bounds than “${surfaceOf(state.split, from.start, from.end)}”, suggested by ${sources}` : "other bounds than suggested";
  return shown ? "by hand" : "by hand, without suggestions";
}

/** How the annotators' spans in focus came about, one part for each; empty where they marked nothing. */
export function whyLine(state) {
  const place = focusedMark(state) ?? selectionOf(state);
  const made = (state.item.provenance ?? []).filter((one) => overlaps(one, place));
  const several = new Set(made.map(({ by }) => by)).size < made.length;
  return made.map((one) => annotatorWords(state, one, several)).join(" · ");
}

function annotatorWords(state, one, several) {
  const named = several ? ` (${surfaceOf(state.split, one.start, one.end)})` : "";
  const waits = unconfirmed(state).some((span) => sameSpan(span, one));
  const why = one.reasons.length ? `${waits ? "; to confirm: " : "; "}${one.reasons.join(", ")}` : "";
  return `Annotator ${one.by}${named}: ${originWords(state, one)}${why}`;
}
