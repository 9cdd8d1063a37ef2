// The panel that offers what a span may name: candidates by digits, or what one types.
import { focusedMark } from "./model.js";
import { entityFrom, titleOfEntity } from "./links.js";
import { surfaceOf } from "./tokens.js";
import { createField } from "./panels.js";
import { button, h, keycap, replace } from "./dom.js";

const NIL = "NIL";

/** What a key means while nothing is typed: the entity it takes, null for *unlink*, undefined for no command. Pure. */
export function takenBy(key, offered) {
  if (key === "0") return NIL;
  if (key === "Backspace") return null;
  if (key === "@" || key === "Enter") return offered[0]?.address;
  return /^[1-9]$/.test(key) ? offered[Number(key) - 1]?.address : undefined;
}

/** The panel; `load(span)` gets the candidates of a span of the open sentence, null if that failed. */
export function createEntities(editor, load) {
  let wanted = null; // the span that is asked about
  let offered = [];
  let note = "";
  const input = createField({
    placeholder: "or a page title, an address, a Q number", label: "Resource",
    done: (text) => (text === null ? close() : text.trim() && take(entityFrom(text.trim()))),
  });
  const word = h("span", { class: "word" });
  const list = h("div", { class: "offered" });
  const root = h("div", { class: "panel entities", hidden: true, role: "group", "aria-label": "Link to a resource" }, word, list, input);

  input.addEventListener("keydown", (event) => {
    if (input.value || event.isComposing) return;
    const entity = takenBy(event.key, offered);
    if (entity === undefined) return;
    event.preventDefault();
    take(entity);
  }, true);

  function close() {
    root.hidden = true;
    wanted = null;
    editor.focus();
  }

  function take(entity) {
    editor.run({ do: "entity", entity }, true);
    const { state } = editor.session;
    const next = focusedMark(state);
    if (next?.kind === "span" && !next.entity) ask(next);
    else close();
  }

  async function ask(span) {
    wanted = span;
    offered = [];
    note = "Looking …";
    input.value = "";
    draw();
    input.focus({ preventScroll: true });
    const answer = await load(span);
    if (wanted !== span) return;
    offered = answer?.candidates ?? [];
    note = answer ? (offered.length ? "" : "Nothing is known by this name.") : "The candidates could not be fetched; Esc, then @ tries again.";
    draw();
  }

  function draw() {
    const { state } = editor.session;
    root.hidden = false;
    replace(word, "Link ", h("b", { dir: "auto" }, surfaceOf(state.split, wanted.start, wanted.end)), " to");
    const rows = offered.map((one, place) => row(String(place + 1), one.title, [one.classes.slice(0, 2).join(", "), one.why].filter(Boolean).join("; "), one.address));
    replace(list, note && h("span", { class: "quiet" }, note), ...rows, row("0", titleOfEntity(NIL), "", NIL), wanted.entity && row("⌫", "not linked", "", null));
  }

  function row(key, title, about, entity) {
    const shown = [keycap(key), h("span", { dir: "auto" }, title), about && h("span", { class: "quiet", dir: "auto" }, about)];
    return button("", { class: "plain candidate", tabindex: "-1", "aria-pressed": String(wanted.entity === entity && entity !== null), press: () => take(entity) }, ...shown);
  }

  return {
    root,
    /** Ask about the span in focus, else go to the next that is not linked. */
    open: () => {
      if (focusedMark(editor.session.state)?.kind !== "span") editor.run({ do: "toUnlinked" }, true);
      const mark = focusedMark(editor.session.state);
      if (mark?.kind === "span") ask(mark);
      else editor.focus();
    },
    close: () => {
      root.hidden = true;
      wanted = null;
    },
  };
}
