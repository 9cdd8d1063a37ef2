// Mounts the editor: one instance per element, kept from run to run.
import { typeKeysOf } from "./keys.js";
import { createOutbox, createSender } from "./outbox.js";
import { createEffort, createSession } from "./session.js";
import { createSentence } from "./sentence.js";
import { createTypes } from "./types.js";
import { createUnits } from "./units.js";
import { buildParts, drawBar, drawEditor, drawGuide, fillActions } from "./frame.js";
import { createCommands, createFields, listen } from "./input.js";

const instances = new WeakMap();
const TIMERS = { set: (step, ms) => setTimeout(step, ms), clear: (id) => clearTimeout(id), now: () => Date.now() };
const BEAT_EVERY = 10;
const CLOSED = "crossner-outbox-closed";

export default function mount(component) {
  const { data, parentElement } = component;
  if (!data) return undefined;
  const identity = `${data.user}:${data.campaign}:${data.mode}`;
  const instance = instances.get(parentElement);
  if (instance?.identity === identity) instance.receive(component);
  else {
    instance?.destroy();
    instances.set(parentElement, createEditor(component, identity));
  }
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

/** localStorage, or a stand-in that throws on writing where the browser forbids it. */
function localStore() {
  const refuse = () => {
    throw new Error("this browser keeps no local data");
  };
  try {
    return window.localStorage;
  } catch {
    return { length: 0, key: () => null, getItem: () => null, setItem: refuse, removeItem: () => {} };
  }
}

function createEditor({ data, parentElement, setStateValue }, identity) {
  const editor = { identity, data, post: setStateValue, hovered: null, leaving: false, drag: null, typeKeys: typeKeysOf(data.types) };
  editor.parts = buildParts(data.mode);
  editor.outbox = createOutbox({ storage: localStore(), prefix: `crossner:${identity}`, client: newKey(), now: Date.now, newKey });
  // A message goes to Streamlit once the next sentence is on the screen: handling it earlier would delay the frame.
  // It names its author: after a server restart the browser may have another person's cookie.
  const post = (message) => setTimeout(() => editor.post("outbox", { ...message, user: data.user }), 20);
  editor.sender = createSender({ outbox: editor.outbox, timers: TIMERS, post });
  editor.effort = createEffort({ now: () => performance.now() });
  editor.session = createSession({ payload: data, outbox: editor.outbox, sender: editor.sender, effort: editor.effort });
  addBehaviour(editor);
  addViews(editor);
  fillActions(editor);
  parentElement.appendChild(editor.parts.root);
  addLife(editor);
  editor.draw();
  // Only take the focus when nobody is typing elsewhere on the page.
  if (!["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName)) editor.focus();
  return editor;
}

function addBehaviour(editor) {
  const { session, parts } = editor;
  editor.draw = () => drawEditor(editor);
  editor.focus = () => (session.state ? parts.sentence : parts.empty).focus({ preventScroll: true });
  /** Apply a model action and redraw; `quiet` leaves the focus where it is. */
  editor.run = (action, quiet = false) => {
    const left = session.dispatch(action);
    if (left) closePanels(editor);
    editor.draw();
    if (session.state?.noting) editor.fields.note();
    else if (!quiet) editor.focus();
  };
  /** Do something that may bring another sentence. */
  editor.leave = (step) => {
    step();
    closePanels(editor);
    editor.draw();
    editor.focus();
  };
}

function closePanels(editor) {
  editor.fields.close();
  editor.hovered = null;
}

function addViews(editor) {
  const { parts, run } = editor;
  editor.view = createSentence(parts.sentence);
  editor.types = createTypes(parts.types, {
    pick: (name) => run({ do: "type", type: name }),
    back: editor.focus,
    hover: (name) => {
      editor.hovered = name;
      drawGuide(editor);
    },
  });
  editor.units = createUnits(parts.units, {
    choose: (unit, choice) => run({ do: "choose", unit, choice }),
    focus: (unit) => run({ do: "focusUnit", unit }),
  });
  editor.fields = createFields(editor);
  editor.commands = createCommands(editor);
}

function addLife(editor) {
  const { session, parts, outbox, sender } = editor;
  const deaf = listen(editor);
  let beats = 0;
  const adopt = () => session.adopt() && editor.draw();
  // After a server restart Streamlit mounts a new editor before it takes the old one down.
  window.addEventListener(CLOSED, adopt);
  const ticker = setInterval(() => {
    beats += 1;
    if (beats % BEAT_EVERY === 0) {
      outbox.beat();
      adopt();
    }
    if (editor.data.mode !== "view") sender.sign(editor.effort.quiet());
    drawBar(editor);
  }, 1000);
  editor.receive = ({ data, setStateValue }) => {
    const before = session.state?.item.task;
    Object.assign(editor, { data, post: setStateValue, typeKeys: typeKeysOf(data.types) });
    const idle = document.activeElement === document.body || parts.root.getRootNode().activeElement === parts.empty;
    session.receive(data);
    editor.draw();
    if (session.state && before !== session.state.item.task && idle) editor.focus();
  };
  editor.destroy = () => {
    clearInterval(ticker);
    sender.stop();
    window.removeEventListener(CLOSED, adopt);
    outbox.close();
    deaf();
    parts.root.remove();
    window.dispatchEvent(new Event(CLOSED));
  };
}
