// Follows a node with sockjs-client and stompjs: by websocket, the only transport that a node offers, also when the client
// may choose. If a program is given, it also starts its own node, kills it, restarts it, and reconnects.
//
//   npm install
//   node sockjs.mjs [http://127.0.0.1:7778/w/messages [NISD FOLDER]]
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import SockJS from "sockjs-client";
import Stomp from "stompjs";
import { freePort } from "./free_port.mjs";

const [url = "http://127.0.0.1:7778/w/messages", program, folder] = process.argv.slice(2);

/** Transports that the client may choose from; without a list, all of them. */
const CHOICES = [["websocket"], undefined];
/** Maximum seconds until a session is open, a block arrives, a heartbeat arrives. */
const OPEN_LIMIT = 20;
const BLOCK_LIMIT = 120;
const HEARTBEAT_LIMIT = 35;

/** Fails if a promise takes too long. */
async function within(seconds, what, promise) {
  const cancel = new AbortController();
  const limit = sleep(seconds * 1000, undefined, cancel).then(() => Promise.reject(new Error(`too slow: ${what}`)));
  limit.catch(() => {});
  return Promise.race([promise, limit]).finally(() => cancel.abort());
}

/** Opens a session; returns the socket, the client, and a promise of the close event. */
async function connect(address, transports) {
  const socket = new SockJS(address, null, { transports });
  const client = Stomp.over(socket);
  client.debug = null;
  // stompjs replaces `onclose`, but not the listener.
  const closed = new Promise((resolve) => socket.addEventListener("close", resolve));
  const connected = new Promise((resolve, reject) => client.connect({}, resolve, reject));
  const frame = await within(OPEN_LIMIT, "a session opens", connected);
  assert.equal(socket.transport, "websocket");
  assert.equal(frame.headers.version, "1.1");
  return { socket, client, closed };
}

/** Returns the next message of a topic. */
function message(client, topic) {
  return new Promise((resolve) => {
    const subscription = client.subscribe(topic, (frame) => {
      subscription.unsubscribe();
      resolve(JSON.parse(frame.body));
    });
  });
}

/** Tests a session: it receives a block, an answer, a heartbeat after silence, and another block. */
async function follow(transports) {
  const { socket, client, closed } = await connect(url, transports);
  const { height } = await within(BLOCK_LIMIT, "a block", message(client, "/blocks/new"));
  const answer = message(client, "/errors");
  client.send("/w/api/account/get", {}, "{}");
  const error = await within(OPEN_LIMIT, "an answer", answer);
  assert.equal(error.status, 400);
  const heartbeat = new Promise((resolve) => socket.addEventListener("heartbeat", resolve));
  await within(HEARTBEAT_LIMIT, "a heartbeat", heartbeat);
  const next = await within(BLOCK_LIMIT, "the next block", message(client, "/blocks/new"));
  assert.ok(next.height > height);
  socket.close();
  await within(OPEN_LIMIT, "a session closes", closed);
  console.log(`sockjs.mjs: received blocks ${height} and ${next.height}, and a heartbeat`);
}

/** Starts a node and waits until it listens. */
async function start(ports) {
  const arguments_ = ["run", "--data", folder, "--bind", "127.0.0.1"];
  const node = spawn(program, [...arguments_, "--http-port", ports[0], "--websocket-port", ports[1]]);
  const ended = once(node, "exit");
  const isThere = async () => fetch(`http://127.0.0.1:${ports[1]}/w/messages`).then(({ ok }) => ok, () => false);
  await within(60, "the node listens", (async () => {
    while (!(await isThere())) await sleep(200);
  })());
  return { node, ended };
}

/** Tests that sessions close when their node is killed, and that clients reconnect after a restart. */
async function restart() {
  const ports = [await freePort(), await freePort()].map(String);
  const address = `http://127.0.0.1:${ports[1]}/w/messages`;
  let { node, ended } = await start(ports);
  try {
    const sessions = await Promise.all(CHOICES.map((transports) => connect(address, transports)));
    node.kill("SIGKILL");
    await ended;
    const closes = sessions.map(({ closed }) => within(OPEN_LIMIT, "a session ends with its node", closed));
    for (const { wasClean } of await Promise.all(closes)) assert.equal(wasClean, false);
    ({ node, ended } = await start(ports));
    for (const transports of CHOICES) {
      const { socket, closed } = await connect(address, transports);
      socket.close();
      await closed;
    }
    console.log("sockjs.mjs: reconnected to a node that was killed and restarted");
  } finally {
    node.kill("SIGTERM");
    await ended;
  }
}

try {
  await Promise.all([...CHOICES.map(follow), ...(program ? [restart()] : [])]);
} catch (error) {
  console.error("sockjs.mjs:", error);
  process.exitCode = 1;
}
// Sessions that were not closed would keep the process alive.
process.exit();
