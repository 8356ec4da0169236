// Follows a node and an account with the usual STOMP library, and prints the messages. It ends when every channel has
// delivered a message; it fails if that takes too long.
//
//   npm install
//   node stomp.mjs ADDRESS [ws://127.0.0.1:7778/w/messages/websocket [SECONDS]]
import { Client } from "@stomp/stompjs";
import { WebSocket } from "ws";

const [address, url = "ws://127.0.0.1:7778/w/messages/websocket", seconds = "60"] = process.argv.slice(2);
if (!address) throw new Error("usage: node stomp.mjs ADDRESS [URL [SECONDS]]");

/** Summaries of the messages of each channel. */
const channels = {
  "/blocks/new": ({ height }) => `height ${height}`,
  "/blocks": ({ height, transactions }) => `height ${height}, ${transactions.length} transactions`,
  [`/unconfirmed/${address}`]: ({ meta, transaction }) => `type ${transaction.type}, hash ${meta.hash.data}`,
  [`/transactions/${address}`]: ({ meta, transaction }) =>
    `type ${transaction.type}, hash ${meta.hash.data}, height ${meta.height}`,
};
const silent = new Set(Object.keys(channels));

const client = new Client({
  // The library has no websocket of its own outside browsers.
  webSocketFactory: () => new WebSocket(url, ["v12.stomp", "v11.stomp", "v10.stomp"]),
  reconnectDelay: 0,
  onConnect: (frame) => {
    console.log("stomp.mjs: connected", JSON.stringify(frame.headers));
    client.publish({ destination: "/w/api/account/subscribe", body: JSON.stringify({ account: address }) });
    for (const channel of silent) client.subscribe(channel, (message) => told(channel, JSON.parse(message.body)));
  },
  onStompError: (frame) => end(`error: ${frame.headers.message}`),
  onWebSocketError: (error) => end(`websocket: ${error.message}`),
});

function told(channel, body) {
  console.log(`stomp.mjs: ${channel} ${channels[channel](body)}`);
  silent.delete(channel);
  if (silent.size === 0) end();
}

/** Disconnects; fails if there is a reason. */
async function end(reason) {
  if (reason) {
    console.error(`stomp.mjs: ${reason}`);
    process.exitCode = 1;
  }
  clearTimeout(timer);
  await client.deactivate();
}

const timer = setTimeout(() => end(`no message on ${[...silent].join(", ")}`), Number(seconds) * 1000);
client.activate();
