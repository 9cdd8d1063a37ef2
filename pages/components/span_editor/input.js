// Keys and pointer of the editor, and the fields that take the focus from the sentence for a moment.
import { actionFor, mayRepeat } from "./keys.js";
import { alternatives, isProposed } from "./marks.js";
import { focusedMark } from "./model.js";
import { createField, createSkip } from "./panels.js";
import { createAsk } from "./asking.js";
import { createEntities } from "./entities.js";
import { unitAt } from "./sentence.js";
import { drawBar } from "./frame.js";
import { h } from "./dom.js";

const MODIFIERS = ["Shift", "Control", "Alt", "Meta", "CapsLock", "AltGraph", "Dead", "Process"];
const HASTE = 300; // ms: a second Enter this soon, with no other key between, is a slip of the first
const READ_ONLY_COMMANDS = ["help", "up", "down", "leave", "wider", "guidelines"];

/** Comment, note on a flag, and reason to skip. */
export function createFields(editor) {
  const { parts, run, session } = editor;
  let commenting = false;
  const comment = createField({
    placeholder: "comment on this sentence, Enter when done", label: "Comment",
    change: (text) => run({ do: "comment", text }, true),
    done: () => {
      commenting = false;
      editor.draw();
      editor.focus();
    },
  });
  const note = createField({
    placeholder: "why may it be wrong? Enter when done", label: "Note on the flag",
    done: (text) => {
      const span = session.state?.noting;
      noteBox.hidden = true;
      if (text?.trim() && span) run({ do: "note", span, text: text.trim() });
      editor.focus();
    },
  });
  const commentBox = h("label", { class: "panel", hidden: true }, h("span", { class: "word" }, "Comment"), comment);
  const noteBox = h("label", { class: "panel", hidden: true }, h("span", { class: "word warn" }, "Flag"), note);
  const skipping = createSkip({
    skip: (reason) => editor.leave(() => session.skip(reason)),
    close: () => {
      skipping.root.hidden = true;
      editor.focus();
    },
  });
  const asking = createAsk(editor);
  const linking = createEntities(editor, editor.loadEntities);
  parts.panels.append(noteBox, commentBox, skipping.root, asking.root, linking.root);
  return {
    comment: () => {
      commenting = true;
      commentBox.hidden = false;
      comment.focus({ preventScroll: true });
    },
    note: () => {
      noteBox.hidden = false;
      note.value = "";
      note.focus({ preventScroll: true });
    },
    skip: () => skipping.open(),
    ask: () => asking.open(),
    entities: () => linking.open(),
    close: () => {
      commenting = false;
      noteBox.hidden = skipping.root.hidden = asking.root.hidden = true;
      linking.close();
    },
    show: (state) => {
      commentBox.hidden = !(commenting || state.work.comment);
      if (comment.value !== state.work.comment) comment.value = state.work.comment;
      comment.readOnly = state.mode === "view";
    },
  };
}

/** Commands that are not actions of the model, by name. */
export function createCommands(editor) {
  const { parts, session, run } = editor;
  const vertical = (by, { shift }) => {
    const { state } = session;
    const mark = focusedMark(state);
    const swap = !shift && isProposed(mark) && alternatives(state.item, state.work, mark).length;
    if (swap) return run({ do: "alternative", by });
    const index = editor.view.lineStep(state.head, by);
    return run(shift ? { do: "extendTo", index } : { do: "to", index });
  };
  return {
    filter: () => editor.types.focus(),
    comment: () => session.state && editor.fields.comment(),
    skip: () => session.state && editor.fields.skip(),
    ask: () => session.state && editor.fields.ask(),
    entities: () => session.state?.rules.linking && editor.fields.entities(),
    help: () => {
      parts.help.hidden = !parts.help.hidden;
      if (!parts.help.hidden) parts.help.scrollIntoView({ block: "nearest" });
    },
    submit: (event) => slips(editor, event.timeStamp) || run({ do: "enter" }),
    reopen: () => editor.leave(() => session.reopen()),
    guidelines: () => editor.guidelines.open(),
    wider: ({ by }) => editor.widen(by),
    up: (action) => vertical(-1, action),
    down: (action) => vertical(1, action),
    leave: () => {
      editor.leaving = !session.state.jump && !session.state.confirm;
      parts.help.hidden = true;
      run({ do: "escape" });
    },
  };
}

/** Whether an Enter follows the last one too soon to be meant; it never answers a question nobody has read. */
function slips(editor, time) {
  if (time - (editor.entered ?? -HASTE) < HASTE) return true; // counted from the last one that did something
  editor.entered = time;
  return false;
}

function onKey(editor, event) {
  const { session, data, parts, effort } = editor;
  if (event.isComposing || MODIFIERS.includes(event.key)) return;
  effort.key();
  if (!session.state) return;
  const rtl = getComputedStyle(parts.sentence).direction === "rtl";
  const { typeKeys, leaving } = editor;
  const action = actionFor(event, { mode: data.mode, rtl, jump: Boolean(session.state.jump), typeKeys, leaving });
  if (event.key !== "Escape") editor.leaving = false;
  // Plain letters never reach the page: Streamlit reruns on r and clears its cache on c.
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey && event.key.length === 1;
  if (action || plain) event.stopPropagation();
  if (!action) return;
  event.preventDefault();
  if (event.repeat && !mayRepeat(action)) return;
  if (action.do !== "enter") editor.entered = undefined;
  else if (slips(editor, event.timeStamp)) return;
  if (!action.ui) editor.run(action);
  else if (data.mode !== "view" || READ_ONLY_COMMANDS.includes(action.ui)) editor.commands[action.ui](action);
}

function indexOf(target) {
  const node = target?.closest?.("[data-i]") ?? target?.closest?.(".mark")?.querySelector("[data-i]");
  return node ? Number(node.dataset.i) : null;
}

function onDown(editor, event) {
  const index = indexOf(event.target);
  if (index === null || event.button > 0 || !editor.session.state) return;
  event.preventDefault();
  editor.drag = index;
  editor.run(event.shiftKey ? { do: "extendTo", index } : { do: "to", index });
  const unit = editor.data.mode === "adjudicate" ? unitAt(editor.session.state, index) : -1;
  if (unit >= 0 && !event.shiftKey) editor.run({ do: "focusUnit", unit });
}

function onMove(editor, event) {
  editor.effort.touch();
  const { drag, session, parts } = editor;
  if (drag === null || !event.buttons || !session.state) return;
  const index = indexOf(parts.sentence.getRootNode().elementFromPoint(event.clientX, event.clientY));
  if (index !== null && (index !== drag || session.state.explicit)) editor.run({ do: "select", from: drag, to: index });
}

/** Listen; returns a function that stops listening. */
export function listen(editor) {
  const { parts, effort, outbox, sender } = editor;
  const listeners = [
    [parts.sentence, "keydown", (event) => onKey(editor, event)],
    [parts.sentence, "pointerdown", (event) => onDown(editor, event)],
    [parts.sentence, "dblclick", () => editor.run({ do: "accept" })],
    [parts.root, "pointermove", (event) => onMove(editor, event)],
    [parts.root, "pointerdown", effort.touch],
    [parts.root, "keydown", (event) => event.target !== parts.sentence && effort.key()],
    [window, "pointerup", () => (editor.drag = null)],
    [window, "online", () => { sender.now(); drawBar(editor); }],
    [window, "offline", () => drawBar(editor)],
    [window, "pagehide", outbox.close],
    [window, "beforeunload", (event) => outbox.holds() && !outbox.keepsCopy() && event.preventDefault()],
    [document, "visibilitychange", () => (document.hidden ? effort.pause() : effort.touch())],
  ];
  for (const [target, type, handler] of listeners) target.addEventListener(type, handler);
  return () => listeners.forEach(([target, type, handler]) => target.removeEventListener(type, handler));
}
