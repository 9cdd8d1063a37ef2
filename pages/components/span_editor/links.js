// Links of a sentence: the pages they lead to, and what may become of them. Pure.
import { overlaps, sameBounds } from "./tokens.js";

const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g; // half a character has no bytes
const RESOURCE = /^https?:\/\/dbpedia\.org\/resource\/(.+)$/;

/** The page title that a link's target means: no fragment, no leading colon, first letter capital. */
export function titleOf(target) {
  const title = target.split("#", 1)[0].replace(/[_\s]+/g, " ").trim().replace(/^:/, "").trim();
  const [first = "", ...rest] = Array.from(title.replace(LONE, "\ufffd"));
  return first.toUpperCase() + rest.join("");
}

/** The page title of a DBpedia resource, null for an address of another place. */
export function titleOfResource(address) {
  const name = RESOURCE.exec(address ?? "")?.[1];
  if (!name) return null;
  try {
    return titleOf(decodeURIComponent(name));
  } catch {
    return titleOf(name); // a percent sign of the title itself
  }
}

/** Where a page can be read, and its resource looked at; made of the title alone. */
export function addressesOf(title) {
  const path = title.replaceAll(" ", "_").split("/").map(encodeURIComponent).join("/");
  if (!path) return [];
  return [
    { name: "Wikipedia", address: `https://en.wikipedia.org/wiki/${path}` },
    { name: "DBpedia", address: `https://dbpedia.org/resource/${path}` },
    { name: "Wikidata", address: `https://www.wikidata.org/wiki/Special:ItemByTitle?site=enwiki&page=${encodeURIComponent(title)}` },
  ];
}

/** The link that covers a token of the range, or null. */
export function linkIn(item, range) {
  return (item.links ?? []).find((link) => overlaps(link, range)) ?? null;
}

/** The first link behind a token, from the start again at the end, that no span has the bounds of; null without one. */
export function nextLink(item, spans, index) {
  const open = (item.links ?? []).filter((link) => !spans.some((span) => sameBounds(span, link)));
  return open.find((link) => link.start > index) ?? open[0] ?? null;
}

/** What a title says of its page's kind: `Northern Rooms (2004 album)` → `album`. */
export function kindIn(target) {
  return /\(([^()]+)\)\s*$/.exec(titleOf(target))?.[1].trim().split(" ").pop() ?? "";
}
