// Draws the sentence: tokens, marks around them, the selection, jump hints, and the two annotators' lines.
import { count, jumpHints, sameBounds, sameSpan } from "./tokens.js";
import { isProposed, marksOf, reasonsOf, unconfirmed } from "./marks.js";
import { titleOfEntity } from "./links.js";
import { focusedMark, selectionOf, sourceWords, typeTitle } from "./model.js";
import { choiceOf, unitExtent } from "./adjudicate.js";
import { h } from "./dom.js";

/** How a score is shown. */
export function scoreText(score) {
  return score === null || score === undefined ? "" : score.toFixed(2);
}

/** Colour class of an entity type. */
export function colourOf(types, name) {
  return `t${types.find((type) => type.name === name)?.color ?? 0}`;
}

/** A view of the sentence on `root`; `draw(state, types)` builds only what changed. */
export function createSentence(root) {
  let drawn = "";
  let tokens = [];

  function draw(state, types) {
    const marks = marksOf(state);
    const signature = JSON.stringify([state.item.task, state.item.text, marks, state.jump, state.work.flags, state.work.decisions, state.mode, types.length, unconfirmed(state)]);
    if (signature !== drawn) {
      drawn = signature;
      build(state, types, marks);
    }
    point(state);
  }

  function build(state, types, marks) {
    const { words, gaps } = state.split;
    const hints = state.jump ? jumpHints(words, state.jump.page) : new Map();
    const links = state.item.links ?? [];
    const lines = linesOf(state);
    tokens = words.map((word, i) => tokenNode(word, i, state, { hint: hints.get(i), link: linkAt(links, i), lines: lines.token[i], mark: markAt(marks, i) }));
    const nodes = [gaps[0]];
    for (let i = 0; i < words.length; ) {
      const mark = marks.find((one) => one.start === i);
      const end = mark ? mark.end : i + 1;
      const inner = [];
      for (let j = i; j < end; j++) inner.push(tokens[j], ...(j < end - 1 ? [gapNode(gaps[j + 1], lines.gap[j + 1], linkAt(links, j) && linkAt(links, j) === linkAt(links, j + 1))] : []));
      const linked = end < words.length && linkAt(links, end - 1) && linkAt(links, end - 1) === linkAt(links, end);
      nodes.push(...(mark ? [markNode(mark, inner, state, types)] : inner), gapNode(gaps[end], lines.gap[end], linked));
      i = end;
    }
    root.replaceChildren(...nodes);
    root.setAttribute("aria-label", `Sentence, ${count(words.length, "token")}, ${count(marks.length, "mark")}`);
  }

  function tokenNode(word, index, state, { hint, link, lines, mark }) {
    const about = [word, mark && markWords(mark, state), link && `Wikipedia: ${link.target}`].filter(Boolean).join(", ");
    const props = { id: `token-${index}`, role: "option", class: `tok${link ? " link" : ""}${lines ?? ""}`, "aria-label": about, data: { i: index } };
    if (link) props.title = `Wikipedia: ${link.target}`;
    return h("span", props, hint && h("span", { class: "hint", dir: "ltr", "aria-hidden": "true" }, hint), word);
  }

  function point(state) {
    const selection = selectionOf(state);
    const mark = focusedMark(state);
    tokens.forEach((node, i) => {
      const inside = selection.start <= i && i < selection.end;
      node.setAttribute("aria-selected", String(inside));
      node.classList.toggle("cursor", i === state.head);
      node.classList.toggle("picked", inside && !(mark && sameBounds(mark, selection)));
    });
    for (const node of root.querySelectorAll(".mark"))
      node.classList.toggle("focused", Boolean(mark) && Number(node.dataset.start) === mark.start);
    root.setAttribute("aria-activedescendant", `token-${state.head}`);
  }

  return { draw, token: (index) => tokens[index], lineStep: (index, by) => lineStep(tokens, index, by) };
}

function gapNode(text, lines, linked) {
  return text && (lines || linked) ? h("span", { class: `gap${linked ? " link" : ""}${lines ?? ""}` }, text) : text;
}

function linkAt(links, index) {
  return links.find((link) => link.start <= index && index < link.end) ?? null;
}

function markAt(marks, index) {
  return marks.find((mark) => mark.start <= index && index < mark.end) ?? null;
}

/** What a mark is, in words, for screen readers. */
export function markWords(mark, state) {
  const title = typeTitle(state, mark.type);
  if (isProposed(mark)) return `${mark.kind === "unsure" ? "hint" : "suggested"} ${title}, ${sourceWords(state, mark.sources)} ${scoreText(mark.score)}`;
  if (mark.kind === "gone") return `deleted ${title}`;
  const flagged = state.work.flags.some((flag) => sameSpan(flag, mark));
  if (isWanted(state, mark)) return `${title}, to confirm: ${reasonsOf(state.item, mark).join(", ")}`;
  const linked = state.rules.linking ? `, ${titleOfEntity(mark.entity)}` : "";
  return (flagged ? `${title}, flagged` : mark.origin === "confirmed" ? `${title}, confirmed` : title) + linked;
}

function isWanted(state, mark) {
  return mark.kind === "span" && unconfirmed(state).some((one) => sameSpan(one, mark));
}

/** What a mark's caption says beside its type. */
function captionMore(mark, state, was) {
  if (isProposed(mark)) return `${sourceWords(state, mark.sources)} ${scoreText(mark.score)}`;
  if (state.work.flags.some((flag) => sameSpan(flag, mark))) return "flagged";
  return was ? `was ${typeTitle(state, was.type)}` : "";
}

/** A mark's type as its caption says it; a sign says whether it is confirmed, of one width, so that nothing moves. */
function captionWord(mark, state) {
  const title = typeTitle(state, mark.type);
  if (mark.kind === "gone") return `deleted: ${title}`;
  if (isProposed(mark)) return `${title}?`;
  if (isWanted(state, mark)) return `${title} ○`;
  const linked = state.rules.linking && mark.entity ? " →" : "";
  return (mark.origin === "confirmed" && state.mode === "check" ? `${title} ✓` : title) + linked;
}

function markNode(mark, inner, state, types) {
  const flagged = state.work.flags.some((flag) => sameSpan(flag, mark));
  const was = state.mode === "check" && (state.item.first ?? []).find((one) => sameBounds(one, mark) && one.type !== mark.type);
  const classes = ["mark", mark.kind, colourOf(types, mark.type), flagged && "flagged", ["kept", "confirmed"].includes(mark.origin) && "given", isWanted(state, mark) && "wanted", asAgreed(mark, state) && "agreed"];
  const more = captionMore(mark, state, was);
  const caption = h("span", { class: "cap", dir: "ltr", "aria-hidden": "true" }, captionWord(mark, state), more && h("span", { class: "more" }, more));
  const props = { class: classes.filter(Boolean).join(" "), role: "group", "aria-label": markWords(mark, state), data: { start: mark.start } };
  return h("span", props, ...inner, caption);
}

/** Which units' lines run below each token and gap, as class names: `u1-kind` is annotator 1's, `u2-kind` annotator 2's. */
function linesOf(state) {
  const size = state.split.words.length;
  const lines = { token: Array(size).fill(""), gap: Array(size + 1).fill("") };
  const units = state.mode === "adjudicate" ? (state.item.units ?? []) : [];
  units.forEach((unit, index) => {
    if (agreed(state, index)) return;
    const open = choiceOf(state.work, index) ? "" : " undecided";
    for (const [side, span] of [[1, unit.first], [2, unit.second]])
      for (let i = span?.start ?? 0; span && i < span.end; i++) {
        const name = ` k-${kindClass(unit.kind)} u${side}${open}`;
        lines.token[i] += name;
        if (i > span.start) lines.gap[i] += name;
      }
  });
  return lines;
}

function asAgreed(mark, state) {
  return state.mode === "adjudicate" && (state.item.units ?? []).some((unit, index) => agreed(state, index) && sameSpan(unit.first, mark));
}

/** Whether both annotators had a unit the same, and the expert left it so. */
export function agreed({ item, work }, index) {
  const choice = choiceOf(work, index);
  return item.units[index].kind === "agree" && (choice === "first" || choice === "second");
}

/** A unit's kind as a class name. */
export function kindClass(kind) {
  return kind.replace("+", "-and-");
}

/** The unit that covers a token, or -1. */
export function unitAt(state, index) {
  return (state.item.units ?? []).findIndex((unit) => {
    const extent = unitExtent(unit);
    return extent.start <= index && index < extent.end;
  });
}

/** The nearest token on the line above or below; the same token if there is no such line. */
function lineStep(tokens, index, by) {
  const here = tokens[index].getBoundingClientRect();
  const middle = (box) => box.left + box.width / 2;
  let best = index;
  let bestRow = null;
  tokens.forEach((node, i) => {
    const box = node.getBoundingClientRect();
    const away = (box.top - here.top) * by;
    if (away < here.height * 0.6) return;
    const nearer = bestRow === null || away < bestRow - here.height * 0.6;
    const sameRow = bestRow !== null && Math.abs(away - bestRow) <= here.height * 0.6;
    const distance = Math.abs(middle(box) - middle(here));
    if (nearer || (sameRow && distance < Math.abs(middle(tokens[best].getBoundingClientRect()) - middle(here)))) {
      best = i;
      bestRow = nearer ? away : bestRow;
    }
  });
  return best;
}
