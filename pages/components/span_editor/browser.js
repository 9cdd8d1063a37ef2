// What parts that save by themselves take from the browser: clock, keys, storage, and where to sign in.

export const TIMERS = { set: (step, ms) => setTimeout(step, ms), clear: (id) => clearTimeout(id), now: () => Date.now() };
const RELOADED = "crossner-reloaded";

export function newKey() {
  // randomUUID needs a secure context, which a plain address in the local network is not.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** localStorage, or a stand-in that throws on writing where the browser forbids it. */
export function localStore() {
  const refuse = () => {
    throw new Error("this browser keeps no local data");
  };
  try {
    return window.localStorage;
  } catch {
    return { length: 0, key: () => null, getItem: () => null, setItem: refuse, removeItem: () => {} };
  }
}

/** What this tab remembers under a name: {load, keep}; without storage nothing outlasts a reload. */
export function tabMemory(name) {
  return {
    load: () => {
      try {
        return JSON.parse(window.sessionStorage.getItem(name));
      } catch {
        return null;
      }
    },
    keep: (value) => {
      try {
        if (value) window.sessionStorage.setItem(name, JSON.stringify(value));
        else window.sessionStorage.removeItem(name);
      } catch {
        return; // full or forbidden
      }
    },
  };
}

/** The page is not this session's any more: open it anew, unless that would lose work or did not help a moment ago. */
export function reload(outbox) {
  try {
    const before = Number(window.sessionStorage.getItem(RELOADED));
    if (!outbox.keepsCopy() || Date.now() - before < 30000) return;
    window.sessionStorage.setItem(RELOADED, String(Date.now()));
  } catch {
    return; // the status line says what to do
  }
  window.location.reload();
}

export function signIn() {
  const { pathname, search } = window.location;
  window.location.assign(`/auth/login?next=${encodeURIComponent(pathname + search)}`);
}
