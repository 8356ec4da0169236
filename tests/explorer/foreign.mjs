// Opens foreign pages in a browser that try to shut down the node of this machine in every way; then a page of the node
// itself, which may do so.
//
//   node foreign.mjs HTTP
//
// Needs Chromium: in CHROMIUM, or /usr/bin/chromium.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { chromium } from "playwright-core";

const [http] = process.argv.slice(2);
const { port } = new URL(http);
const PATIENCE_MS = 20_000;

/** Returns pages that make a browser request an address, by name. */
function attempts(target) {
  const submitted = (method, enctype) =>
    `<form target="frame" action="${target}" method="${method}" enctype="${enctype}"><input name="a" value="b"></form>
     <iframe name="frame"></iframe><script>document.forms[0].submit()</script>`;
  const sandboxed = `<script>fetch("${target}").catch(() => {})</script>`;
  return {
    image: `<img src="${target}">`,
    "image without a referrer": `<img src="${target}" referrerpolicy="no-referrer">`,
    "image with credentials": `<img src="${target}" crossorigin="use-credentials">`,
    script: `<script src="${target}"></script>`,
    "script without a referrer": `<script src="${target}" referrerpolicy="no-referrer"></script>`,
    style: `<link rel="stylesheet" href="${target}">`,
    frame: `<iframe src="${target}" referrerpolicy="no-referrer"></iframe>`,
    object: `<object data="${target}"></object>`,
    video: `<video src="${target}" autoplay muted></video>`,
    "form, GET": submitted("get", "application/x-www-form-urlencoded"),
    "form, POST": submitted("post", "text/plain"),
    fetch: `<script>fetch("${target}").catch(() => {})</script>`,
    "fetch without CORS": `<script>fetch("${target}", { mode: "no-cors", referrerPolicy: "no-referrer" }).catch(() => {})</script>`,
    "fetch of HEAD": `<script>fetch("${target}", { method: "HEAD", mode: "no-cors" }).catch(() => {})</script>`,
    beacon: `<script>navigator.sendBeacon("${target}", "x")</script>`,
    "event source": `<script>new EventSource("${target}")</script>`,
    "page without an origin": `<iframe sandbox="allow-scripts" srcdoc='${sandboxed.replaceAll("'", "&#39;")}'></iframe>`,
    navigation: `<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=${target}">`,
    "navigation by script": `<script>location = "${target}"</script>`,
    redirect: `<img src="/away?${encodeURIComponent(target)}">`,
  };
}

let pages = {};
const server = createServer((request, response) => {
  const url = new URL(request.url, "http://a");
  if (url.pathname === "/away") {
    response.writeHead(302, { Location: decodeURIComponent(url.search.slice(1)) }).end();
    return;
  }
  const body = pages[decodeURIComponent(url.pathname.slice(1))];
  response.writeHead(body ? 200 : 404, { "Content-Type": "text/html" }).end(body ? `<!doctype html>${body}` : "");
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const own = server.address().port;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  // Foreign names that resolve to this machine: a foreign site, and a rebound name.
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP *.example 127.0.0.1"],
});

/** Returns the number of rejected GET and HEAD requests for a shutdown, from the metrics. */
async function refused() {
  const text = await (await fetch(`${http}/metrics`)).text();
  const lines = text.split("\n").filter((line) => line.startsWith("nisd_http_requests_total") && line.includes('"/shutdown"'));
  assert.ok(lines.every((line) => !line.includes('status="200"')), lines.join("\n"));
  return lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

/** Opens a page in its own context, and closes it when the node has rejected a request, or after a timeout. */
async function visit(address, before) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(address, { waitUntil: "commit" }).catch(() => {});
  for (let waited = 0; waited < 1_500 && (await refused()) === before; waited += 50) {
    await new Promise((passed) => setTimeout(passed, 50));
  }
  await context.close();
  return (await refused()) > before;
}

try {
  const silent = [];
  for (const from of [`http://127.0.0.1:${own}`, `http://evil.example:${own}`]) {
    for (const host of ["127.0.0.1", "localhost"]) {
      pages = attempts(`http://${host}:${port}/shutdown`);
      for (const name of Object.keys(pages)) {
        const has_come = await visit(`${from}/${encodeURIComponent(name)}`, await refused());
        if (!has_come) silent.push(`${name} of ${from} to ${host}`);
        const status = await fetch(`${http}/chain/height`).then((answer) => answer.status, () => 0);
        assert.equal(status, 200, `${name} of ${from} has shut down the node`);
      }
    }
  }
  // The route has no POST, and the metrics do not count it there.
  const unseen = silent.filter((name) => !/^(form, POST|beacon) of/.test(name));
  console.log(`foreign: ${await refused()} requests rejected; not received: ${unseen.join(", ") || "none"}`);
  assert.ok(unseen.length === 0, unseen.join(", "));

  // A page of the node, reached by a foreign name.
  const context = await browser.newContext();
  const rebound = await context.newPage();
  await rebound.goto(`http://rebound.example:${port}/explorer`);
  const ask = (path) => fetch(path).then((answer) => answer.status);
  assert.deepEqual([await rebound.evaluate(ask, "/shutdown"), await rebound.evaluate(ask, "/local/peers")], [401, 401]);

  // A page of the node has local access.
  const page = await context.newPage();
  await page.goto(`${http}/explorer`);
  assert.equal(await page.evaluate(ask, "/local/peers"), 200);
  assert.equal(await page.evaluate(ask, "/shutdown"), 200);
  const ended = Date.now() + PATIENCE_MS;
  while (await fetch(`${http}/chain/height`).then(() => true, () => false)) {
    assert.ok(Date.now() < ended, "the node keeps running");
    await new Promise((passed) => setTimeout(passed, 100));
  }
  console.log("foreign: a page of the node has shut it down");
} finally {
  await browser.close();
  server.close();
}
