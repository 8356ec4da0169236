// Notifications of the node: STOMP over one websocket for the whole page.

import { HTTP_PORT, WEBSOCKET_PORT } from "./settings.js";

/** First delay before a reconnection, which doubles up to the last one. */
const FIRST_PAUSE_MS = 1000;
const LAST_PAUSE_MS = 10_000;
const PATH = "w/messages/websocket";

/** @typedef {"connecting" | "connected" | "lost"} State */

/** Listeners by destination. */
const listeners = new Map();
const watchers = new Set();
let socket = null;
/** @type {State} */
let state = "connecting";
let failures = 0;

/**
 * Candidate addresses of the websocket: the node's websocket port if the page comes from its HTTP port, otherwise a
 * path beside the page, where a proxy may serve it. They are tried in turn, as ports may be mapped.
 */
function endpoints() {
  const { protocol, hostname, port } = location;
  const beside = new URL(PATH, document.baseURI.replace(/^http/, "ws")).href;
  if (protocol === "https:") return [beside];
  const own = `ws://${hostname}:${WEBSOCKET_PORT}/${PATH}`;
  return Number(port || 80) === HTTP_PORT ? [own] : [beside, own];
}

function frame(command, headers) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`);
  return `${command}\n${lines.join("")}\n\0`;
}

/** Parses a frame into command, headers and body. */
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

/** The id of a subscription is its destination. */
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

/** Connects, and reconnects whenever the connection is lost. */
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
 * Listens to a destination until the signal aborts.
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
 * Calls a function with the connection state, now and on every change, until the signal aborts.
 * @param {(state: State) => void} watcher
 * @param {AbortSignal} [signal]
 */
export function watch(watcher, signal) {
  watchers.add(watcher);
  watcher(state);
  signal?.addEventListener("abort", () => watchers.delete(watcher));
}
