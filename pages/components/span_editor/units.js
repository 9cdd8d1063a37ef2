// The list of units under adjudication: each disagreement with its word and colour, and the choices.
import { surfaceOf } from "./tokens.js";
import { choiceOf, undecided } from "./adjudicate.js";
import { titleOfEntity } from "./links.js";
import { typeTitle } from "./model.js";
import { agreed, colourOf, kindClass } from "./sentence.js";
import { button, h, keycap, replace, setText } from "./dom.js";

export const KIND_WORDS = {
  agree: "agree", flagged: "flagged", boundary: "boundary", type: "type", "boundary+type": "boundary and type", entity: "entity",
  missing: "missing", extra: "extra",
};
export const KIND_HELP = {
  agree: "both gave the same span", flagged: "annotator 2 doubts it", boundary: "same type, other tokens", type: "same tokens, other type",
  "boundary+type": "other tokens and other type", entity: "same span, other resource", missing: "only annotator 2 has it", extra: "only annotator 1 has it",
};

/** The list on `root`; calls `choose(unit, choice)` and `focus(unit)`. */
export function createUnits(root, { choose, focus }) {
  const title = h("div", { class: "units-title" });
  const list = h("ol", { class: "units" });
  root.append(title, list);

  function side(state, types, unit, index, name, key) {
    const span = unit[name];
    const chosen = choiceOf(state.work, index) === name;
    if (!span) return h("span", { class: "choice absent" }, keycap(key), "–");
    const label = [keycap(key), surfaceOf(state.split, span.start, span.end), h("span", { class: "kind-type" }, typeTitle(state, span.type)), unit.kind === "entity" && h("span", { class: "kind-type" }, titleOfEntity(span.entity))];
    const props = { class: `choice ${colourOf(types, span.type)}`, "aria-pressed": String(chosen), tabindex: "-1", press: () => choose(index, name) };
    return button("", props, ...label);
  }

  function ownText(state, unit, index) {
    if (choiceOf(state.work, index) !== "other") return null;
    const own = state.work.spans.filter((span) => span.origin === "other");
    const from = Math.min(...[unit.first, unit.second].filter(Boolean).map((span) => span.start));
    const to = Math.max(...[unit.first, unit.second].filter(Boolean).map((span) => span.end));
    const mine = own.filter((span) => span.start < to && from < span.end);
    const text = mine.map((span) => `${surfaceOf(state.split, span.start, span.end)}, ${typeTitle(state, span.type)}`).join("; ");
    return h("span", { class: "choice own", "aria-pressed": "true" }, `other: ${text}`);
  }

  function row(state, types, unit, index) {
    const choice = choiceOf(state.work, index);
    const none = button("", { class: "choice none", "aria-pressed": String(choice === "none"), tabindex: "-1", press: () => choose(index, "none") }, keycap("0"), "no entity");
    const kind = h("button", { type: "button", class: "kind", tabindex: "-1", title: KIND_HELP[unit.kind] }, KIND_WORDS[unit.kind] ?? unit.kind);
    kind.addEventListener("mousedown", (event) => event.preventDefault());
    kind.addEventListener("click", () => focus(index));
    const note = unit.note && h("span", { class: "unit-note", dir: "auto" }, `“${unit.note}”`);
    const props = { class: `unit k-${kindClass(unit.kind)}${state.unit === index ? " here" : ""}${choice ? " decided" : ""}${agreed(state, index) ? " agreed" : ""}`, "aria-current": state.unit === index ? "true" : null };
    return h("li", props, kind, side(state, types, unit, index, "first", "1"), side(state, types, unit, index, "second", "2"), none, ownText(state, unit, index), note);
  }

  return {
    show: (state, types) => {
      root.hidden = state?.mode !== "adjudicate";
      if (root.hidden) return;
      const units = state.item.units ?? [];
      const open = undecided(state.item, state.work).length;
      setText(title, units.length ? `${units.length - open} of ${units.length} decided. Upper line: annotator 1. Lower line: annotator 2.` : "Neither annotator marked anything.");
      replace(list, ...units.map((unit, index) => row(state, types, unit, index)));
      list.querySelector(".here")?.scrollIntoView?.({ block: "nearest" });
    },
  };
}
