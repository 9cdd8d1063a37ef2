// Small helpers to make DOM. Data only ever goes in as text, never as markup.

/** Make an element: properties, `class`, `data` and ARIA attributes, children as nodes or text. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [type, handler] of Object.entries(value)) node.addEventListener(type, handler);
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A button that does not take the focus from the sentence. */
export function button(text, { press, ...props } = {}, ...more) {
  const on = { mousedown: (event) => event.preventDefault(), click: press };
  return h("button", { type: "button", ...props, on }, text, ...more);
}

export function keycap(text) {
  return h("kbd", {}, text);
}

/** Show `text` in a node only when it changed, so that screen readers do not repeat it. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function replace(node, ...children) {
  node.replaceChildren(...children.flat().filter(Boolean));
}

/** Whether a CSS colour is dark, from its rgb() or #rrggbb form. */
export function isDark(colour) {
  const text = colour.trim();
  const hex = /^#([0-9a-f]{6})/i.exec(text)?.[1] ?? (/^#([0-9a-f]{3})$/i.exec(text)?.[1] ?? "").replace(/./g, "$&$&");
  const parts = hex ? [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)) : (text.match(/[\d.]+/g) ?? []).slice(0, 3).map(Number);
  if (parts.length < 3) return false;
  return 0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2] < 128;
}
