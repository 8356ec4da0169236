// Tests that the explorer page is live by the stream of events: on a node of its own that gets a payment and then a longer
// branch of another node, and before scripted events. Takes screenshots, and fails if anything is wrong.
//
//   node stream.mjs NISD FOLDER PICTURES
//
// Needs Chromium: in CHROMIUM, or /usr/bin/chromium.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createWriteStream, readFileSync, rmSync } from "node:fs";
import { createServer, request as forward } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const [nisd, folder, pictures] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const run = promisify(execFile);
const PATIENCE_MS = 90_000;
const DESKTOP = { viewport: { width: 1280, height: 900 }, colorScheme: "light" };
const PHONE = { viewport: { width: 390, height: 844 }, colorScheme: "dark", hasTouch: true, isMobile: true };

const [alice, bob] = ["alice", "bob"];
const keyFile = (name) => join(folder, "own", `${name}.key`);
const keyOf = (name) => readFileSync(keyFile(name), "utf8").match(/^\s*([0-9a-f]{64})\s*$/im)[1];

/** Waits until a condition holds, and returns its value. */
async function until(what, condition) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `too slow: ${what}`);
    await sleep(200);
  }
}

const nodes = [];
process.on("SIGTERM", () => process.exit(1));
process.on("exit", () => nodes.forEach((node) => node.kill()));

/** Starts a node on ports that the system chooses; returns its process and the address of its interface. */
async function start(name, options) {
  const node = spawn(nisd, ["run", "--bind", "127.0.0.1", "--http-port", "0", "--websocket-port", "0", ...options]);
  const log = createWriteStream(join(folder, `${name}.log`), { flags: "a" });
  let text = "";
  for (const output of [node.stdout, node.stderr]) {
    output.pipe(log, { end: false });
    output.on("data", (data) => {
      text += data;
    });
  }
  nodes.push(node);
  const http = await until(`${name} listens`, () => {
    assert.equal(node.exitCode, null, `${name} has ended: ${text}`);
    return text.match(/HTTP on ([0-9.:]+)/)?.[1];
  });
  return { node, http: `http://${http}`, data: options[options.indexOf("--data") + 1] };
}

async function stop({ node }) {
  const ended = new Promise((done) => node.on("exit", done));
  node.kill();
  await ended;
}

const heightOf = async ({ http }) => (await (await fetch(`${http}/chain/height`)).json()).height;

/** Returns the secret of a node. */
const secretOf = ({ data }) => readFileSync(join(data, "local-cookie"), "utf8").trim();

/** Lets a node begin or end harvesting with the account that harvests the private network. */
async function harvest(node, path) {
  const body = JSON.stringify({ value: keyOf("harvester") });
  const response = await fetch(`${node.http}/account/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${secretOf(node)}` },
    body,
  });
  assert.equal(response.status, 200, await response.text());
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

/** Opens a page of the explorer, after a script if there is one; records its errors, and what it requests. */
async function open(http, path, look = DESKTOP, script = null) {
  const context = await browser.newContext(look);
  if (script) await context.addInitScript(script);
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const errors = [],
    requests = [],
    sockets = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    // Browsers log the error response for a hash that no confirmed transaction has.
    const isUnknownHash = message.location().url.includes("/transaction/get?");
    if (message.type() === "error" && !isUnknownHash) errors.push(message.text());
  });
  page.on("request", (request) => requests.push(new URL(request.url()).pathname + new URL(request.url()).search));
  page.on("websocket", (socket) => sockets.push(socket.url()));
  await page.goto(`${http}/explorer#/${path}`);
  await page.getByText("Live", { exact: true }).waitFor();
  return { page, errors, requests, sockets, close: () => context.close() };
}

async function check({ page }, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(violations.map(({ id, nodes: [{ html }] }) => `${id}: ${html}`), [], what);
  const [needed, there] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(needed <= there, `${what}: ${needed} pixels wide, but the window has ${there}`);
  await page.screenshot({ path: join(pictures, `${what}.png`), fullPage: true });
}

const row = (page, table, hash) => page.getByRole("table", { name: table }).locator(`tbody tr:has(a[href$="${hash}"])`);
const WAITING = "Unconfirmed transactions of the account";
const CONFIRMED = "Transactions of the account, newest first";
const LOST = "Undone and dropped transactions of the account";

/**
 * A payment is shown while it is unconfirmed, when it is confirmed, when its block is replaced by the longer branch of
 * another node, and when it is confirmed again, without a reload or a poll.
 */
async function checkPayment() {
  const own = await start("own", ["--data", join(folder, "own"), "--block-time", "10"]);
  const [settings, copy] = [join(folder, "join"), join(folder, "other")];
  await run(nisd, ["devnet", "export-config", "--data", join(folder, "own"), "--output", settings]);
  // The other node knows no peer at first: it harvests its own branch from the nemesis block on.
  rmSync(join(settings, "peers-config_devnet.json"));
  const options = ["--config", join(settings, "config-user.properties"), "--data", copy];
  options.push("--set", "nem.host=127.0.0.1", "--set", "nis.ipDetectionMode=Disabled");
  let other = await start("other", options);
  await harvest(other, "unlock");

  const address = (await run(nisd, ["address", "--network", "testnet", keyFile(bob)])).stdout.match(/\bT[A-Z2-7]{39}\b/)[0];
  const looks = [DESKTOP, PHONE];
  const homes = await Promise.all(looks.map((look) => open(own.http, "", look)));
  const accounts = await Promise.all(looks.map((look) => open(own.http, `account/${address}`, look)));
  // No block is harvested until everybody has seen the payment.
  await harvest(own, "lock");
  const sent = ["send", "--from-key-file", keyFile(alice), "--to", address, "--amount", "12.5", "--node", own.http];
  const { stdout, stderr } = await run(nisd, sent);
  const hash = `${stdout}${stderr}`.match(/hash:? +([0-9a-f]{64})/)[1];
  const transaction = await open(own.http, `transaction/${hash}`);
  const all = [...homes, ...accounts, transaction];
  for (const { page } of homes) await row(page, /^Unconfirmed transactions/, hash).waitFor();
  for (const { page } of accounts) await row(page, WAITING, hash).waitFor();
  await transaction.page.getByText("unconfirmed", { exact: true }).waitFor();

  await harvest(own, "unlock");
  for (const { page } of accounts) await row(page, CONFIRMED, hash).waitFor();
  await transaction.page.getByText("confirmed", { exact: true }).waitFor();
  for (const { page } of accounts) assert.equal(await row(page, WAITING, hash).count(), 0);
  for (const { page } of homes) await row(page, /^Unconfirmed transactions/, hash).waitFor({ state: "detached" });

  await harvest(own, "lock");
  await until("the other branch is longer", async () => (await heightOf(other)) > (await heightOf(own)));
  await stop(other);
  other = await start("other", [...options, "--peer", new URL(own.http).host]);
  for (const { page } of homes) {
    await page.getByText(/^\d+\sblocks? w(as|ere) replaced at height/).waitFor();
    assert.ok((await page.locator("del").count()) > 0, "the replaced blocks leave visibly");
  }
  for (const { page } of accounts) await row(page, LOST, hash).getByText(/^undone in block \d+, unconfirmed again$/).waitFor();
  for (const { page } of accounts) assert.equal(await row(page, CONFIRMED, hash).count(), 0);
  for (const { page } of accounts) await row(page, WAITING, hash).waitFor();
  await transaction.page.getByText("unconfirmed", { exact: true }).waitFor();
  for (const [index, name] of ["light", "phone-dark"].entries()) {
    await check(homes[index], `reorg-home-${name}`);
    await check(accounts[index], `reorg-account-${name}`);
  }
  for (const { page } of homes) await page.locator("del").first().waitFor({ state: "detached" });

  await harvest(other, "unlock");
  for (const { page } of accounts) {
    await row(page, LOST, hash).getByText(/confirmed again in/).waitFor();
    await row(page, CONFIRMED, hash).waitFor();
  }
  await transaction.page.getByText("confirmed", { exact: true }).waitFor();

  // At most what is requested at first: unconfirmed transactions twice, for their hashes too.
  const polled = { "/transactions/unconfirmed": 2, "/chain/last-block": 0, "/account/unconfirmedTransactions": 1 };
  for (const { errors, requests, sockets, page } of all) {
    assert.deepEqual([errors, sockets], [[], []]);
    assert.equal(requests.filter((path) => path.startsWith("/events?")).length, 1, `${page.url()}: one stream`);
    for (const [path, most] of Object.entries(polled)) {
      const times = requests.filter((one) => one.split("?")[0] === path).length;
      assert.ok(times <= most, `${page.url()}: ${path} is requested ${times} times`);
    }
  }
  // A page that moves on closes its stream.
  const [{ page, requests }] = homes;
  for (const [place, name] of [[`account/${address}`, "Account"], ["blocks", "Blocks"], ["", "Overview"]]) {
    await page.evaluate((path) => {
      location.hash = `#/${path}`;
    }, place);
    await page.getByRole("heading", { level: 1, name }).waitFor();
    await page.waitForFunction(() => !document.querySelector("[aria-busy]"));
  }
  const streams = () => requests.filter((path) => path.startsWith("/events?"));
  await until("each page has had its stream", () => streams().length === 4);
  assert.deepEqual(streams().map((path) => /[?&](from|after)=/.exec(path)?.[1]), ["from", "after", "after", "after"]);
  for (const { close } of all) await close();
  console.log(`explorer: a payment was unconfirmed, confirmed, undone and confirmed again: ${hash}`);
  return { own, address };
}

/** Answers `/events` by a script, and everything else by the node. */
async function scripted(node, events) {
  const streams = new Set();
  const server = createServer((request, response) => {
    if (request.url.startsWith("/events?")) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      streams.add(response);
      response.write(events());
      return;
    }
    const { hostname, port } = new URL(node.http);
    const { method, url: path, headers } = request;
    const passed = forward({ hostname, port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    request.pipe(passed);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => {
    streams.forEach((one) => one.destroy());
    server.close();
  };
  return { http: `http://127.0.0.1:${server.address().port}`, tell: (text) => streams.forEach((one) => one.write(text)), close };
}

const event = (kind, data) => `id: ${data.height ?? 1}.end.0000000000000000\nevent: ${kind}\ndata: ${JSON.stringify(data)}\n\n`;
const stateOf = (status, behind) =>
  event("synchronising", { height: 5, networkHeight: 5 + behind, behind, status });

/** The page says how far behind the node is and what replaced a transaction; a rollback of unknown ones unlists them. */
async function checkScript({ own, address }) {
  const { data } = await (await fetch(`${own.http}/account/transfers/all?address=${address}`)).json();
  const { hash, height } = data[0].meta;
  const script = await scripted(own, () => stateOf("synchronised", 0));
  const shown = await open(script.http, `account/${address}`);
  const state = shown.page.locator("#state");
  await row(shown.page, CONFIRMED, hash.data).waitFor();
  for (const [status, behind, text] of [
    ["synchronising", 1234, "Synchronising, 1,234 behind"],
    ["no peers", 0, "Live, no peers"],
    ["booting", 0, "Live, the node is starting"],
    ["synchronised", 0, "Live"],
  ]) {
    script.tell(stateOf(status, behind));
    await state.getByText(text).or(state.filter({ hasText: text })).first().waitFor();
  }
  script.tell(event("rollback", { height: height - 1, transactions: "unknown" }));
  await row(shown.page, LOST, hash.data).waitFor();
  assert.equal(await row(shown.page, CONFIRMED, hash.data).count(), 0);
  const conflict = { hash: "5".repeat(64), height };
  script.tell(event("left", { hash: hash.data, status: "replaced", conflict }));
  const fate = row(shown.page, LOST, hash.data).getByText(/^undone in block \d+, replaced: conflicts with/);
  await fate.getByRole("link").and(shown.page.locator(`[href$="${conflict.hash}"]`)).waitFor();
  assert.deepEqual(shown.errors, []);
  await shown.close();
  script.close();
  console.log("explorer: the state of the node is shown, a rollback of unknown transactions, and what replaced one");
}

/** A mosaic is shown by its present definition after a block or a rollback; an expired one by what is known of it. */
async function checkMosaic({ own, address }) {
  const { data } = await (await fetch(`${own.http}/account/transfers/all?address=${address}`)).json();
  const [{ transaction, meta }] = data;
  const id = { namespaceId: "shop", name: "coin" };
  let divisibility = 0,
    state = stateOf("synchronised", 0);
  const script = await scripted(own, () => state);
  const shown = await open(script.http, "");
  const { page, errors } = shown;
  const definitionNow = () => ({
    id,
    creator: transaction.signer,
    description: `with ${divisibility} decimals`,
    properties: [{ name: "divisibility", value: String(divisibility) }, { name: "initialSupply", value: "5000" }],
    levy: {},
  });
  const isExpired = () => divisibility === 3;
  const moved = { ...transaction, version: transaction.version + 1, amount: 1_000_000, mosaics: [{ mosaicId: id, quantity: 12345 }] };
  for (const [path, json] of [
    ["mosaic/definition/last", definitionNow],
    ["mosaic/definition", () => (isExpired() ? null : definitionNow())],
    ["mosaic/supply", () => ({ mosaicId: id, supply: 5000 })],
    ["mosaic/holders", () => (isExpired() ? null : { data: [] })],
    ["account/transfers/all", () => ({ data: [{ meta, transaction: moved }] })],
  ]) {
    const answer = (told) => (told ? { json: told } : { status: 404, json: { message: "unknown" } });
    await page.route(`**/${path}?*`, (route) => route.fulfill(answer(json())));
  }
  const go = (path) =>
    page.evaluate((hash) => {
      location.hash = hash;
    }, `#/${path}`);
  const told = { timeStamp: transaction.timeStamp, signer: transaction.signer, totalFee: 0, transactions: 1 };
  const changes = [
    "",
    event("block", { ...told, height: 6, hash: "6".repeat(64) }) + event("block", { ...told, height: 7, hash: "7".repeat(64) }),
    event("rollback", { height: 6, transactions: [] }),
    event("block", { ...told, height: 7, hash: "8".repeat(64) }),
  ];
  for (const [index, amount] of ["12,345", "1,234.5", "123.45", "12.345"].entries()) {
    // The page has heard a stream once it shows what that has told last.
    const heard = () => page.getByText(`Synchronising, ${behind} behind`).waitFor();
    let behind = 2 * index + 1;
    state = stateOf("synchronising", behind);
    await go("blocks");
    await heard();
    divisibility = index;
    state = stateOf("synchronising", ++behind);
    script.tell(changes[index] + state);
    await heard();
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await go("mosaic/shop:coin");
    await page.getByText(`with ${index} decimals`).waitFor();
    await page.getByText(`${index} decimal places`).waitFor();
    if (isExpired()) {
      await page.getByText("expired", { exact: true }).waitFor();
      await page.getByText("Its holders have it again if the owner renews the namespace in time.").waitFor();
    } else await page.getByText("There are no holders.").waitFor();
    await go(`account/${address}`);
    await row(page, CONFIRMED, meta.hash.data).getByText(amount, { exact: true }).waitFor();
  }
  assert.deepEqual(errors.filter((text) => !text.includes("404")), []);
  await shown.close();
  script.close();
  console.log("explorer: a mosaic is shown by its present definition");
}

/** A part shows why the node does not answer it, and tries again by itself. */
async function checkUnavailable({ own }) {
  const answers = [
    [{ body: "<h1>Bad Message 503</h1>" }, "The node has too much to do for this address at the moment."],
    [{ json: { message: "the block was replaced while it was shown" } }, "the block was replaced while it was shown"],
    [{ json: { message: "NIS_ILLEGAL_STATE_LOADING_CHAIN: the store is rebuilt, height 1 of 99" } }, "The node is starting"],
  ];
  const shown = await open(own.http, "");
  const { page } = shown;
  let answer = null;
  await page.route("**/block/at/public", (route) => (answer ? route.fulfill({ status: 503, ...answer }) : route.fallback()));
  const headline = page.getByText("The node cannot answer this now");
  for (const [next, text] of answers) {
    answer = next;
    await page.evaluate(() => {
      location.hash = location.hash === "#/block/2" ? "#/block/1" : "#/block/2";
    });
    await page.getByText(text).waitFor();
    assert.equal(await headline.count(), text.includes("starting") ? 0 : 1, text);
    assert.equal(await page.getByText("It has no chain yet").count(), text.includes("starting") ? 1 : 0, text);
  }
  answer = null;
  await page.getByText("Signed by").or(page.getByText("Harvester")).first().waitFor();
  assert.deepEqual(shown.errors.filter((text) => !text.includes("503")), []);
  await shown.close();
  console.log("explorer: a part says why the node does not answer, and tries again");
}

/** Ages, and whether a transaction expires, are by the node's clock, even if the browser's is hours ahead or behind. */
async function checkClock({ own, address }) {
  const { data } = await (await fetch(`${own.http}/account/transfers/all?address=${address}`)).json();
  const [{ transaction }] = data;
  const { sendTimeStamp } = await (await fetch(`${own.http}/time-sync/network-time`)).json();
  const now = Math.floor(sendTimeStamp / 1000);
  const hash = "7".repeat(64);
  const waiting = { transaction: { ...transaction, deadline: now + 3500 }, meta: { hash: { data: hash } } };
  const last = { height: 5, hash, timeStamp: now - 600, signer: transaction.signer, totalFee: 0, transactions: 0 };
  const events = stateOf("synchronised", 0) + event("block", last) + event("unconfirmed", waiting);
  const script = await scripted(own, () => events);
  for (const hours of [-3, 3]) {
    const shift = `{ const now = Date.now; Date.now = () => now() + ${hours * 3_600_000}; }`;
    const { page, errors, close } = await open(script.http, "", DESKTOP, shift);
    await page.locator(".age").getByText(/^1\d\smin$/).waitFor();
    await row(page, /^Unconfirmed transactions/, hash).waitFor();
    await page.evaluate((path) => {
      location.hash = path;
    }, `#/transaction/${hash}`);
    await page.getByText(/, expires in 5\d\smin$/).waitFor();
    assert.deepEqual(errors, []);
    await close();
  }
  script.close();
  console.log("explorer: ages and deadlines are by the node's clock");
}

/** The node's secret shows the operator what is for local clients; a wrong one shows nothing. */
async function checkSecret({ own }) {
  const shown = await open(own.http, "");
  const { page } = shown;
  const field = page.getByLabel(/Secret of the node/);
  await check(shown, "secret-asked");
  await field.fill("7890.5");
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByText("This is not the secret of the running node.").waitFor();
  assert.ok(!shown.requests.includes("/local/peers"), "nothing more is requested");
  const failWith = (answer) => page.route("**/local/reorgs", (route) => route.fulfill(answer));
  const tries = [
    ...["abc…def", `“${secretOf(own)}”`, "abc\u0007"].map((text) => [text, "It has characters that no secret has."]),
    [secretOf(own), "The node has too much to do for this address", { status: 503, body: "" }],
    [secretOf(own), "unlucky", { status: 400, json: { message: "unlucky" } }],
  ];
  for (const [text, told, answer] of tries) {
    if (answer) await failWith(answer);
    await field.fill(text);
    await field.press("Enter");
    await page.getByText(told).waitFor();
    await page.unroute("**/local/reorgs");
    assert.ok(await field.isVisible(), `the form stays after: ${told}`);
    await page.getByRole("heading", { name: "Peers" }).waitFor();
    assert.equal(await page.getByRole("columnheader", { name: "Last answer" }).count(), 0);
  }
  await field.fill(secretOf(own));
  await field.press("Enter");
  await page.getByRole("table", { name: /^Replaced blocks/ }).waitFor();
  await page.getByRole("columnheader", { name: "Last answer" }).waitFor();
  await field.waitFor({ state: "hidden" });
  await check(shown, "secret-given");
  const stored = await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie, location.href]);
  assert.deepEqual(stored, [0, 0, "", `${own.http}/explorer#/`], "it is kept in memory only");
  await page.reload();
  await field.waitFor();
  // The browser logs the responses to the wrong secret and the failures.
  assert.deepEqual(shown.errors.filter((text) => !/40[01]|503/.test(text)), []);
  await shown.close();
  console.log("explorer: the secret of the node shows heights and replaced blocks");
}

let isDone = false;
try {
  const scene = await checkPayment();
  await checkUnavailable(scene);
  await checkMosaic(scene);
  await checkClock(scene);
  await checkSecret(scene);
  await checkScript(scene);
  isDone = true;
} finally {
  if (!isDone) {
    const pages = browser.contexts().flatMap((context) => context.pages());
    for (const [index, page] of pages.entries()) {
      await page.screenshot({ path: join(pictures, `failed-${index}.png`), fullPage: true }).catch(() => {});
    }
  }
  await browser.close();
}
process.exit();
