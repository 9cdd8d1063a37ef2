// Spans and the resources that they are linked to. Pure.
import { overlaps, sameSpan } from "./tokens.js";
import { setOwnSpan } from "./adjudicate.js";

/** Spans that are linked to nothing yet, in reading order. */
export function unlinked(work) {
  return work.spans.filter((span) => !span.entity);
}

/** The next span after a place that is not linked, from the start again at the end; null without one. */
export function nextUnlinked(work, from) {
  const open = unlinked(work);
  return open.find((span) => span.start > from) ?? open[0] ?? null;
}

/** The work with a span linked to a resource, or to none (null); an expert's link is a decision of their own. */
export function withEntity(item, work, mode, span, entity) {
  if (mode !== "adjudicate") return { ...work, spans: work.spans.map((one) => (sameSpan(one, span) ? { ...one, entity } : one)) };
  const unit = (item.units ?? []).findIndex((one) => [one.first, one.second].some((side) => side && overlaps(side, span)));
  const { start, end, type, surface } = span;
  return setOwnSpan(item, work, unit, { start, end, type, surface, entity }).work;
}
