// What the node tells by itself: STOMP over one websocket for the whole page.

import { HTTP_PORT, WEBSOCKET_PORT } from "./settings.js";

/** The time before it is tried again, which doubles up to the last one. */
const FIRST_PAUSE_MS = 1000;
const LAST_PAUSE_MS = 10_000;
const PATH = "w/messages/websocket";

/** @typedef {"connecting" | "connected" | "lost"} State */

/** Listeners by what they listen to. */
const listeners = new Map();
const watchers = new Set();
let socket = null;
/** @type {State} */
let state = "connecting";
let failures = 0;

/**
 * Where the websocket may be: at the node's own port if the page comes from its other one, and else where a proxy has
 * it, beside the page. The one is tried after the other, as ports may have been mapped.
 */
function endpoints() {
  const { protocol, hostname, port } = location;
  const beside = new URL(PATH, document.baseURI.replace(/^http/, "ws")).href;
  if (protocol === "https:") return [beside];
  const own = `ws://${hostname}:${WEBSOCKET_PORT}/${PATH}`;
  return Number(port || 80) === HTTP_PORT ? [own] : [beside, own];
}

/** A frame as text. */
function frame(command, headers) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`);
  return `${command}\n${lines.join("")}\n\0`;
}

/** The command, the headers and the body of a frame. */
function parse(text) {
  const end = text.indexOf("\n\n");
  const [command, ...lines] = text.slice(0, end).split("\n");
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]),
  );
  return { command, headers, body: text.slice(end + 2).replace(/\0\s*$/, "") };
}

function change(next) {
  if (next === state) return;
  state = next;
  watchers.forEach((watcher) => watcher(state));
}

/** The identity of a subscription is what is subscribed to. */
const subscribe = (destination) => socket.send(frame("SUBSCRIBE", { id: destination, destination }));

function receive({ data }) {
  const { command, headers, body } = parse(data);
  if (command === "CONNECTED") {
    failures = 0;
    listeners.forEach((_, destination) => subscribe(destination));
    change("connected");
  } else if (command === "MESSAGE") {
    listeners.get(headers.destination)?.forEach((listener) => listener(body));
  } else if (command === "ERROR") {
    socket.close();
  }
}

/** Opens the connection, and again whenever it is lost. */
export function connect() {
  const places = endpoints();
  socket = new WebSocket(places[failures % places.length]);
  socket.onopen = () => socket.send(frame("CONNECT", { "accept-version": "1.2", host: "/" }));
  socket.onmessage = receive;
  socket.onclose = () => {
    change("lost");
    setTimeout(connect, Math.min(FIRST_PAUSE_MS * 2 ** failures, LAST_PAUSE_MS));
    failures += 1;
  };
}

/**
 * Listens to a destination until the signal is given.
 * @param {string} destination
 * @param {(body: string) => void} listener
 * @param {AbortSignal} [signal]
 */
export function listen(destination, listener, signal) {
  const isFirst = !listeners.has(destination);
  const all = listeners.get(destination) ?? new Set();
  listeners.set(destination, all.add(listener));
  if (isFirst && state === "connected") subscribe(destination);
  signal?.addEventListener("abort", () => all.delete(listener));
}

/**
 * Has a function told whether the node can be heard, now and whenever that changes, until the signal is given.
 * @param {(state: State) => void} watcher
 * @param {AbortSignal} [signal]
 */
export function watch(watcher, signal) {
  watchers.add(watcher);
  watcher(state);
  signal?.addEventListener("abort", () => watchers.delete(watcher));
}
