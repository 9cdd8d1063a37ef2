// The expert's units: choices, the spans that follow from them, and what is left to decide. Pure.
import { inOrder, overlaps, sameLinked, sameSpan, splitText, surfaceOf } from "./tokens.js";
import { emptyWork } from "./marks.js";

/** Tokens a unit touches, [start, end). */
export function unitExtent(unit) {
  const spans = [unit.first, unit.second].filter(Boolean);
  return { start: Math.min(...spans.map((s) => s.start)), end: Math.max(...spans.map((s) => s.end)) };
}

export function choiceOf(work, unit) {
  return work.decisions.find((decision) => decision.unit === unit)?.choice ?? null;
}

export function undecided(item, work) {
  return (item.units ?? []).map((_, i) => i).filter((i) => !choiceOf(work, i));
}

/** The work to start from: agreement is decided, the rest is open. */
export function initialAdjudication(item) {
  const agreed = (item.units ?? []).flatMap((unit, i) => (unit.kind === "agree" ? [{ unit: i, choice: "first" }] : []));
  return withDecisions(item, emptyWork(), agreed, []);
}

/** The span a choice stands for, or null. */
export function chosenSpan(item, decision) {
  const unit = item.units[decision.unit];
  const span = decision.choice === "first" ? unit.first : decision.choice === "second" ? unit.second : null;
  return span && { ...span, surface: surfaceOf(splitText(item.text, item.tokens), span.start, span.end), origin: decision.choice };
}

function withDecisions(item, work, decisions, own) {
  const spans = [...own];
  for (const decision of decisions) {
    const span = chosenSpan(item, decision);
    if (span && !spans.some((other) => sameSpan(other, span))) spans.push(span);
  }
  const sorted = [...decisions].sort((a, b) => a.unit - b.unit);
  return { ...work, decisions: sorted, spans: inOrder(spans), no_entities: false };
}

const isOwn = (span) => span.origin === "other" || span.origin === "new";

/**
 * Decide a unit for the first, the second or none. Units whose chosen span now overlaps become undecided again.
 * Returns {work, reopened: unit indices}.
 */
export function chooseUnit(item, work, unit, choice) {
  const span = chosenSpan(item, { unit, choice });
  const extent = unitExtent(item.units[unit]);
  const others = work.decisions.filter((d) => d.unit !== unit);
  const clashing = span
    ? others.filter((d) => {
        const chosen = chosenSpan(item, d);
        return chosen && overlaps(chosen, span) && !sameSpan(chosen, span);
      })
    : [];
  const own = work.spans.filter(isOwn).filter((one) => !(span ? overlaps(one, span) : false) && !overlaps(one, extent));
  const orphaned = others.filter((d) => d.choice === "other" && !own.some((one) => overlaps(one, unitExtent(item.units[d.unit]))));
  const reopened = [...clashing, ...orphaned].map((d) => d.unit);
  const kept = others.filter((d) => !reopened.includes(d.unit));
  return { work: withDecisions(item, work, [...kept, { unit, choice }], own), reopened };
}

/**
 * Give tokens [start, end) a type of the expert's own. The focused unit and every unit whose chosen span it overlaps
 * become "other"; outside all units it is simply a new span. A span equal to a choice is that choice.
 */
export function setOwnSpan(item, work, focused, span) {
  const near = focused >= 0 && overlaps(unitExtent(item.units[focused]), span);
  if (near) {
    const unit = item.units[focused];
    for (const choice of ["first", "second"]) if (unit[choice] && sameLinked(unit[choice], span)) return chooseUnit(item, work, focused, choice);
  }
  const own = work.spans.filter(isOwn).filter((one) => !overlaps(one, span));
  const taken = new Set(near ? [focused] : []);
  for (const decision of work.decisions) {
    const chosen = chosenSpan(item, decision);
    if (chosen && overlaps(chosen, span)) taken.add(decision.unit);
    if (decision.choice === "other" && overlaps(unitExtent(item.units[decision.unit]), span)) taken.add(decision.unit);
  }
  const inside = (item.units ?? []).some((unit) => overlaps(unitExtent(unit), span));
  own.push({ ...span, origin: inside ? "other" : "new" });
  const kept = work.decisions.filter((d) => !taken.has(d.unit));
  const held = kept.filter((d) => d.choice !== "other" || own.some((one) => overlaps(one, unitExtent(item.units[d.unit]))));
  const decisions = [...held, ...[...taken].map((unit) => ({ unit, choice: "other" }))];
  return { work: withDecisions(item, work, decisions, own), reopened: kept.filter((d) => !held.includes(d)).map((d) => d.unit) };
}

/** Remove one of the expert's own spans; units it had settled are open again. */
export function removeOwnSpan(item, work, span) {
  const own = work.spans.filter(isOwn).filter((one) => !sameSpan(one, span));
  const stays = (d) => d.choice !== "other" || own.some((one) => overlaps(one, unitExtent(item.units[d.unit])));
  const decisions = work.decisions.filter(stays);
  return { work: withDecisions(item, work, decisions, own), reopened: [] };
}

/** The unit that Tab goes to: the next undecided one after `from`, or simply the next. */
export function nextUnit(item, work, from, direction) {
  const total = item.units?.length ?? 0;
  if (!total) return -1;
  const open = undecided(item, work);
  for (let step = 1; step <= total; step++) {
    const at = (((from + direction * step) % total) + total) % total;
    if (!open.length || open.includes(at)) return at;
  }
  return from;
}
