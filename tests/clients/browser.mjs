// Two pages in a browser: one queries and follows the node with the bundle of nem-sdk, the other uses STOMP over
// sockjs-client, which chooses the websocket. A transfer is announced, and both receive it twice: unconfirmed and
// confirmed.
//
//   npm install
//   node browser.mjs [http://127.0.0.1:7890 [http://127.0.0.1:7778 [alice.key [folder for pictures]]]]
//
// Needs Chromium: in CHROMIUM, or /usr/bin/chromium.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [http = "http://127.0.0.1:7890", websocket = "http://127.0.0.1:7778", keyFile = "alice.key", pictures] =
  process.argv.slice(2);
const privateKey = readFileSync(keyFile, "utf8").match(/^\s*([0-9a-f]{64})\s*$/im)[1];
const { resolve } = createRequire(import.meta.url);
/** Returns a file of a package. */
function packaged(name, file) {
  return readFileSync(resolve(`${name}/package.json`).replace(/package\.json$/, file));
}

/** Maximum seconds until a page has received everything, some blocks long. */
const PATIENCE = 100;
const FILES = {
  "/nem-sdk.js": packaged("nem-sdk", "dist/nem-sdk.js"),
  "/sockjs.js": packaged("sockjs-client", "dist/sockjs.min.js"),
  "/stomp.js": packaged("stompjs", "lib/stomp.min.js"),
};
const page = (title, scripts) => `<!doctype html><meta charset="utf-8"><title>${title}</title>
  <h1>${title}</h1><pre id="log"></pre>${scripts.map((script) => `<script src="${script}"></script>`).join("")}
  <script>window.tell = (line) => { document.getElementById("log").textContent += line + "\\n"; };</script>`;
const PAGES = {
  "/sdk": page("nem-sdk", ["/nem-sdk.js"]),
  "/sockjs": page("sockjs-client", ["/sockjs.js", "/stomp.js"]),
};

/** Returns the response for a path. */
function served(path) {
  const body = FILES[path] ?? PAGES[path];
  const contentType = PAGES[path] ? "text/html" : "text/javascript";
  return { status: body ? 200 : 404, contentType, body: body ?? "" };
}
const server = createServer((request, response) => {
  const { status, contentType, body } = served(request.url);
  response.writeHead(status, { "Content-Type": contentType }).end(body);
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const origin = `http://127.0.0.1:${server.address().port}`;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
/**
 * Opens a page of an origin and logs its errors. Each page has its own browser context, because the pages of one context
 * share six connections to a server.
 */
async function open(origin, path) {
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE * 1000);
  const page = await context.newPage();
  page.on("pageerror", (error) => console.log(`${path}: ${error}`));
  await page.goto(origin + path);
  return page;
}

/** Runs in a page: queries the node and records all messages about the account. */
async function followWithSdk({ http, websocket, privateKey }) {
  const nem = require("nem-sdk").default;
  const { requests, websockets } = nem.com;
  const endpoint = (url) => {
    const [, host, port] = url.match(/^(.*):(\d+)$/);
    return nem.model.objects.create("endpoint")(host, port);
  };
  const network = nem.model.network.data.testnet.id;
  const common = nem.model.objects.create("common")("", privateKey);
  const publicKey = nem.crypto.keyPair.create(privateKey).publicKey.toString();
  const address = nem.model.address.toAddress(publicKey, network);
  const node = endpoint(http);
  const { account } = await requests.account.data(node, address);
  const { height } = await requests.chain.height(node);
  tell(`${address} has ${account.balance} at height ${height}`);

  const heard = { address, height, blocks: [], errors: [], unconfirmed: [], confirmed: [], accounts: 0, recent: 0, owned: 0, names: 0 };
  window.heard = heard;
  const connector = websockets.connector.create(endpoint(websocket), address);
  await connector.connect();
  websockets.subscribe.errors(connector, (told) => heard.errors.push(told));
  websockets.subscribe.chain.height(connector, ({ height }) => heard.blocks.push(height));
  websockets.subscribe.account.data(connector, () => heard.accounts++);
  websockets.subscribe.account.transactions.recent(connector, () => heard.recent++);
  websockets.subscribe.account.mosaics.owned(connector, () => heard.owned++);
  websockets.subscribe.account.namespaces.owned(connector, () => heard.names++);
  const hash = ({ meta }) => (tell(JSON.stringify(meta)), meta.hash?.data ?? meta.data);
  websockets.subscribe.account.transactions.unconfirmed(connector, (pair) => heard.unconfirmed.push(hash(pair)));
  websockets.subscribe.account.transactions.confirmed(connector, (pair) => heard.confirmed.push(hash(pair)));
  websockets.requests.account.data(connector);
  websockets.requests.account.transactions.recent(connector);
  websockets.requests.account.mosaics.owned(connector);
  // The account has no namespaces: there is no message and no error.
  websockets.requests.account.namespaces.owned(connector);
  window.announce = async () => {
    const content = nem.model.objects.create("transferTransaction")(address, 1, "from a browser");
    const entity = nem.model.transactions.prepare("transferTransaction")(common, content, network);
    const answer = await nem.model.transactions.send(common, entity, node);
    tell(`announced: ${answer.message}`);
    return answer;
  };
  return address;
}

/**
 * Runs in a page: opens a session within `timeout` milliseconds. The library would derive a fraction of a second from its
 * first round trip, which is too short on a busy machine.
 */
function followWithSockJs({ websocket, address, timeout }) {
  const session = (window.session = { state: "opening", unconfirmed: [], confirmed: [], height: 0 });
  const socket = new SockJS(`${websocket}/w/messages`, null, { timeout });
  const client = Stomp.over(socket);
  client.debug = null;
  const hears = (kind) => ({ body }) => {
    const { data } = JSON.parse(body).meta.hash;
    session[kind].push(data);
    tell(`${kind}: ${data}`);
  };
  const opened = () => {
    tell((session.state = `open by ${socket.transport}`));
    client.subscribe("/blocks/new", () => session.height++);
    client.subscribe(`/unconfirmed/${address}`, hears("unconfirmed"));
    client.subscribe(`/transactions/${address}`, hears("confirmed"));
    client.send("/w/api/account/subscribe", {}, JSON.stringify({ account: address }));
  };
  client.connect({}, opened, (error) => tell((session.state = `failed: ${error}`)));
}

let failed = 1;
try {
  const sdk = await open(origin, "/sdk");
  const address = await sdk.evaluate(followWithSdk, { http, websocket, privateKey });
  const page = await open(origin, "/sockjs");
  await page.evaluate(followWithSockJs, { websocket, address, timeout: PATIENCE * 1000 });
  await page.waitForFunction(() => session.state !== "opening");
  assert.equal(await page.evaluate(() => session.state), "open by websocket");
  await sdk.waitForFunction(() => heard.accounts && heard.recent && heard.owned);

  const answer = await sdk.evaluate(() => announce());
  assert.equal(answer.message, "SUCCESS");
  const hash = answer.transactionHash.data;
  await sdk.waitForFunction((hash) => heard.unconfirmed.includes(hash), hash);
  await page.waitForFunction((hash) => session.unconfirmed.includes(hash), hash);
  await sdk.waitForFunction((hash) => heard.confirmed.includes(hash), hash);
  await page.waitForFunction((hash) => session.confirmed.includes(hash) && session.height > 0, hash);
  const { errors, blocks } = await sdk.evaluate(() => heard);
  assert.deepEqual(errors, []);
  assert.ok(blocks.length > 0);
  if (pictures) {
    for (const [index, page] of [sdk, page].entries()) await page.screenshot({ path: `${pictures}/${index}.png` });
  }
  console.log(`browser: nem-sdk and sockjs-client saw ${hash} announced and confirmed`);
  failed = 0;
} finally {
  for (const page of failed ? browser.contexts().flatMap((context) => context.pages()) : []) {
    console.log(await page.evaluate(() => document.body.innerText).catch(String));
    console.log(JSON.stringify(await page.evaluate(() => window.session ?? window.heard).catch(String)));
  }
  await browser.close();
  server.close();
}
