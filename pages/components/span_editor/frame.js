// The parts of the editor and how they are filled: bar, sentence, lines around it, commands.
import { offerLine } from "./elsewhere.js";
import { signIn } from "./browser.js";
import { statusOf, statusText } from "./outbox.js";
import { progressAfter } from "./session.js";
import { focusedMark } from "./model.js";
import { changeLines, drawConflict, drawHelp, focusLine } from "./panels.js";
import { whyLine } from "./provenance.js";
import { button, h, isDark, keycap, replace, setText } from "./dom.js";

const RELOAD_AFTER = 15000;

/** The empty parts, and the root that holds them. */
export function buildParts(mode) {
  const parts = {
    progress: h("span", { class: "progress" }),
    status: h("span", { class: "status", "aria-live": "off" }),
    conflict: h("div", { class: "conflict", role: "alert", hidden: true }),
    notes: h("ul", { class: "notes", hidden: true }),
    origin: h("div", { class: "origin", hidden: true }),
    before: h("div", { class: "around before", role: "note", "aria-label": "Text before the sentence", hidden: true }),
    sentence: h("div", { class: "sentence", role: "listbox", "aria-multiselectable": "true", tabindex: "0", dir: "auto", "aria-describedby": "focus-line why-line" }),
    after: h("div", { class: "around after", role: "note", "aria-label": "Text after the sentence", hidden: true }),
    empty: h("p", { class: "empty", hidden: true, tabindex: "-1" }),
    focus: h("div", { class: "focus-line", id: "focus-line" }),
    why: h("div", { class: "why", id: "why-line", hidden: !["check", "adjudicate"].includes(mode) }),
    guide: h("div", { class: "guide" }),
    say: h("div", { class: "say", role: "status", "aria-live": "polite" }),
    panels: h("div", {}),
    types: h("div", { class: "types" }),
    units: h("div", { class: "units-box", hidden: true }),
    changes: h("ul", { class: "changes", hidden: true }),
    actions: h("div", { class: "actions", role: "toolbar", "aria-label": "Commands" }),
    guidelines: h("div", { class: "guidelines", role: "region", "aria-label": "Guidelines", hidden: true }),
    recent: h("ol", { class: "recent", "aria-label": "Submitted last", hidden: true }),
    help: h("div", { class: "help", role: "region", "aria-label": "Keys", hidden: true }),
  };
  const lines = [parts.focus, parts.why, parts.guide, parts.say, parts.panels, parts.units, parts.types, parts.changes];
  parts.body = h("div", { class: "body" }, parts.notes, parts.origin, parts.before, parts.sentence, parts.after, ...lines);
  const bar = h("div", { class: "bar" }, parts.progress, parts.status);
  parts.root = h("div", { class: "editor", data: { mode } }, bar, parts.conflict, parts.empty, parts.body, parts.actions, parts.guidelines, parts.recent, parts.help);
  return parts;
}

/** The row of commands, each with its key, for the mouse and for looking up a key. */
export function fillActions(editor) {
  const { parts, run, commands, data } = editor;
  const act = (text, key, press, props = {}) => button("", { class: "plain", ...props, press }, text, " ", keycap(key));
  const edits = [
    data.mode !== "adjudicate" && act("No entities", "0", () => run({ do: "none" }), { data: { act: "none" } }),
    data.mode === "adjudicate" && act("Ask", "!", commands.ask),
    data.rules?.linking && act("Link", "@", commands.entities),
    act("Comment", ",", commands.comment),
    data.mode === "adjudicate" && act("Example", "*", () => run({ do: "example" }), { data: { act: "example" } }),
    act("Skip", ".", commands.skip),
    act("Undo", "Ctrl Z", () => run({ do: "undo" }), { data: { act: "undo" } }),
    act("Redo", "Ctrl Y", () => run({ do: "redo" }), { data: { act: "redo" } }),
    act("Previous", "Shift Enter", commands.reopen, { data: { act: "previous" } }),
    data.mode === "annotate" && act("Accept all", "Shift Space", () => run({ do: "acceptAll" })),
  ];
  const submit = act("Submit", "Enter", commands.submit, { class: "primary" });
  const writing = data.mode !== "view";
  replace(parts.actions, ...(writing ? edits : []), act("Guidelines", ":", commands.guidelines), act("Keys", "?", commands.help), writing && submit);
  drawHelp(parts.help, data.mode, data.rules?.floor, data.rules?.linking);
}

/** Bring the whole screen in line with the session. */
export function drawEditor(editor) {
  const { parts, session, outbox, data } = editor;
  const { state } = session;
  const { root } = parts;
  root.dataset.scheme = isDark(getComputedStyle(root).getPropertyValue("--st-background-color") || "#fff") ? "dark" : "light";
  root.dataset.task = state ? String(state.item.task) : "";
  parts.empty.hidden = Boolean(state);
  parts.body.hidden = !state;
  parts.actions.classList.toggle("idle", !state);
  drawBar(editor);
  editor.elsewhere.follow(state);
  const titles = Object.fromEntries(data.types.map((type) => [type.name, type.title]));
  drawConflict(parts.conflict, outbox.conflicts()[0], (mine) => editor.leave(() => session.settle(mine)), titles);
  for (const node of parts.actions.querySelectorAll("[data-act]")) node.disabled = !enabled(node.dataset.act, session);
  editor.recent.show(session.recent);
  if (!state) {
    setText(parts.empty, session.notice || emptyText(editor));
    return;
  }
  editor.view.draw(state, data.types);
  editor.units.show(state, data.types);
  const works = ({ key, name }) => editor.typeKeys[key?.toLowerCase()] === name;
  editor.types.show(data.types.map((type) => (works(type) ? type : { ...type, key: null })), data.mode !== "view");
  editor.types.ring(focusedMark(state)?.type ?? null);
  drawAround(editor, state);
}

function enabled(act, { state, recent }) {
  return Boolean({ none: state, example: state, undo: state?.past.length, redo: state?.future.length, previous: recent.length }[act]);
}

function emptyText({ data, outbox }) {
  const more = (data.progress?.left ?? 0) > data.items.length;
  return outbox.pending() && more ? "The next sentences are on their way." : data.empty || "Nothing to do here right now.";
}

function drawAround(editor, state) {
  const { parts, run, session } = editor;
  editor.contexts.follow(editor.data.items, state.item.task, editor.reach);
  editor.around.show(state, editor.contexts.of(state.item.task, editor.reach), editor.reach);
  replace(parts.focus, ...focusLine(state, run));
  setText(parts.why, whyLine(state));
  const note = session.notice || (session.restored ? "Your unsent changes were restored." : "");
  setText(parts.say, state.message || (state.work.no_entities ? "Marked as having no entities." : note));
  parts.say.classList.toggle("asks", Boolean(state.confirm));
  const changes = changeLines(state, run);
  parts.changes.hidden = !changes.length;
  replace(parts.changes, ...changes);
  const notes = state.item.notes ?? [];
  parts.notes.hidden = !notes.length;
  replace(parts.notes, ...notes.map(({ who, text }) => h("li", { dir: "auto" }, h("b", {}, `${who}: `), text)));
  parts.focus.append(...offerLine(state, editor.elsewhere.counted, run));
  editor.fields.show(state);
  parts.actions.querySelector('[data-act="none"]')?.setAttribute("aria-pressed", String(state.work.no_entities));
  parts.actions.querySelector('[data-act="example"]')?.setAttribute("aria-pressed", String(Boolean(state.work.example)));
  drawGuide(editor);
}

/** One line of guideline: of the type under the pointer, else of the focused one. */
export function drawGuide({ parts, session, data, hovered }) {
  const name = hovered ?? (session.state && focusedMark(session.state)?.type);
  const type = data.types.find((one) => one.name === name);
  replace(parts.guide, type && h("b", {}, type.title), type && `: ${type.guideline ?? ""}`);
  parts.guide.title = type?.guideline ?? "";
}

/** Progress and the state of saving. */
export function drawBar(editor) {
  const { parts, data, outbox, sender, session } = editor;
  const { done = 0, left = 0 } = progressAfter(data.progress ?? {}, outbox.waiting());
  setText(parts.progress, data.progress ? `${done} done, ${left} left` : "");
  const waited = sender.waited();
  const now = statusOf({ outbox, waited, online: navigator.onLine, trouble: editor.trouble });
  const status = now === "saved" && session.refused ? "refused" : now;
  parts.root.dataset.status = status;
  const broken = ["offline", "lost", "refused", "barred", "signed-out"].includes(status);
  parts.status.setAttribute("aria-live", broken ? "assertive" : "off");
  const words = status === "refused" ? session.refused : editor.trouble?.words;
  const text = data.mode === "view" ? "Read only" : statusText(status, { words, pending: outbox.pending() > 0 });
  const reload = (status === "offline" && waited > RELOAD_AFTER) || status === "barred";
  const waits = status === "refused" && session.state !== null && outbox.refusal(session.state.item.task) !== null;
  if (parts.status.dataset.shown === `${text}${reload}${waits}`) return;
  parts.status.dataset.shown = `${text}${reload}${waits}`;
  // A reload loses nothing: what is not acknowledged, or was refused, is in localStorage.
  const again = reload && button("Reload the page", { class: "small", press: () => window.location.reload() });
  const drop = waits && button("Discard my changes", { class: "small", press: () => editor.leave(session.letGo) });
  const enter = status === "signed-out" && button("Sign in", { class: "small strong", press: signIn });
  replace(parts.status, document.createTextNode(text), again, drop, enter);
}
