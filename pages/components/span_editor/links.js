// Links of a sentence: the pages they lead to, and what may become of them. Pure.
import { overlaps, sameBounds } from "./tokens.js";

const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g; // half a character has no bytes
const UNSAFE = /[^A-Za-z0-9._~!$&'()*+,;=:@/\u00a0-\uffff-]/gu; // as the server writes DBpedia's addresses
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

/** What to call a span's entity: a page title, the end of another address, or that there is none. */
export function titleOfEntity(entity) {
  if (!entity) return "not linked";
  if (entity === "NIL") return "no resource (NIL)";
  return titleOfResource(entity) ?? titleOf(entity.replace(/\/+$/, "").split(/[/#]/).pop()) ?? entity;
}

/** The entity that a typed text means: an address, a Wikidata number, NIL, or the DBpedia resource of a page title. */
export function entityFrom(text) {
  if (/^nil$/i.test(text)) return "NIL";
  if (/^q[1-9]\d*$/i.test(text)) return `http://www.wikidata.org/entity/${text.toUpperCase()}`;
  const page = /^https?:\/\/en\.(?:m\.)?wikipedia\.org\/wiki\/([^?#\s]+)/.exec(text)?.[1];
  if (/^https?:\/\//.test(text) && !page) return text.replace(/\s/g, "%20");
  const title = page ? titleOfResource(`http://dbpedia.org/resource/${page}`) : titleOf(text);
  return `http://dbpedia.org/resource/${title.normalize("NFC").replaceAll(" ", "_").replace(UNSAFE, encodeURIComponent)}`;
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
