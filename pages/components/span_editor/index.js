// Mounts the editor: one instance an element, kept from run to run; keys and pointer in, session and drawing out.
import { actionFor, typeKeysOf } from "./keys.js";
import { createOutbox, createSender, statusOf } from "./outbox.js";
import { createEffort, createSession } from "./session.js";
import { createSentence, unitAt } from "./sentence.js";
import { createTypes } from "./types.js";
import { createUnits } from "./units.js";
import { changeLines, createField, createSkip, drawConflict, drawHelp, focusLine, STATUS } from "./panels.js";
import { alternatives } from "./marks.js";
import { focusedMark } from "./model.js";
import { button, h, isDark, keycap, replace, setText } from "./dom.js";

const instances = new WeakMap();

export default function mount(component) {
  const { data, parentElement } = component;
  if (!data) return undefined;
  const identity = `${data.user}:${data.campaign}:${data.mode}`;
  let instance = instances.get(parentElement);
  if (instance && instance.identity !== identity) {
    instance.destroy();
    instance = undefined;
  }
  if (instance) instance.receive(component);
  else instances.set(parentElement, createEditor(component, identity));
  return () => {
    instances.get(parentElement)?.destroy();
    instances.delete(parentElement);
  };
}

function newKey() {
  // randomUUID needs a secure context, which a plain address in the local network is not.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** localStorage, or a stand-in that remembers nothing where the browser forbids it. */
function localStore() {
  try {
    return window.localStorage;
  } catch {
    return { length: 0, key: () => null, getItem: () => null, setItem: () => { throw new Error("no storage"); }, removeItem: () => {} };
  }
}

const TIMERS = { set: (run, ms) => setTimeout(run, ms), clear: (id) => clearTimeout(id), now: () => Date.now() };

function buildParts() {
  const parts = {
    progress: h("span", { class: "progress" }),
    status: h("span", { class: "status", role: "status" }),
    conflict: h("div", { class: "conflict", role: "alert", hidden: true }),
    notes: h("ul", { class: "notes", hidden: true }),
    sentence: h("div", { class: "sentence", role: "listbox", "aria-multiselectable": "true", tabindex: "0", dir: "auto", "aria-describedby": "focus-line" }),
    empty: h("p", { class: "empty", hidden: true, tabindex: "-1" }),
    focus: h("div", { class: "focus-line", id: "focus-line" }),
    guide: h("div", { class: "guide" }),
    say: h("div", { class: "say", role: "status", "aria-live": "polite" }),
    types: h("div", { class: "types" }),
    units: h("div", { class: "units-box", hidden: true }),
    changes: h("ul", { class: "changes", hidden: true }),
    actions: h("div", { class: "actions", role: "toolbar", "aria-label": "Commands" }),
    help: h("div", { class: "help", role: "region", "aria-label": "Keys", hidden: true }),
  };
  parts.body = h("div", { class: "body" }, parts.notes, parts.sentence, parts.focus, parts.guide, parts.say, parts.units, parts.types, parts.changes);
  return parts;
}

function createEditor(component, identity) {
  let { data } = component;
  let post = component.setStateValue;
  const { parentElement } = component;
  const parts = buildParts();
  const outbox = createOutbox({ storage: localStore(), prefix: `crossner:${identity}`, client: newKey(), now: Date.now, newKey });
  const sender = createSender({ outbox, timers: TIMERS, post: afterPaint });
  const effort = createEffort({ now: () => performance.now() });
  const session = createSession({ payload: data, outbox, sender, effort });
  const view = createSentence(parts.sentence);
  const types = createTypes(parts.types, { pick: (name) => run({ do: "type", type: name }), hover: showGuide, back: focusSentence });
  const units = createUnits(parts.units, {
    choose: (unit, choice) => run({ do: "choose", unit, choice }),
    focus: (unit) => run({ do: "focusUnit", unit }),
  });
  const comment = createField({ placeholder: "comment on this sentence, Enter when done", label: "Comment", done: closeComment, change: (text) => run({ do: "comment", text }, true) });
  const note = createField({ placeholder: "why may it be wrong? Enter when done", label: "Note on the flag", done: closeNote });
  const skipping = createSkip({ skip: (reason) => leave(() => session.skip(reason)), close: closeSkip });
  const commentBox = h("label", { class: "panel", hidden: true }, h("span", { class: "word" }, "Comment"), comment);
  const noteBox = h("label", { class: "panel", hidden: true }, h("span", { class: "word warn" }, "Flag"), note);
  parts.say.after(noteBox, commentBox, skipping.root);
  let hovered = null;
  let commenting = false;
  let leaving = false;
  let drag = null;
  let typeKeys = typeKeysOf(data.types);

  const root = h("div", { class: "editor", data: { mode: data.mode } },
    h("div", { class: "bar" }, parts.progress, parts.status), parts.conflict, parts.empty, parts.body, parts.actions, parts.help);
  fillActions();
  parentElement.appendChild(root);

  /** Hand a message to Streamlit once the next sentence is on the screen: its work for it would delay the frame. */
  function afterPaint(message) {
    setTimeout(() => post("outbox", message), 20);
  }

  /** Apply a model action and redraw; `quiet` leaves the focus where it is. */
  function run(action, quiet = false) {
    const moved = session.dispatch(action);
    if (moved) closePanels();
    draw();
    if (session.state?.noting) openNote();
    else if (!quiet) focusSentence();
  }

  function leave(step) {
    step();
    closePanels();
    draw();
    focusSentence();
  }

  function closePanels() {
    skipping.root.hidden = true;
    commenting = false;
    noteBox.hidden = true;
    hovered = null;
  }

  function focusSentence() {
    (session.state ? parts.sentence : parts.empty).focus({ preventScroll: true });
  }

  function openNote() {
    noteBox.hidden = false;
    note.value = "";
    note.focus({ preventScroll: true });
  }

  function closeNote(text) {
    const span = session.state.noting;
    noteBox.hidden = true;
    if (text !== null && span) run({ do: "note", span, text: text.trim() });
    focusSentence();
  }

  function openComment() {
    commenting = true;
    commentBox.hidden = false;
    comment.focus({ preventScroll: true });
  }

  function closeComment() {
    commenting = false;
    draw();
    focusSentence();
  }

  function closeSkip() {
    skipping.root.hidden = true;
    focusSentence();
  }

  function toggleHelp() {
    parts.help.hidden = !parts.help.hidden;
    if (!parts.help.hidden) parts.help.scrollIntoView({ block: "nearest" });
  }

  function showGuide(name) {
    hovered = name;
    drawGuide();
  }

  function editable() {
    return data.mode !== "view";
  }

  function fillActions() {
    const act = (text, key, press, props = {}) => button("", { class: "plain", ...props, press }, text, " ", keycap(key));
    const edits = [
      data.mode !== "adjudicate" && act("No entities", "0", () => run({ do: "none" }), { data: { act: "none" } }),
      act("Comment", ",", openComment),
      act("Skip", ".", () => session.state && skipping.open()),
      act("Undo", "Ctrl Z", () => run({ do: "undo" }), { data: { act: "undo" } }),
      act("Redo", "Ctrl Y", () => run({ do: "redo" }), { data: { act: "redo" } }),
      act("Previous", "Shift Enter", () => leave(session.reopen), { data: { act: "previous" } }),
      data.mode === "annotate" && act("Accept all", "Shift Space", () => run({ do: "acceptAll" }), { data: { act: "all" } }),
    ];
    const help = act("Keys", "?", toggleHelp);
    const submit = act("Submit", "Enter", () => run({ do: "enter" }), { class: "primary" });
    replace(parts.actions, ...(editable() ? edits : []), help, editable() && submit);
    drawHelp(parts.help, data.mode);
  }

  function draw() {
    const { state } = session;
    root.dataset.scheme = isDark(getComputedStyle(root).getPropertyValue("--st-background-color") || "#fff") ? "dark" : "light";
    root.dataset.task = state ? String(state.item.task) : "";
    parts.empty.hidden = Boolean(state);
    parts.body.hidden = !state;
    parts.actions.classList.toggle("idle", !state);
    drawBar();
    drawConflict(parts.conflict, outbox.conflicts()[0], (mine) => leave(() => session.settle(mine)));
    if (!state) {
      setText(parts.empty, session.notice || data.empty || "Nothing to do here right now.");
      return;
    }
    view.draw(state, data.types);
    units.show(state, data.types);
    types.show(data.types, editable());
    types.ring(focusedMark(state)?.type ?? null);
    drawAround(state);
  }

  function drawAround(state) {
    replace(parts.focus, ...focusLine(state, run));
    const note = session.notice || (session.restored ? "Your unsent changes are back." : "");
    setText(parts.say, state.message || (state.work.no_entities ? "Marked as without entities." : note));
    parts.say.classList.toggle("asks", Boolean(state.confirm));
    const changes = changeLines(state, run);
    parts.changes.hidden = !changes.length;
    replace(parts.changes, ...changes);
    const notes = state.item.notes ?? [];
    parts.notes.hidden = !notes.length;
    replace(parts.notes, ...notes.map(({ who, text }) => h("li", { dir: "auto" }, h("b", {}, `${who}: `), text)));
    commentBox.hidden = !(commenting || state.work.comment);
    if (comment.value !== state.work.comment) comment.value = state.work.comment;
    const enable = { none: true, undo: state.past.length, redo: state.future.length, previous: session.previous, all: true };
    for (const node of parts.actions.querySelectorAll("[data-act]")) node.disabled = !enable[node.dataset.act];
    parts.actions.querySelector('[data-act="none"]')?.setAttribute("aria-pressed", String(state.work.no_entities));
    drawGuide();
  }

  function drawGuide() {
    const name = hovered ?? (session.state && focusedMark(session.state)?.type);
    const type = data.types.find((one) => one.name === name);
    replace(parts.guide, type && h("b", {}, type.title), type && `: ${type.guideline ?? ""}`);
    parts.guide.title = type?.guideline ?? "";
  }

  function drawBar() {
    const { done = 0, left = 0 } = data.progress ?? {};
    setText(parts.progress, data.progress ? `${done} done, ${left} left` : "");
    const status = statusOf({ outbox, waited: sender.waited(), online: navigator.onLine });
    root.dataset.status = status;
    setText(parts.status, editable() ? STATUS[status] : "Read only");
  }

  /** Keys that are no model actions. */
  const COMMANDS = {
    filter: () => types.focus(),
    comment: openComment,
    skip: () => skipping.open(),
    help: toggleHelp,
    reopen: () => leave(session.reopen),
    up: (action) => vertical(-1, action),
    down: (action) => vertical(1, action),
    leave: () => {
      leaving = !session.state.jump;
      parts.help.hidden = true;
      run({ do: "escape" });
    },
  };

  function vertical(by, { shift }) {
    const { state } = session;
    const mark = focusedMark(state);
    if (!shift && mark?.kind === "suggestion" && alternatives(state.item, state.work, mark).length) return run({ do: "alternative", by });
    const index = view.lineStep(state.head, by);
    return run(shift ? { do: "extendTo", index } : { do: "to", index });
  }

  function onKey(event) {
    if (event.isComposing || ["Shift", "Control", "Alt", "Meta", "CapsLock", "AltGraph"].includes(event.key)) return;
    effort.key();
    if (!session.state) return;
    const rtl = getComputedStyle(parts.sentence).direction === "rtl";
    const action = actionFor(event, { mode: data.mode, rtl, jump: Boolean(session.state.jump), typeKeys, leaving });
    if (event.key !== "Escape") leaving = false;
    // Plain letters never reach the page: Streamlit reruns on r and clears its cache on c.
    if (action || (!event.ctrlKey && !event.metaKey && !event.altKey && event.key.length === 1)) event.stopPropagation();
    if (!action) return;
    event.preventDefault();
    if (!action.ui) run(action);
    else if (editable() || ["help", "up", "down", "leave"].includes(action.ui)) COMMANDS[action.ui](action);
  }

  function indexOf(target) {
    const node = target?.closest?.("[data-i]") ?? target?.closest?.(".mark")?.querySelector("[data-i]");
    return node ? Number(node.dataset.i) : null;
  }

  function onDown(event) {
    const index = indexOf(event.target);
    if (index === null || event.button > 0 || !session.state) return;
    event.preventDefault();
    drag = index;
    if (event.shiftKey) run({ do: "extendTo", index });
    else run({ do: "to", index });
    const unit = data.mode === "adjudicate" ? unitAt(session.state, index) : -1;
    if (unit >= 0 && !event.shiftKey) run({ do: "focusUnit", unit });
  }

  function onMove(event) {
    effort.touch();
    if (drag === null || !event.buttons) return;
    const index = indexOf(parts.sentence.getRootNode().elementFromPoint(event.clientX, event.clientY));
    if (index !== null && (index !== drag || session.state.explicit)) run({ do: "select", from: drag, to: index });
  }

  const listeners = [
    [parts.sentence, "keydown", onKey],
    [parts.sentence, "pointerdown", onDown],
    [parts.sentence, "dblclick", () => run({ do: "accept" })],
    [root, "pointermove", onMove],
    [root, "pointerdown", effort.touch],
    [root, "keydown", (event) => event.target !== parts.sentence && effort.key()],
    [window, "pointerup", () => (drag = null)],
    [window, "online", () => { sender.now(); drawBar(); }],
    [window, "offline", drawBar],
    [document, "visibilitychange", () => (document.hidden ? effort.pause() : effort.touch())],
  ];
  for (const [target, type, handler] of listeners) target.addEventListener(type, handler);
  const ticker = setInterval(drawBar, 1000);

  draw();
  // Only take the focus when nobody is typing elsewhere on the page.
  if (!["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName)) focusSentence();

  return {
    identity,
    receive: (next) => {
      const before = session.state?.item.task;
      data = next.data;
      post = next.setStateValue;
      typeKeys = typeKeysOf(data.types);
      session.receive(data);
      const mine = parts.empty.getRootNode().activeElement === parts.empty || document.activeElement === document.body;
      draw();
      if (session.state && before !== session.state.item.task && mine) focusSentence();
    },
    destroy: () => {
      clearInterval(ticker);
      sender.stop();
      for (const [target, type, handler] of listeners) target.removeEventListener(type, handler);
      root.remove();
    },
  };
}
