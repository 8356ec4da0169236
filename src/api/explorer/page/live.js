// News of the node: one stream of events for the whole page, or the websocket where the stream does not get through.

import { parseExactly } from "./node.js";
import { endpoints, openSocket } from "./socket.js";

/** First delay before a reconnection, which doubles up to the last one. */
const FIRST_PAUSE_MS = 1000;
const LAST_PAUSE_MS = 10_000;
/** Time until the first event, after which the stream does not get through. */
const PATIENCE_MS = 10_000;
/** A hidden page keeps its stream for this time: browsers open few connections to a node for all pages together. */
const HIDDEN_MS = 10_000;
const KINDS = ["synchronising", "rollback", "block", "transaction", "undone", "unconfirmed", "left"];

/** @typedef {"connecting" | "connected" | "lost"} State */
/** @typedef {{height: number, networkHeight: number, behind: number, status: string}} Sync */

/**
 * What the shown content wants to be told besides blocks.
 * @typedef {object} Wish
 * @property {string} [address] payments of this account, also unconfirmed ones
 * @property {boolean} [pool] all unconfirmed transactions
 * @property {() => Promise<number | null>} [first] the height from which blocks are told; null: from now on
 */

/** Listeners by kind of event; `opened` is told at the start of each stream. */
const listeners = new Map();
const watchers = new Set();
/** @type {Wish} */
let wish = {};
/** @type {EventSource | null} */
let source = null;
/** The id of the last event; null if the next stream begins with what comes. */
let place = null;
/** Whether a stream has told something. */
let hasTold = false;
/** The way to the node that has worked: a function that connects. */
let fit = null;
/** @type {State} */
let state = "connecting";
/** @type {Sync | null} */
let sync = null;
let failures = 0;
let retry = null,
  patience = null,
  hiding = null;

function change(next, nextSync = sync) {
  if (next === state && nextSync === sync) return;
  [state, sync] = [next, nextSync];
  watchers.forEach((watcher) => watcher(state, sync));
}

function connected(way) {
  failures = 0;
  fit = way;
  change("connected");
}

/** Tries again later: by the same way if it has worked, otherwise by the next one. */
function lost() {
  change("lost", null);
  clearTimeout(retry);
  retry = setTimeout(connect, Math.min(FIRST_PAUSE_MS * 2 ** failures, LAST_PAUSE_MS));
  failures += 1;
}

const tell = (kind, data, about) => listeners.get(kind)?.forEach((listener) => listener(data, about));

function query(first) {
  const { address, pool } = wish;
  const tellsPool = pool || address;
  const kinds = ["block", ...(address ? ["transaction"] : []), ...(tellsPool ? ["unconfirmed", "left"] : [])];
  return new URLSearchParams({
    kinds,
    confirmations: tellsPool ? 0 : 1,
    ...(address && { address }),
    ...(first !== null ? { from: first } : place !== null && { after: place }),
  });
}

function closeStream() {
  clearTimeout(patience);
  source?.close();
  source = null;
}

/** Opens the stream, after the last known event if nothing earlier is wanted. */
async function openStream() {
  closeStream();
  const own = wish;
  let first;
  try {
    first = (await own.first?.(place === null)) ?? null;
  } catch {
    if (own === wish) lost();
    return;
  }
  // Other content is shown meanwhile, or none.
  if (own !== wish || source || document.hidden) return;
  const isGap = place === null && hasTold;
  const opened = new EventSource(new URL(`events?${query(first)}`, document.baseURI));
  source = opened;
  let isFirst = true;
  const fail = () => {
    if (source !== opened) return;
    // The node may not know the id.
    if (isFirst && opened.readyState === EventSource.CLOSED) place = null;
    closeStream();
    lost();
  };
  patience = setTimeout(fail, PATIENCE_MS);
  opened.onerror = fail;
  const hear = ({ type, data, lastEventId }) => {
    if (source !== opened) return;
    place = lastEventId;
    hasTold = true;
    const told = parseExactly(data);
    if (isFirst) {
      isFirst = false;
      clearTimeout(patience);
      tell("opened", told, { isGap, first, pool: own.pool });
      connected(openStream);
    }
    if (type === "synchronising") change("connected", told);
    tell(type, told);
  };
  KINDS.forEach((kind) => opened.addEventListener(kind, hear));
}

function connect() {
  const sockets = () => endpoints().map((at) => () => openSocket(at, () => connected(fit ?? way), lost));
  const ways = fit ? [fit] : [openStream, ...sockets()];
  const way = ways[failures % ways.length];
  way();
}

/** Closes the stream of a page that stays hidden, and goes on when it is shown again. */
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (!isStreaming()) return;
  if (document.hidden) hiding = setTimeout(closeStream, HIDDEN_MS);
  else if (source === null) restart();
});

/** Returns whether the stream is the way to the node, as far as known. */
export const isStreaming = () => fit === null || fit === openStream;

/** Opens the stream anew. */
export function restart() {
  if (!isStreaming()) return;
  clearTimeout(retry);
  openStream();
}

/**
 * Chooses what the stream tells from now on. The first call opens it.
 * @param {Wish} next
 */
export function want(next) {
  wish = next;
  if (state !== "lost") restart();
}

/**
 * Listens to a kind of events until the signal aborts.
 * @param {string} kind
 * @param {(data: any, about?: {isGap: boolean, first: number | null, pool?: boolean}) => void} listener
 * @param {AbortSignal} [signal]
 */
export function hear(kind, listener, signal) {
  const all = listeners.get(kind) ?? new Set();
  listeners.set(kind, all.add(listener));
  signal?.addEventListener("abort", () => all.delete(listener));
}

/**
 * Calls a function with the connection state and the state of the node, now and on every change.
 * @param {(state: State, sync: Sync | null) => void} watcher
 */
export function watch(watcher) {
  watchers.add(watcher);
  watcher(state, sync);
}
