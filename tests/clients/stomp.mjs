// Follows a node with the usual STOMP library and prints what it is told.
//
//   npm install
//   node stomp.mjs [ws://127.0.0.1:7778/w/messages/websocket [ADDRESS [SECONDS]]]
import { Client } from "@stomp/stompjs";
import { WebSocket } from "ws";

const [
  url = "ws://127.0.0.1:7778/w/messages/websocket",
  // Starts multisig transactions in the chain that is compiled into nisd.
  address = "TCTNP6TE54OAF66MT4K6AFCANMJTPZTYF2JNCPE4",
  seconds = "20",
] = process.argv.slice(2);

const client = new Client({
  // The library has no websocket of its own outside browsers.
  webSocketFactory: () => new WebSocket(url, ["v12.stomp", "v11.stomp", "v10.stomp"]),
  reconnectDelay: 0,
  onConnect: (frame) => {
    console.log("connected:", JSON.stringify(frame.headers));
    client.subscribe("/blocks/new", (message) => {
      console.log("/blocks/new:", message.body.trim(), JSON.stringify(message.headers));
    });
    client.subscribe("/blocks", (message) => {
      const block = JSON.parse(message.body);
      console.log(`/blocks: height ${block.height}, ${block.transactions.length} transactions`);
    });
    client.publish({ destination: "/w/api/account/subscribe", body: JSON.stringify({ account: address }) });
    client.subscribe(`/transactions/${address}`, (message) => {
      const { meta, transaction } = JSON.parse(message.body);
      console.log(`/transactions: type ${transaction.type}, meta ${JSON.stringify(meta)}`);
    });
  },
  onStompError: (frame) => console.error("error:", frame.headers.message),
  onWebSocketError: (error) => console.error("websocket:", error.message),
  onWebSocketClose: (event) => console.log(`closed: code ${event.code} ${event.reason}`),
});

client.activate();
setTimeout(async () => {
  await client.deactivate();
  console.log("deactivated");
}, Number(seconds) * 1000);
