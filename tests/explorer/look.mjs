// Tests the explorer page of a node in a browser: takes screenshots, and fails if anything is wrong.
//
//   node look.mjs HTTP SCENE PICTURES
//
// SCENE is a file with the output of scene.mjs. Needs Chromium: in CHROMIUM, or /usr/bin/chromium.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [http, sceneFile, pictures] = process.argv.slice(2);
const scene = JSON.parse(readFileSync(sceneFile, "utf8"));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Maximum compressed bytes of all files of the page, and maximum milliseconds until the first paint. */
const MOST_BYTES = 100 * 1024;
const MOST_MS_TO_PAINT = 300;
/** Maximum milliseconds until the account with very many transactions is complete. */
const MOST_MS_OF_ACCOUNT = 2000;
const PATIENCE_MS = 60_000;
/** Milliseconds after which a page would have shown what it must not show. */
const SOON_MS = 1000;

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };
/** Browser settings, and the places tested with each; all places by default. */
const LOOKS = [
  { name: "light", viewport: DESKTOP, colorScheme: "light" },
  { name: "dark", viewport: DESKTOP, colorScheme: "dark" },
  { name: "phone", viewport: PHONE, colorScheme: "light", hasTouch: true, isMobile: true },
  {
    name: "phone-dark",
    viewport: PHONE,
    colorScheme: "dark",
    hasTouch: true,
    isMobile: true,
    only: ["home", "account"],
  },
];
/** Places: name, path, and a text that the place contains. */
const PLACES = [
  ["home", "", "Last blocks"],
  ["block", "block/2", "Previous block"],
  ["transaction", `transaction/${scene.plain}`, "hello, wörld"],
  ["hostile", `transaction/${scene.hostile}`, "<script>document.title"],
  ["encrypted", `transaction/${scene.encrypted}`, "only sender and recipient"],
  ["bytes", `transaction/${scene.bytes}`, "Bytes, not text"],
  ["multisig-half-signed", `transaction/${scene.half}`, "1 signature missing"],
  ["multisig-complete", `transaction/${scene.complete}`, "which was enough"],
  ["mosaics", `transaction/${scene.mosaics}`, "4,000.002"],
  ["definition", `transaction/${scene.definition}`, "<b onclick"],
  ["account", `account/${scene.alice.address}`, "Balance over time"],
  ["account-of-many", `account/${scene.busy}`, "Older"],
  ["account-multisig", `account/${scene.vault}`, "2 of 3"],
  ["namespace", "namespace/shop", "shop.toys"],
  ["mosaic", "mosaic/shop:voucher", "0.5"],
  ["mosaic-hostile", "mosaic/shop:token", "<b onclick"],
  ["holders", "mosaic/shop:token", "Holders of the mosaic"],
  ["blocks", "blocks", "Transactions"],
  ["transactions", "transactions", "newest first"],
  ["namespaces", "namespaces", "shop"],
  ["mosaics-list", "mosaics", "shop:voucher"],
  ["no-such-block", "block/99999999", "no block of this height"],
  ["nowhere", "nowhere", "leads nowhere"],
];

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});

/** Records the errors of a page: scripts, console, security policy. */
function troubles(page) {
  const found = [];
  page.on("pageerror", (error) => found.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") found.push(`${message.text()} ${message.location().url}`);
  });
  page.on("dialog", (dialog) => {
    found.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.protocol !== "data:" && url.host !== new URL(http).host) found.push(`a request to ${url.host}`);
  });
  return found;
}

/** Prepares and opens the page; `found` collects its errors. */
async function open(look, prepare = async () => {}) {
  const context = await browser.newContext(look);
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const found = troubles(page);
  await prepare(page);
  await page.goto(`${http}/explorer`);
  await page.getByText("Live", { exact: true }).waitFor();
  // The unconfirmed transactions must be loaded first.
  await page.getByRole("table", { name: "Unconfirmed transactions, newest first" }).waitFor();
  const close = async () => {
    // A route may still be answering.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await context.close();
  };
  return { page, found, close };
}

/** Goes to a place in the page and waits until it is complete. */
async function go(page, path, text) {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `#/${path}`);
  await page.locator("main").getByText(text).first().waitFor();
  await page.waitForFunction(() => !document.querySelector("[aria-busy]"));
}

async function checkAccessibility(page, what) {
  // The page's policy blocks scripts, but does not apply to the browser's own tools.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const told = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join("; ")}`);
  assert.deepEqual(told, [], what);
}

async function checkWidth(page, what) {
  const [needed, there] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(needed <= there, `${what}: ${needed} pixels wide, but the window has ${there}`);
}

/** Tests all places with one setting. */
async function lookAround(look) {
  const { page, found, close } = await open(look);
  const places = PLACES.filter(([name]) => look.only?.includes(name) ?? true);
  for (const [name, path, text] of places) {
    await go(page, path, text);
    const what = `${name} ${look.name}`;
    await checkAccessibility(page, what);
    await checkWidth(page, what);
    await page.screenshot({ path: join(pictures, `${name}-${look.name}.png`), fullPage: true });
  }
  assert.deepEqual(found, [], look.name);
  await close();
  console.log(`explorer: ${places.length} places, ${look.name}`);
}

/** Hostile text stays text: no part becomes an element, and no script runs. */
async function checkHostileText() {
  const { page, found, close } = await open(LOOKS[0]);
  for (const [path, text] of [
    [`transaction/${scene.hostile}`, "<script>"],
    [`account/${scene.bob.address}`, "<script>"],
    ["block/2", "<script>"],
    [`transaction/${scene.definition}`, "<b onclick"],
    ["mosaic/shop:token", "<b onclick"],
  ]) {
    await go(page, path, text);
    assert.equal(await page.locator("main script, main img, main b, main [onclick], main [onerror]").count(), 0, path);
    assert.match(await page.title(), / · nisd$/);
    const bare = await page.locator("main").evaluate((main) => main.textContent.match(/[\u202a-\u202e\u2066-\u2069]/u));
    assert.equal(bare, null, `${path}: direction marks are shown, not applied`);
  }
  assert.deepEqual(found, []);
  await close();
}

/** The search finds all kinds of objects, and reports a text that can match nothing. */
async function checkSearch() {
  const { page, found, close } = await open(LOOKS[0]);
  const dashed = scene.alice.address.replace(/.{6}(?=.)/g, "$&-");
  for (const [text, heading] of [
    ["2", "Block 2"],
    [dashed, "Account"],
    [scene.alice.address.toLowerCase(), "Account"],
    [scene.alice.publicKey, "Account"],
    [scene.plain.toUpperCase(), "Transaction"],
    ["shop.toys", "Namespace shop.toys"],
    ["shop:voucher", "Mosaic shop:voucher"],
  ]) {
    await page.keyboard.press("/");
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: heading, exact: true }).waitFor();
    // The heading gets the focus.
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1", text);
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  }
  await page.getByRole("searchbox").fill("?!");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("Cannot search for").waitFor();
  assert.deepEqual(found, []);
  await close();
}

/** The keyboard reaches the content with the first key, and then a link. */
async function checkKeyboard() {
  const { page, found, close } = await open(LOOKS[0]);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /^Block/ }).waitFor();
  assert.deepEqual(found, []);
  await close();
}

/** Blocks arrive by themselves, and a link that has the focus keeps it. */
async function checkLife() {
  const { page, found, close } = await open(LOOKS[0]);
  const height = page.locator(".overview a").first();
  const before = await height.textContent();
  const link = page.getByRole("table", { name: "The last blocks" }).getByRole("link").nth(2);
  const place = await link.getAttribute("href");
  await link.focus();
  await page.waitForFunction(
    ([selector, text]) => document.querySelector(selector).textContent !== text,
    [".overview a", before],
  );
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("href")), place);
  assert.deepEqual(found, []);
  await close();
}

/** All transactions of the account can be reached page by page, within the time limit. */
async function checkBusyAccount() {
  const { page, found, close } = await open(LOOKS[0]);
  const begun = Date.now();
  await go(page, `account/${scene.busy}`, "Older");
  const took = Date.now() - begun;
  assert.ok(took <= MOST_MS_OF_ACCOUNT, `${took} ms`);
  const rows = () =>
    page
      .getByRole("table", { name: /^Transactions of the account/ })
      .getByRole("row")
      .count();
  assert.equal(await rows(), 26);
  const first = await page.locator(".stacking tbody a[href*=transaction]").first().getAttribute("href");
  await page.getByRole("link", { name: "Older" }).click();
  await page.getByRole("link", { name: "Newest" }).waitFor();
  assert.equal(await rows(), 26);
  assert.notEqual(await page.locator(".stacking tbody a[href*=transaction]").first().getAttribute("href"), first);
  assert.deepEqual(found, []);
  await close();
  console.log(`explorer: an account with ${scene.count} transactions after ${took} ms`);
}

/** The amounts of a block's transactions, the last first. */
async function amountsOf(height) {
  const block = await fetch(`${http}/block/at/public`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ height }),
  });
  return (await block.json()).transactions.map(({ amount }) => amount).reverse();
}

/** The list of all transactions has few per page, even if a block has thousands, without gaps or duplicates. */
async function checkTransactionList() {
  const { page, found, close } = await open(LOOKS[0]);
  const { meta } = await (await fetch(`${http}/transaction/get?hash=${scene.last}`)).json();
  // The last block of the busy account's transactions contains what the full blocks before it left.
  let { height } = meta;
  let amounts = await amountsOf(height);
  while (amounts.length < 75) amounts = await amountsOf(--height);
  await go(page, `transactions/before/${height + 1}`, "newest first");
  const shown = [];
  for (const place of [1, 2, 3]) {
    const rows = page.getByRole("table", { name: /^Transactions of the blocks/ }).locator("tbody tr");
    assert.equal(await rows.count(), 25);
    shown.push(...(await rows.locator("a[href*=transaction]").evaluateAll((links) => links.map(({ hash }) => hash))));
    if (place === 3) break;
    await page.getByRole("link", { name: "Older" }).click();
    await page.waitForFunction((first) => !document.querySelector(`main a[href="${first}"]`), shown.at(-25));
    await page.getByRole("link", { name: "Newest" }).waitFor();
  }
  assert.equal(new Set(shown).size, 75);
  const told = async (hash) => (await fetch(`${http}/transaction/get?hash=${hash.split("/").at(-1)}`)).json();
  const answers = await Promise.all(shown.map(told));
  assert.deepEqual(answers.map(({ transaction }) => transaction.amount), amounts.slice(0, 75));
  assert.deepEqual(found, []);
  await close();
}

/** A cold start loads few bytes and paints soon; the best of three attempts, as other programs use the machine too. */
async function checkWeightAndPaint() {
  const paints = [];
  let bytes = 0;
  for (let attempt = 0; attempt < 3; attempt++) {
    const { page, close } = await open(LOOKS[0]);
    const files = await page.evaluate(() =>
      [
        ...performance.getEntriesByType("navigation"),
        ...performance.getEntriesByType("resource").filter(({ name }) => name.includes("/explorer/")),
      ].map(({ transferSize }) => transferSize),
    );
    assert.ok(
      files.every((size) => size > 0),
      "every file is loaded over the network",
    );
    bytes = files.reduce((sum, size) => sum + size, 0);
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    await close();
  }
  const paint = Math.min(...paints);
  console.log(`explorer: ${bytes} bytes with headers, first paint after ${paint.toFixed(0)} ms`);
  assert.ok(bytes <= MOST_BYTES, `${bytes} bytes`);
  assert.ok(paint <= MOST_MS_TO_PAINT, `${paints} ms`);
}

/** The search finds blocks and inner transactions by their hashes, and a hash can be copied. */
async function checkHashes() {
  const { page, found, close } = await open(LOOKS[0]);
  const fact = async (name) => page.locator("dl.facts > div").filter({ hasText: name }).locator("code").first().textContent();
  const find = async (text, heading) => {
    await page.getByRole("searchbox").fill(text);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: heading }).waitFor();
  };
  await find(scene.complete, "Transaction");
  await page.getByText(/\d\sconfirmation/).waitFor();
  const inner = await fact("Inner hash");
  await find("2", "Block 2");
  const hash = await fact(/^Hash/);
  await find(inner, "Transaction");
  await page.getByText(scene.complete).waitFor();
  const { height } = await (await fetch(`${http}/chain/last-block`)).json();
  await find(String(height), /^Block/);
  await find(await fact(/^Hash/), /^Block/);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const last = await fact(/^Hash/);
  await page.getByRole("button", { name: "Copy" }).first().click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), last);
  assert.notEqual(last, hash);
  // Browsers log the error response for the hash of a block that no transaction has.
  assert.deepEqual(
    found.filter((one) => !one.includes("/transaction/get?")),
    [],
  );
  await close();
}

/** A remote client sends no request that the node rejects: the console stays empty. */
async function checkStrangers() {
  const { page, found, close } = await open({ ...LOOKS[0], extraHTTPHeaders: { "X-Forwarded-For": "203.0.113.7" } });
  assert.equal(await page.evaluate(() => document.documentElement.dataset.access), "public");
  await page.getByRole("heading", { name: "Peers" }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "This node" }).isVisible(), false);
  assert.deepEqual(found, []);
  await close();
}

/** On a node without transaction lookup, blocks are still found by their hashes, and no request fails. */
async function checkWithoutLookup() {
  const { page, found, close } = await open(LOOKS[0], async (page) => {
    await page.route("**/node/info", async (route) => {
      const response = await route.fetch();
      const told = await response.json();
      told.metaData.features &= ~1;
      await route.fulfill({ response, json: told });
    });
    await page.route("**/transaction/get?*", (route) => route.fulfill({ status: 500, json: { message: "no lookup" } }));
  });
  const { prevBlockHash } = await (await fetch(`${http}/chain/last-block`)).json();
  await page.getByRole("searchbox").fill(prevBlockHash.data);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /^Block/ }).waitFor();
  await go(page, `transaction/${scene.plain}`, "This node does not find confirmed transactions by hash");
  assert.deepEqual(found, []);
  await close();
}

/**
 * Where the stream does not get through, the page uses the websocket. A reorg during a lost connection is shown after the
 * reconnection: the page of a block shows a notice once the node has returned the new block, a transaction is unconfirmed,
 * and the last blocks are the new ones. Unchanged content stays.
 */
async function checkReplacement() {
  const sockets = [];
  const opened = async (page) => {
    await page.route("**/events?*", (route) => route.fulfill({ status: 404, json: {} }));
    await page.routeWebSocket(/./, (socket) => {
      socket.connectToServer();
      sockets.push(socket);
    });
  };
  const { height } = await (await fetch(`${http}/chain/last-block`)).json();
  const looks = await Promise.all([0, 1, 2].map(() => open(LOOKS[0], opened)));
  const [home, block, transaction] = looks.map(({ page }) => page);
  await go(block, `block/${height}`, "Harvester");
  await go(transaction, `transaction/${scene.plain}`, "confirmed");
  const lose = async () => {
    for (const socket of sockets.splice(0)) await socket.close();
    await Promise.all(looks.map(({ page }) => page.getByText("Live", { exact: true }).waitFor({ state: "hidden" })));
    await Promise.all(looks.map(({ page }) => page.getByText("Live", { exact: true }).waitFor()));
  };
  const replaced = block.getByText("This block was replaced");
  const asked = block.waitForResponse("**/chain/last-block");
  await lose();
  await asked;
  await block.waitForTimeout(SOON_MS);
  assert.equal(await replaced.count(), 0);

  const harvester = scene.bob.publicKey;
  let failures = 1;
  const other = async (route) => {
    if (route.request().headers().accept === "application/binary") {
      if (failures-- > 0) return route.abort();
      const response = await route.fetch();
      const body = await response.body();
      // A byte of the block's time stamp.
      body[8] ^= 1;
      return route.fulfill({ response, body });
    }
    const response = await route.fetch();
    const json = await response.json();
    return route.fulfill({ response, json: { ...json, signer: harvester, signature: "0".repeat(128) } });
  };
  for (const { page } of looks) {
    await page.route("**/chain/last-block", other);
    await page.route("**/block/at/public", other);
    const json = { message: "Hash was not found in cache" };
    await page.route("**/transaction/get?*", (route) => route.fulfill({ status: 400, json }));
  }
  const refused = block.waitForEvent("requestfailed");
  await lose();
  await refused;
  assert.equal(await replaced.count(), 0, "a failed request shows nothing");
  await replaced.waitFor();
  await transaction.getByText("No transaction with this hash").waitFor();
  const rows = home.getByRole("table", { name: "The last blocks" });
  const link = rows.locator(`tbody tr:has(a[href="#/block/${height}"]) a[href="#/account/${scene.bob.address}"]`);
  await link.waitFor();
  for (const { close } of looks) await close();
}

/** Without JavaScript the page shows that it needs it, and links to routes. */
async function checkWithoutJavaScript() {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(`${http}/`);
  assert.equal(new URL(page.url()).pathname, "/explorer");
  // With scripts switched off by this tool, the browser does not render `noscript`.
  assert.match(await page.content(), /shows the chain by JavaScript/);
  await context.close();
}

/** While the node is unreachable the page shows it; then it continues by itself. */
async function checkLoss() {
  const { page, close } = await open(LOOKS[0]);
  await page.context().setOffline(true);
  await page.evaluate(() => {
    location.hash = "#/block/3";
  });
  await page.getByText("The node cannot be reached").waitFor();
  await checkAccessibility(page, "unreachable");
  await page.screenshot({ path: join(pictures, "unreachable-light.png") });
  await page.context().setOffline(false);
  await page.getByText("Previous block", { exact: true }).waitFor();
  await close();
}

try {
  await checkWeightAndPaint();
  await checkHostileText();
  await checkSearch();
  await checkKeyboard();
  await checkLife();
  await checkBusyAccount();
  await checkTransactionList();
  await checkHashes();
  await checkStrangers();
  await checkWithoutLookup();
  await checkReplacement();
  await checkWithoutJavaScript();
  await checkLoss();
  for (const look of LOOKS) await lookAround(look);
} finally {
  await browser.close();
}
