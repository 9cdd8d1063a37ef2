// Mounts the editor: one instance per element, kept from run to run.
import { TIMERS, localStore, newKey, reload, tabMemory } from "./browser.js";
import { typeKeysOf } from "./keys.js";
import { createOutbox, createSender, othersWork } from "./outbox.js";
import { completed, createEffort, createSession, progressAfter } from "./session.js";
import { createWire, exchange, fetched } from "./wire.js";
import { createSentence } from "./sentence.js";
import { createElsewhere } from "./elsewhere.js";
import { createTypes } from "./types.js";
import { createUnits } from "./units.js";
import { createGuidelines } from "./guidelines.js";
import { createAround, createContexts, createRecent, keepReach, keptReach, widened } from "./context.js";
import { buildParts, drawBar, drawEditor, drawGuide, fillActions } from "./frame.js";
import { createCommands, createFields, listen } from "./input.js";
import { focusedMark } from "./model.js";
import { h } from "./dom.js";

const instances = new WeakMap();
const BEAT_EVERY = 10;
const NOTHING = { items: [], types: [], progress: null, acks: {}, rejections: [] }; // until the store answers again
const CLOSED = "crossner-outbox-closed";
const OTHERS =
  "Somebody else left unsaved changes in this browser. They are neither shown nor sent under your name; they are sent when that person signs in here again.";

export default function mount(component) {
  const { data, parentElement, setStateValue } = component;
  if (!data) return undefined;
  const identity = `${data.user}:${data.campaign}:${data.mode}`;
  const instance = instances.get(parentElement);
  if (instance?.identity === identity) instance.receive(data);
  else {
    instance?.destroy();
    instances.set(parentElement, createEditor({ data: { ...NOTHING, ...data }, parentElement, setStateValue }, identity));
  }
  return () => {
    instances.get(parentElement)?.destroy();
    instances.delete(parentElement);
  };
}

function createEditor({ data, parentElement, setStateValue }, identity) {
  const storage = localStore();
  const editor = { identity, data, live: true, trouble: null, hovered: null, leaving: false, drag: null, typeKeys: typeKeysOf(data.types, data.mode) };
  editor.parts = buildParts(data.mode);
  editor.outbox = createOutbox({ storage, prefix: `crossner:${identity}`, client: newKey(), now: Date.now, newKey });
  editor.effort = createEffort({ now: () => performance.now() });
  editor.elsewhere = createElsewhere({ timers: TIMERS, nudge: () => editor.sender.nudge() });
  editor.sender = createSender({ outbox: editor.outbox, timers: TIMERS, post: wireOf(editor) });
  editor.session = createSession({ payload: data, outbox: editor.outbox, sender: editor.sender, effort: editor.effort, memory: tabMemory(`crossner-recent:${identity}`) });
  if (othersWork(storage, data.user)) editor.session.notice = OTHERS;
  editor.follow = followed(editor, setStateValue);
  editor.reach = keptReach(storage);
  editor.contexts = createContexts({ load: (tasks, each) => contextsOf(editor, tasks, each), drawn: () => editor.live && editor.draw(), timers: TIMERS });
  addBehaviour(editor);
  addViews(editor);
  fillActions(editor);
  editor.style = h("style", {}, STYLE); // the bundle defines it: the stylesheet as text
  parentElement.append(editor.style, editor.parts.root);
  addLife(editor);
  editor.draw();
  // Only take the focus when nobody is typing elsewhere on the page.
  if (!["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName)) editor.focus();
  return editor;
}

/** The post to the server; its answers go to the session. */
function wireOf(editor) {
  const post = (message) => exchange({ fetch: (...request) => window.fetch(...request), url: editor.data.url, token: editor.data.token }, message);
  const send = async (message) => {
    const whole = editor.elsewhere.carried(message);
    const { answer, trouble } = await post(whole);
    return { answer: answer && { ...answer, look: whole.look }, trouble };
  };
  // A box goes on to the next editor when this one is taken down: from then on this one must not number its events.
  const answered = (answer) => editor.live && editor.take(answer);
  const failed = (trouble) => editor.live && editor.fail(trouble);
  const wire = createWire({ send, answered, failed, again: () => editor.sender.now() });
  // A message goes out once the next sentence is on the screen: handling it earlier would delay the frame.
  // It names its author: by then the browser may have another person's cookie.
  return (message) =>
    setTimeout(() => editor.live && wire({ ...message, ...stateOf(editor) }), 20);
}

/** The contexts of tasks, by task; null if they could not be fetched. */
async function contextsOf(editor, tasks, each) {
  const answer = await beside(editor, `context?tasks=${tasks.join(",")}&each=${each}`);
  return answer?.contexts ?? null;
}

function beside({ data }, what) {
  return fetched({ fetch: (...request) => window.fetch(...request), url: `${data.url}/${what}` });
}

function titlesOf({ types }) {
  return Object.fromEntries(types.map((type) => [type.name, type.title]));
}

/** What each message says beside its events: whose it is, since when nobody did anything, what is here already. */
function stateOf({ data, effort }) {
  return { user: data.user, quiet: Math.round(effort.quiet()), known: data.items.map((item) => item.task) };
}

/** Tell the page which sentence is open, where it draws something about it; that runs its script. */
function followed(editor, setStateValue) {
  let known = editor.session.state?.item.task ?? null;
  return () => {
    const task = editor.session.state?.item.task ?? null;
    if (!editor.data.follow || task === known) return;
    known = task;
    setStateValue("task", task);
  };
}

function addBehaviour(editor) {
  const { session, parts } = editor;
  editor.draw = () => drawEditor(editor);
  editor.focus = () => (session.state ? parts.sentence : parts.empty).focus({ preventScroll: true });
  /** Apply a model action and redraw; `quiet` leaves the focus where it is. */
  editor.run = (action, quiet = false) => {
    if (action.ui) return editor.commands[action.ui](action);
    const left = session.dispatch(action);
    if (left) closePanels(editor);
    editor.draw();
    if (session.state?.noting) editor.fields.note();
    else if (typeof session.state?.choosing === "string") editor.types.find(session.state.choosing);
    else if (!quiet) editor.focus();
  };
  /** Show more or less of the text around the sentence. */
  editor.widen = (by) => {
    editor.reach = widened(editor.reach, by);
    keepReach(localStore(), editor.reach);
    editor.draw();
    editor.focus();
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
  const { parts, run, session } = editor;
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
  editor.around = createAround(parts, editor.widen);
  editor.recent = createRecent(parts.recent, { reopen: (place) => editor.leave(() => session.reopen(place)), titles: () => titlesOf(editor.data) });
  editor.guidelines = createGuidelines(parts.guidelines, {
    load: (version) => beside(editor, `guidelines?version=${encodeURIComponent(version)}`),
    back: editor.focus,
    about: () => ({ types: editor.data.types, sentence: session.state?.item.sentence ?? null, first: session.state && focusedMark(session.state)?.type }),
  });
  editor.loadEntities = ({ start, end, type }) => beside(editor, `entities?${new URLSearchParams({ task: session.state.item.task, start, end, type })}`);
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
    if (editor.data.mode !== "view" && !document.hidden) sender.ask(editor.effort.quiet());
    drawBar(editor);
  }, 1000);
  /** Take what the page or the server sent; returns the events it acknowledges. */
  const show = (data) => {
    const before = session.state?.item.task;
    const idle = document.activeElement === document.body || parts.root.getRootNode().activeElement === parts.empty;
    Object.assign(editor, { data, typeKeys: typeKeysOf(data.types, data.mode) });
    const acked = session.receive(data);
    editor.elsewhere.take(data.occurrences, data.look, acked);
    if (acked.length && data.progress && !data.counted) editor.data = { ...data, progress: progressAfter(data.progress, acked) };
    editor.draw();
    if (session.state && before !== session.state.item.task && idle) editor.focus();
  };
  editor.receive = (data) => show({ ...editor.data, occurrences: undefined, look: undefined, acks: {}, rejections: [], ...data });
  editor.take = (answer) => {
    editor.trouble = null;
    show({ ...editor.data, occurrences: undefined, look: undefined, ...answer, items: completed(answer.items, editor.data.items), counted: Boolean(answer.progress) });
    editor.follow();
  };
  editor.fail = (trouble) => {
    editor.trouble = trouble;
    if (trouble.kind === "reload") reload(outbox);
    drawBar(editor);
  };
  editor.destroy = () => {
    editor.live = false;
    clearInterval(ticker);
    sender.stop();
    editor.contexts.stop();
    window.removeEventListener(CLOSED, adopt);
    outbox.close();
    editor.elsewhere.stop();
    deaf();
    parts.root.remove();
    editor.style.remove();
    window.dispatchEvent(new Event(CLOSED));
  };
}
