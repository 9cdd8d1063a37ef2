// From a key event to an action. Pure: reads only the event's fields.

/** The character a key stands for, whatever the keyboard's script: a Cyrillic or Arabic layout falls back to the key's place. */
export function charOf({ key, code }) {
  if (key.length !== 1 || key.charCodeAt(0) < 128) return key;
  const letter = /^Key([A-Z])$/.exec(code ?? "");
  if (letter) return letter[1].toLowerCase();
  const digit = /^Digit([0-9])$/.exec(code ?? "");
  if (digit) return digit[1];
  return { Semicolon: ";", Slash: "/", Comma: ",", Period: "." }[code] ?? key;
}

const SIGNS = {
  ";": { do: "jump" },
  "/": { ui: "filter" },
  ",": { ui: "comment" },
  ".": { ui: "skip" },
  "?": { ui: "help" },
  "!": { do: "flag" },
  "=": { do: "link" },
  "@": { ui: "entities" },
  "*": { do: "example" },
  ":": { ui: "guidelines" },
  "+": { ui: "wider", by: 1 },
  "-": { ui: "wider", by: -1 },
  "0": { do: "none" },
};
const CHOICES = { 1: "first", 2: "second", 0: "none" };

function withCommand(char, shift) {
  if (char === "z") return { do: shift ? "redo" : "undo" };
  if (char === "y") return { do: "redo" };
  if (char === "a") return { do: "acceptAll" };
  if (char === "enter") return { do: "identical" };
  return null;
}

function arrows(key, shift, rtl) {
  const forward = rtl ? -1 : 1;
  const by = { ArrowRight: forward, ArrowLeft: -forward }[key];
  return by ? { do: shift ? "extend" : "move", by } : null;
}

/**
 * The action for a key in the sentence, or null when the key is not ours.
 * `context`: {mode, rtl, jump: bool, typeKeys: {key: type name}, leaving: bool}.
 */
export function actionFor(event, context) {
  const char = charOf(event);
  const lower = char.toLowerCase();
  if (event.ctrlKey || event.metaKey) return event.altKey ? null : withCommand(lower, event.shiftKey);
  if (event.altKey) return null;
  const named = {
    Tab: context.leaving ? null : { do: "tab", by: event.shiftKey ? -1 : 1 },
    Home: { do: "end", last: false, extend: event.shiftKey },
    End: { do: "end", last: true, extend: event.shiftKey },
    " ": event.shiftKey ? { do: "acceptAll" } : { do: "accept" },
    Backspace: { do: "remove" },
    Delete: { do: "remove" },
    Enter: event.shiftKey ? { ui: "reopen" } : { do: "enter" },
    Escape: { do: "escape", ui: "leave" },
    ArrowUp: { ui: "up", shift: event.shiftKey },
    ArrowDown: { ui: "down", shift: event.shiftKey },
  };
  if (context.jump && char.length === 1 && char !== " " && char !== ";") return { do: "hint", char };
  if (Object.hasOwn(named, event.key)) return named[event.key];
  const arrow = arrows(event.key, event.shiftKey, context.rtl);
  if (arrow) return arrow;
  if (context.mode === "adjudicate" && char === "!") return { ui: "ask" };
  if (context.mode === "adjudicate" && Object.hasOwn(CHOICES, char)) return { do: "choose", choice: CHOICES[char] };
  if (Object.hasOwn(SIGNS, char)) return SIGNS[char];
  const type = context.typeKeys[lower];
  if (context.mode === "check" && char === "1" && !type) return { do: "accept" };
  return type ? { do: "type", type } : null;
}

const REPEATED = new Set(["move", "extend", "end", "tab", "undo", "redo"]);

/**
 * Whether the action repeats while its key is held down. What decides or leaves is done once per press: a held key would
 * answer its own questions and go through sentences that nobody has seen.
 */
export function mayRepeat(action) {
  return REPEATED.has(action.do) || action.ui === "up" || action.ui === "down";
}

/** Type name by key; a key that a command uses belongs to the command, as 1 and 2 do when adjudicating. */
export function typeKeysOf(types, mode = "annotate") {
  const taken = mode === "adjudicate" ? { ...SIGNS, ...CHOICES } : SIGNS;
  const keyed = types.filter((type) => type.key && !Object.hasOwn(taken, type.key));
  return Object.fromEntries(keyed.map((type) => [type.key.toLowerCase(), type.name]));
}

/** The rows of the key help for a mode; `linking` is whether spans are linked, `floor` is the least probability that *Accept all* takes. */
export function helpRows(mode, floor = 0, linking = false) {
  const from = floor > 0 ? ` of ${Math.round(100 * floor)} % or more; the others stay open` : "";
  const rows = [
    ["← →", "move by token", "all"],
    ["Shift + ← →", "extend the selection", "all"],
    ["Home  End", "first, last token (with Shift: select up to there)", "all"],
    ["Tab  Shift + Tab", mode === "adjudicate" ? "next, previous undecided unit" : "next, previous suggestion, hint or span", "all"],
    ["a type's key", "give the selection, span or suggestion that type", "edit"],
    ["Space  1", "confirm the ringed span and go to the next; without one, the next span", "check"],
    ["Space", "accept the suggestion (or hint) and go to the next", "annotate"],
    ["Shift + Space", `accept all suggestions${from}, no hints`, "annotate"],
    ["Ctrl + Enter", "mark the same words here and propose them in other sentences; again: take it back", "annotate"],
    ["↓ ↑", mode === "annotate" ? "another suggestion for the same tokens; otherwise the line below, above" : "the line below, above", "all"],
    ["1  2  0", "first annotator, second annotator, no entity", "adjudicate"],
    ["Backspace", "remove the span or suggestion", "edit"],
    ["; hint hint", "select from one hinted token to another, then a type", "edit"],
    ["=", "make the link under the cursor a span; elsewhere to the next link", "edit"],
    ["@  digit", "link the span to a resource; 0: to none; @ again: to the first", "linking"],
    ["/", "find a type by name", "edit"],
    ["!", "flag annotator 1's span, with a note", "check"],
    ["!", "ask the annotators: both, or 1 or 2 of them", "adjudicate"],
    ["0", "no entities in this sentence", "mark"],
    [",", "comment", "edit"],
    [".", "skip, with a reason", "edit"],
    ["*", "show this decision to all as an example", "adjudicate"],
    [":", "guidelines: types with examples, and what experts decided on hard cases", "all"],
    ["+  −", "more, less of the text around the sentence", "all"],
    ["Ctrl + Z  Ctrl + Y", "undo, redo", "edit"],
    ["Enter", "submit and go to the next sentence", "edit"],
    ["Shift + Enter", "back to the sentence submitted last, then to the one before it", "edit"],
    ["Esc", "close what is open; Tab then leaves the editor", "all"],
  ];
  const edits = linking ? ["edit", "linking"] : ["edit"];
  const wanted = { view: ["all"], annotate: ["all", ...edits, "mark", "annotate"], check: ["all", ...edits, "mark", "check"], adjudicate: ["all", ...edits, "adjudicate"] };
  return rows.filter(([, , where]) => wanted[mode].includes(where)).map(([keys, text]) => ({ keys, text }));
}
