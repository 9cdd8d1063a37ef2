// Builders for the tests of the pure modules.
import { openItem, reduce } from "../../../pages/components/span_editor/model.js";

export const WORDS = "In 1994 Mira Solberg left the Copper Lanterns near Bergen .".split(" ");

export function tokensOf(words) {
  let at = 0;
  return words.map((word) => {
    const size = Array.from(word).length;
    at += size + 1;
    return [at - size - 1, at - 1];
  });
}

export function buildItem(extra = {}, words = WORDS) {
  return {
    task: 41, sentence: 1, text: words.join(" "), tokens: tokensOf(words), links: [], suggestions: [], first: null,
    units: null, revision: 0, work: null, notes: [], blind: false, ...extra,
  };
}

export function suggestion(start, end, type, score = 0.5, source = "gazetteer") {
  return { start, end, type, source, score, entity: null };
}

/** How a span of an annotator came about, as the server says it. */
export function made(start, end, type, reasons = [], more = {}) {
  return { start, end, type, by: 1, origin: "accepted", imported: false, from: null, shown: true, own: true, reasons, ...more };
}

export const span = (start, end, type) => ({ start, end, type });

export function run(state, ...actions) {
  return actions.reduce((now, action) => reduce(now, typeof action === "string" ? { do: action } : action), state);
}

export const type = (name) => ({ do: "type", type: name });
export const open = (item, mode = "annotate") => openItem(item, mode);
export const plain = (spans) => spans.map(({ start, end, type: name }) => [start, end, name]);

export function memoryStorage(entries = {}) {
  const map = new Map(Object.entries(entries));
  return {
    get length() {
      return map.size;
    },
    key: (i) => [...map.keys()][i] ?? null,
    getItem: (name) => map.get(name) ?? null,
    setItem: (name, value) => void map.set(name, value),
    removeItem: (name) => void map.delete(name),
  };
}
