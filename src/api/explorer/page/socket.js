// Notifications of the node by STOMP over a websocket, where the stream of events does not get through.

import { HTTP_PORT, WEBSOCKET_PORT } from "./settings.js";

const PATH = "w/messages/websocket";

/** Listeners by destination. */
const listeners = new Map();
let socket = null;
let isConnected = false;

/**
 * Candidate addresses of the websocket: the node's websocket port if the page comes from its HTTP port, otherwise a
 * path beside the page, where a proxy may serve it. They are tried in turn, as ports may be mapped.
 */
export function endpoints() {
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

/** The id of a subscription is its destination. */
const subscribe = (destination) => socket.send(frame("SUBSCRIBE", { id: destination, destination }));

/**
 * Opens the websocket at an address.
 * @param {string} place
 * @param {() => void} connected
 * @param {() => void} lost
 */
export function openSocket(place, connected, lost) {
  socket = new WebSocket(place);
  socket.onopen = () => socket.send(frame("CONNECT", { "accept-version": "1.2", host: "/" }));
  socket.onmessage = ({ data }) => {
    const { command, headers, body } = parse(data);
    if (command === "CONNECTED") {
      isConnected = true;
      listeners.forEach((_, destination) => subscribe(destination));
      connected();
    } else if (command === "MESSAGE") {
      listeners.get(headers.destination)?.forEach((listener) => listener(body));
    } else if (command === "ERROR") {
      socket.close();
    }
  };
  socket.onclose = () => {
    isConnected = false;
    lost();
  };
}

/**
 * Listens to a destination.
 * @param {string} destination
 * @param {(body: string) => void} listener
 */
export function listen(destination, listener) {
  const isFirst = !listeners.has(destination);
  const all = listeners.get(destination) ?? new Set();
  listeners.set(destination, all.add(listener));
  if (isFirst && isConnected) subscribe(destination);
}
