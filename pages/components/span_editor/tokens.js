// Text by code points, and the hints of jump mode. Pure.

/** Split a text into its words and the gaps around them; offsets are code points. */
export function splitText(text, tokens) {
  const points = Array.from(text);
  const cut = (from, to) => points.slice(from, to).join("");
  const words = tokens.map(([start, end]) => cut(start, end));
  const gaps = tokens.map(([start], i) => cut(i ? tokens[i - 1][1] : 0, start));
  gaps.push(cut(tokens.length ? tokens[tokens.length - 1][1] : 0, points.length));
  return { words, gaps };
}

/** The text covered by tokens [start, end), inner white space included. */
export function surfaceOf({ words, gaps }, start, end) {
  let out = words[start] ?? "";
  for (let i = start + 1; i < end; i++) out += gaps[i] + words[i];
  return out;
}

// Home row first: the hints near the start of a sentence are the easiest to type.
const HINTS = Array.from("asdfghjklqwertyuiopzxcvbnm1234567890ASDFGHJKLQWERTYUIOPZXCVBNM");

/** How many pages of one-character hints a sentence needs. */
export function hintPages(words) {
  return Math.max(1, Math.ceil(hintable(words).length / HINTS.length));
}

function hintable(words) {
  const all = words.map((_, i) => i);
  if (all.length <= HINTS.length) return all;
  return all.filter((i) => /[\p{L}\p{N}\p{Extended_Pictographic}]/u.test(words[i]));
}

/** Map from token index to its hint; punctuation gets none when hints run short. */
export function jumpHints(words, page = 0) {
  const window = hintable(words).slice(page * HINTS.length, (page + 1) * HINTS.length);
  return new Map(window.map((index, i) => [index, HINTS[i]]));
}

/** Whether two half-open ranges share a token. */
export function overlaps(a, b) {
  return a.start < b.end && b.start < a.end;
}

export function sameBounds(a, b) {
  return a.start === b.start && a.end === b.end;
}

export function sameSpan(a, b) {
  return sameBounds(a, b) && a.type === b.type;
}

/** The same span, linked to the same resource. */
export function sameLinked(a, b) {
  return sameSpan(a, b) && (a.entity ?? null) === (b.entity ?? null);
}

/** Spans in reading order. */
export function inOrder(spans) {
  return [...spans].sort((a, b) => a.start - b.start || a.end - b.end);
}

/** "1 span", "2 spans". */
export function count(n, word) {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}
