// The entity types to choose from: parents group their children, each shows its key, `/` filters as you type.
import { button, h, keycap, replace } from "./dom.js";

/** Types in display order as groups: a parent with its children, or a type alone. Pure. */
export function groupTypes(types) {
  const names = new Set(types.map((type) => type.name));
  const groups = [];
  const byHead = new Map();
  for (const type of types) {
    const head = type.parent ?? type.name;
    if (!byHead.has(head)) {
      byHead.set(head, { head, title: null, types: [] });
      groups.push(byHead.get(head));
    }
    const group = byHead.get(head);
    if (type.name === head) group.types.unshift(type);
    else group.types.push(type);
  }
  for (const group of groups) if (!names.has(group.head)) group.title = group.head;
  return groups;
}

/** Types whose title, name, parent or key matches; those that begin with the text come first. Pure. */
export function filterTypes(types, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return types;
  const begins = (type) => [type.title, type.name, ...type.title.split(/\s+/)].some((one) => one.toLowerCase().startsWith(wanted));
  const hits = types.filter((type) => [type.title, type.name, type.parent ?? ""].some((one) => one.toLowerCase().includes(wanted)));
  return [...hits.filter(begins), ...hits.filter((type) => !begins(type))];
}

/** The palette on `root`; calls `pick(name)`, `hover(name|null)` and `back()` (focus to the sentence). */
export function createTypes(root, { pick, hover, back }) {
  const input = h("input", { type: "text", class: "filter", placeholder: "find a type", "aria-label": "Find an entity type", autocomplete: "off", spellcheck: "false" });
  const field = h("span", { class: "group find" }, keycap("/"), input);
  const list = h("div", { class: "groups", role: "group", "aria-label": "Entity types" });
  root.append(list, field);
  let types = [];
  let chosen = 0;

  function chip(type) {
    const node = button("", { class: `chip t${type.color}`, tabindex: "-1", title: type.guideline, data: { type: type.name }, press: () => pick(type.name) });
    if (type.key) node.append(keycap(type.key));
    node.append(h("span", {}, type.title));
    node.addEventListener("mouseenter", () => hover(type.name));
    node.addEventListener("mouseleave", () => hover(null));
    return node;
  }

  function draw() {
    const hits = filterTypes(types, input.value);
    chosen = Math.max(0, Math.min(chosen, hits.length - 1));
    const searching = input.getRootNode().activeElement === input && input.value;
    const groups = groupTypes(types).map((group) => {
      const chips = group.types.map((type) => {
        const node = chip(type);
        node.hidden = !hits.includes(type);
        node.classList.toggle("chosen", Boolean(searching) && hits[chosen] === type);
        return node;
      });
      const family = group.types.length > 1 || group.title;
      const node = h("span", { class: `group${family ? " family" : ""}` }, group.title && h("span", { class: "parent" }, group.title), ...chips);
      node.hidden = chips.every((one) => one.hidden);
      return node;
    });
    const none = hits.length ? null : h("span", { class: "quiet" }, "No type matches.");
    replace(list, ...groups, none);
    if (searching) hover(hits[chosen]?.name ?? null);
  }

  function leave() {
    input.value = "";
    chosen = 0;
    draw();
    hover(null);
    back();
  }

  input.addEventListener("input", () => {
    chosen = 0;
    draw();
  });
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.isComposing) return;
    const hits = filterTypes(types, input.value);
    if (event.key === "Enter" && hits[chosen]) {
      event.preventDefault();
      const { name } = hits[chosen];
      leave();
      pick(name);
    } else if (event.key === "Escape") {
      event.preventDefault();
      leave();
    } else if (["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + hits.length) % Math.max(1, hits.length);
      draw();
    }
  });

  return {
    show: (next, editable) => {
      root.hidden = !editable;
      if (JSON.stringify(next) === JSON.stringify(types)) return;
      types = next;
      draw();
    },
    /** Ring the type of the focused mark. */
    ring: (name) => {
      for (const node of list.querySelectorAll(".chip")) node.classList.toggle("current", node.dataset.type === name);
    },
    focus: () => input.focus({ preventScroll: true }),
    /** Ask for a type, with those that fit `text` first in view; all if none does. */
    find: (text) => {
      input.value = filterTypes(types, text).length ? text : "";
      chosen = 0;
      input.focus({ preventScroll: true });
      input.select();
      draw();
    },
  };
}
