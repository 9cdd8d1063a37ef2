// The expert's question to the annotators of a sentence: a line below it, opened and answered by keys.
import { button, h, keycap, replace } from "./dom.js";
import { createField } from "./panels.js";
import { exchange } from "./wire.js";

const ASKED = { 0: ["both", "both annotators"], 1: ["first", "annotator 1"], 2: ["second", "annotator 2"] };

/** The panel: digits choose whom to ask while nothing is typed, Enter sends, Esc closes. */
export function createAsk(editor) {
  let asks = "both";
  let task = null;
  let sending = false;
  const problem = h("span", { class: "warn", role: "alert" });
  const close = () => {
    root.hidden = true;
    editor.focus();
  };
  const input = createField({
    placeholder: "What made you take this as …? Enter asks", label: "Question to the annotators",
    done: (text) => (text === null ? close() : text.trim() && send(text.trim())),
  });
  const choices = Object.entries(ASKED).map(([key, [name, title]]) =>
    button("", { class: "plain", data: { asks: name }, press: () => choose(name) }, keycap(key), title));
  const root = h("div", { class: "panel", hidden: true, role: "group", "aria-label": "Ask the annotators" }, h("span", { class: "word" }, "Ask"), ...choices, input, problem);

  function choose(name) {
    asks = name;
    for (const node of choices) node.setAttribute("aria-pressed", String(node.dataset.asks === name));
    input.focus({ preventScroll: true });
  }

  input.addEventListener("keydown", (event) => {
    if (!Object.hasOwn(ASKED, event.key) || input.value) return;
    event.preventDefault();
    choose(ASKED[event.key][0]);
  });

  async function send(text) {
    if (sending) return; // a second Enter while the first is on its way asks nothing twice
    sending = true;
    const { url, token, user } = editor.data;
    const request = { fetch: (...parts) => window.fetch(...parts), url: `${url}/questions`, token };
    const { answer, trouble } = await exchange(request, { user, task, text, asks });
    sending = false;
    if (!editor.live) return;
    if (trouble) {
      replace(problem, `Not asked: ${trouble.words || "no connection"}. Enter tries again.`);
      return;
    }
    root.hidden = true;
    const whom = Object.values(ASKED).find(([name]) => name === asks)[1];
    editor.take(answer);
    editor.leave(() => editor.session.setAside(task, `Asked ${whom}: the sentence comes back with the answer.`));
    editor.follow();
  }

  return {
    root,
    open: () => {
      ({ task } = editor.session.state.item);
      root.hidden = false;
      input.value = "";
      replace(problem);
      choose("both");
    },
  };
}
