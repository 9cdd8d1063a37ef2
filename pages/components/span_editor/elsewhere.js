// How often the words of the span in focus occur in other sentences: asked once it rests there, and offered in one line.
import { isProposedElsewhere, placesLike, proposedElsewhere } from "./identical.js";
import { focusedMark } from "./model.js";
import { button, h, keycap } from "./dom.js";

const keyOf = ({ task, start, end }) => `${task}:${start}:${end}`;

/** The span in focus while annotating, as what is asked of the server; null where there is none. */
export function wordsInFocus(state) {
  const mark = state?.mode === "annotate" ? focusedMark(state) : null;
  return mark?.kind === "span" ? { task: state.item.task, start: mark.start, end: mark.end } : null;
}

/** Asks for counts by `nudge`, `pause` ms after a span got the focus, unless a message has carried the question by then. */
export function createElsewhere({ timers, nudge, pause = 500 }) {
  const counts = new Map();
  const acknowledged = new Map(); // task → what its work has proposed elsewhere, as far as the server has said
  let wanted = null;
  let timer = null;

  const ask = () => {
    timer = wanted && timers.set(ask, pause);
    if (wanted) nudge();
  };

  return {
    /** Ask about what is in focus now, unless it is known. */
    follow: (state) => {
      const words = wordsInFocus(state);
      if (words && wanted && keyOf(words) === keyOf(wanted)) return;
      wanted = words && !counts.has(keyOf(words)) ? words : null;
      if (timer !== null) timers.clear(timer);
      timer = wanted && timers.set(ask, pause);
    },
    /** A message with what is to be counted; one that changes what is proposed asks for all sentences anew. */
    carried: (message) => {
      const changes = message.events.some(({ task, work }) => proposedElsewhere(work) !== (acknowledged.get(task) ?? "[]"));
      return { ...message, ...(changes && { ask: true }), ...(wanted && { look: wanted }) };
    },
    /** Take an answer to a message that asked to `look`, and the events it acknowledged. */
    take: (occurrences, look, acked) => {
      for (const { task, work } of acked) acknowledged.set(task, proposedElsewhere(work));
      if (!look) return;
      counts.set(keyOf(look), occurrences ?? { document: 0, campaign: 0 });
      if (wanted && keyOf(wanted) === keyOf(look)) wanted = null;
    },
    counted: (words) => counts.get(keyOf(words)),
    stop: () => timer !== null && timers.clear(timer),
  };
}

/** Where else the words in focus stand, or are proposed; empty before they are counted and where they are alone. */
export function offerWords(state, counts) {
  const mark = focusedMark(state);
  const proposed = isProposedElsewhere(state.work, mark);
  const here = proposed ? 0 : placesLike(state.split, state.work, mark).length;
  const { document = 0, campaign = 0 } = counts ?? {};
  const parts = [here && `${here} here`, document && `${document} in this document`, campaign && `${campaign} ${document ? "elsewhere" : "in the campaign"}`];
  const places = parts.filter(Boolean).join(", ");
  return places ? `${proposed ? "proposed" : "also"} ${places}` : proposed ? "proposed elsewhere" : "";
}

/** The quiet offer at the end of the focus line: where else the words stand, and the key that marks or takes back all. */
export function offerLine(state, counted, run) {
  const words = wordsInFocus(state);
  const offer = words && offerWords(state, counted(words));
  if (!offer) return [];
  const verb = isProposedElsewhere(state.work, focusedMark(state)) ? "take back" : "mark all";
  const press = () => run({ do: "identical" });
  return [h("span", { class: "quiet" }, offer), button(verb, { class: "small offer", tabindex: "-1", press }, " ", keycap("Ctrl Enter"))];
}
