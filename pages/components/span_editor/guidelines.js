// The guidelines at hand: a panel that opens by a key and narrows as one types.
import { greyText } from "./context.js";
import { colourOf } from "./sentence.js";
import { KIND_WORDS } from "./units.js";
import { button, h, keycap, replace } from "./dom.js";

const EXAMPLES = 3; // of each type

/** Whether every word of a query stands somewhere in the texts. Pure. */
export function matches(query, texts) {
  const text = texts.join("\n").toLowerCase();
  return query.toLowerCase().split(/\s+/).filter(Boolean).every((word) => text.includes(word));
}

/**
 * What a query leaves of the guidelines: types by title, guideline or example, decisions by anything in them. Without a
 * query the type `first` comes first. The open sentence is no example of its own. Pure.
 */
export function narrowed({ types, decisions }, { query, first = null, sentence = null }) {
  const shown = types.map((type) => {
    const named = matches(query, [type.title, type.name, type.guideline]);
    const others = type.examples.filter((example) => example.sentence !== sentence);
    const examples = named ? others : others.filter((example) => matches(query, [type.title, example.text]));
    return { ...type, named, examples: examples.slice(0, EXAMPLES) };
  });
  const kept = shown.filter((type) => type.named || type.examples.length);
  const rank = (type) => (!query.trim() && type.name === first ? 0 : 1);
  return {
    types: kept.sort((a, b) => rank(a) - rank(b)),
    decisions: decisions.filter((hard) => hard.sentence !== sentence && matches(query, textsOf(hard))),
  };
}

function textsOf({ text, comment, settled, asked }) {
  const sides = settled.flatMap(({ first, second, gold }) => [first, second, gold]);
  return [text, comment, ...sides, ...asked.flatMap(({ question, answers }) => [question, ...answers])];
}

/**
 * The panel on `root`; `load(version)` gets what changed, `back()` gives the focus to the sentence, `about()` says which
 * sentence is open, of which type its focused mark is, and which types there are.
 */
export function createGuidelines(root, { load, back, about }) {
  const input = h("input", { type: "search", "aria-label": "Search the guidelines", placeholder: "a type, a word, a name", autocomplete: "off", spellcheck: "false" });
  const close = button("Close", { class: "small", press: () => shut() }, " ", keycap("Esc"));
  const types = h("div", { class: "guide-types" });
  const decisions = h("div", { class: "guide-decisions" });
  const parts = h("div", { class: "guide-parts", tabindex: "0", role: "group", "aria-label": "Types and decisions" }, types, decisions);
  root.append(h("div", { class: "guide-bar" }, h("b", {}, "Guidelines"), input, close), parts);
  let held = null;
  let trouble = "";

  function shut() {
    root.hidden = true;
    input.value = "";
    back();
  }

  function draw() {
    if (root.hidden) return;
    const place = about();
    const shown = held && narrowed(held, { query: input.value, ...place });
    const note = trouble && h("p", { class: "warn" }, trouble);
    const none = held?.decisions.length ? "No decision matches." : "None yet. What an expert asks about, settles with a comment, or marks as an example, is listed here.";
    replace(types, note, ...(shown?.types ?? []).map((type) => typeNode(type, place.types)), shown && !shown.types.length && quiet("No type matches."));
    replace(decisions, shown && h("h3", {}, `Decisions on hard cases (${shown.decisions.length})`), ...(shown?.decisions ?? []).map((hard) => decisionNode(hard, place.types)), shown && !shown.decisions.length && quiet(none));
  }

  input.addEventListener("input", draw);
  root.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.isComposing || !["Enter", "Escape"].includes(event.key) || event.target.tagName === "BUTTON") return;
    event.preventDefault();
    if (event.key === "Enter") back(); // the panel stays open beside the sentence
    else shut();
  });

  return {
    /** Open the panel, or go into its field again. */
    open: async () => {
      root.hidden = false;
      draw();
      root.scrollIntoView({ block: "nearest" });
      input.focus({ preventScroll: true });
      const answer = await load(held?.version ?? "");
      trouble = answer ? "" : "The guidelines could not be fetched; open them again.";
      if (answer?.types) held = answer;
      draw();
    },
  };
}

function quiet(text) {
  return h("p", { class: "quiet" }, text);
}

function marked(text, marks, types) {
  return greyText(text, marks, (name) => types.find((type) => type.name === name)?.title ?? name);
}

function typeNode(type, types) {
  const examples = type.examples.map((example) => h("li", { dir: "auto" }, ...marked(example.text, example.marks.filter((mark) => mark.type === type.name), types)));
  const none = !examples.length && quiet("No example in gold yet.");
  return h("section", { class: `guide-type ${colourOf(types, type.name)}` }, h("h3", {}, type.title), h("p", {}, type.guideline), examples.length > 0 && h("ul", {}, ...examples), none);
}

function decisionNode({ text, marks, settled, comment, example, asked }, types) {
  const said = (word, text) => h("li", { dir: "auto" }, h("span", { class: "word" }, word), text);
  const lines = settled.map(({ kind, first, second, gold }) =>
    said(KIND_WORDS[kind] ?? kind, h("span", {}, [...new Set([first, second].filter(Boolean))].join(" or "), " → ", h("b", {}, gold || "no entity"))));
  const threads = asked.flatMap(({ question, answers }) => [said("asked", question), ...answers.map((answer) => said("answered", answer))]);
  return h("section", { class: "guide-decision" }, h("p", { dir: "auto" }, ...marked(text, marks, types)), h("ul", {}, example && h("li", { class: "word" }, "example"), ...lines, comment && said("comment", comment), ...threads));
}
