// Mounts label review by keys: one instance per element, kept from run to run.
import { TIMERS, localStore, newKey, reload, signIn, tabMemory } from "../span_editor/browser.js";
import { createOutbox, createSender, statusOf, statusText } from "../span_editor/outbox.js";
import { createWire, exchange } from "../span_editor/wire.js";
import { button, h, isDark, replace } from "../span_editor/dom.js";
import { createReview } from "./review.js";
import { buildDoubt, drawDoubt } from "./doubt.js";

const instances = new WeakMap();
const BEAT_EVERY = 10;
const CALM = 1500; // ms after the last answer: then the page draws what else shows decisions
const FIELDS = "input, textarea, select, [contenteditable=true], [role=combobox], [role=listbox], [role=grid], canvas";

export default function mount(component) {
  const { data, parentElement, setStateValue } = component;
  if (!data) return undefined;
  const identity = `${data.user}:${data.campaign}:review-${data.queue}`;
  const instance = instances.get(parentElement);
  if (instance?.identity === identity) instance.renew(data);
  else {
    instance?.destroy();
    instances.set(parentElement, createPart({ data, parentElement, setStateValue }, identity));
  }
  return () => {
    instances.get(parentElement)?.destroy();
    instances.delete(parentElement);
  };
}

function createPart({ data, parentElement, setStateValue }, identity) {
  const part = { identity, data, live: true, trouble: null, active: Date.now(), settled: 0, reported: 0 };
  part.outbox = createOutbox({ storage: localStore(), prefix: `crossner:${identity}`, client: newKey(), now: Date.now, newKey });
  part.post = wireOf(part);
  part.sender = createSender({ outbox: part.outbox, timers: TIMERS, post: part.post });
  part.review = createReview({ data, outbox: part.outbox, sender: part.sender, memory: tabMemory(`crossner-review:${identity}`) });
  const act = (step) => (event) => perform(part, step, event.timeStamp);
  part.view = buildDoubt({
    keep: act((time) => part.review.decide("keep", time)),
    second: act((time) => part.review.decide(secondOf(part.review), time)),
    reopen: act((time) => part.review.decide("reopen", time)),
    later: act((time) => part.review.later(time)),
    undo: act(() => part.review.undo()),
  });
  part.style = h("style", {}, STYLE); // the bundle defines it: the stylesheet as text
  parentElement.append(part.style, part.view.root);
  addLife(part, setStateValue);
  draw(part);
  part.sender.now(); // what an earlier tab left behind
  return part;
}

/** What key 2 does: leave a repeated sentence out, else change the gold. */
function secondOf({ item }) {
  return item?.can.includes("leave_out") ? "leave_out" : "change";
}

function wireOf(part) {
  const send = (message) => exchange({ fetch: (...request) => window.fetch(...request), url: part.data.url, token: part.data.token }, message);
  const wire = createWire({
    send,
    answered: (answer) => part.live && part.take(answer),
    failed: (trouble) => part.live && part.fail(trouble),
    again: () => part.sender.now(),
  });
  // A message goes out once the next doubt is on the screen: sending it earlier would delay the frame.
  return (message) => setTimeout(() => part.live && wire({ ...message, user: part.data.user, ...part.review.state() }), 20);
}

function perform(part, step, time) {
  part.active = Date.now();
  if (!step(time)) return;
  draw(part);
  if (part.review.hungry()) part.fetch();
}

function addLife(part, setStateValue) {
  const { review, outbox, sender, view } = part;
  let beats = 0;
  part.fetch = () => outbox.pending() || part.post({ client: outbox.client, events: [], ask: true });
  part.take = (answer) => {
    part.trouble = null;
    part.settled += review.receive(answer);
    draw(part);
    if (review.hungry() && !answer.progress) part.fetch();
    calm();
  };
  part.fail = (trouble) => {
    part.trouble = trouble;
    if (trouble.kind === "reload") reload(outbox);
    drawBar(part);
  };
  part.renew = (data) => {
    part.data = data;
    draw(part);
    part.fetch();
  };
  /** Once nothing is on its way, let the page draw what else shows decisions. */
  function calm() {
    clearTimeout(part.calm);
    part.calm = setTimeout(() => {
      if (!part.live || outbox.pending() || part.settled === part.reported) return;
      part.reported = part.settled;
      setStateValue("settled", part.settled);
    }, CALM);
  }
  const ticker = setInterval(() => {
    beats += 1;
    if (beats % BEAT_EVERY === 0) {
      outbox.beat();
      if (outbox.adopt()) sender.now();
    }
    if (!document.hidden) sender.ask(Date.now() - part.active);
    drawBar(part);
  }, 1000);
  const listeners = [
    [window, "keydown", (event) => onKey(part, event), true],
    [window, "online", () => sender.now()],
    [window, "offline", () => drawBar(part)],
    [window, "pagehide", outbox.close],
    [window, "beforeunload", (event) => outbox.holds() && !outbox.keepsCopy() && event.preventDefault()],
    [view.root, "pointermove", () => (part.active = Date.now())],
  ];
  for (const [target, type, handler, capture] of listeners) target.addEventListener(type, handler, Boolean(capture));
  part.destroy = () => {
    part.live = false;
    clearInterval(ticker);
    clearTimeout(part.calm);
    sender.stop();
    for (const [target, type, handler, capture] of listeners) target.removeEventListener(type, handler, Boolean(capture));
    outbox.close();
    view.root.remove();
    part.style.remove();
  };
}

/** Keys act anywhere on the page but in fields and tables; a key held down acts once. */
function onKey(part, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.composedPath().some((node) => node.matches?.(FIELDS))) return;
  const { review } = part;
  const step = {
    1: (time) => review.decide("keep", time),
    2: (time) => review.decide(secondOf(review), time),
    3: (time) => review.decide("reopen", time),
    4: (time) => review.later(time),
    0: () => review.undo(),
    Escape: () => review.dismiss(),
  }[event.key];
  if (!step) return;
  if (event.key !== "Escape") event.preventDefault();
  if (!event.repeat) perform(part, step, event.timeStamp);
}

function draw(part) {
  const { root } = part.view;
  root.dataset.scheme = isDark(getComputedStyle(root).getPropertyValue("--st-background-color") || "#fff") ? "dark" : "light";
  drawDoubt(part.view, part.review, part.data.types);
  drawBar(part);
}

/** The state of saving, as the span editor shows it. */
function drawBar(part) {
  const { view, outbox, sender, trouble } = part;
  const status = statusOf({ outbox, waited: sender.waited(), online: navigator.onLine, trouble });
  const pending = outbox.pending();
  view.root.dataset.status = status;
  view.root.dataset.pending = String(pending);
  const text = statusText(status, { words: trouble?.words, pending: pending > 0 });
  if (view.status.dataset.shown === text) return;
  view.status.dataset.shown = text;
  view.status.setAttribute("aria-live", ["offline", "lost", "barred", "signed-out"].includes(status) ? "assertive" : "off");
  const again = status === "barred" && button("Reload the page", { class: "small", press: () => window.location.reload() });
  const enter = status === "signed-out" && button("Sign in", { class: "small strong", press: signIn });
  replace(view.status, document.createTextNode(text), again, enter);
}
