// Reads the stream of events of a node with curl, EventSource in Chromium, the package eventsource, and the libraries of
// events.py; directly, and behind nginx and HAProxy where they are installed. The node is stopped, gets a payment that no
// reader sees, and is started again: each reader is told every payment once, in order.
//
//   npm install
//   node events.mjs NISD FOLDER PYTHON
//
// Starts its own private network in FOLDER. PYTHON has the packages of requirements.txt. Needs Chromium: in CHROMIUM, or
// /usr/bin/chromium.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { EventSource } from "eventsource";
import { chromium } from "playwright-core";
import { freePort } from "./free_port.mjs";

const [nisd, folder, python, program = join(dirname(process.argv[1]), "events.py")] = process.argv.slice(2);
const run = promisify(execFile);
const START_LIMIT = 60;
/** Maximum seconds until all readers have an event, some blocks long. */
const EVENT_LIMIT = 90;
/** Seconds without a byte after which the proxies close a connection; the node sends a comment every 15 seconds. */
const PROXY_TIMEOUT = 18;
const PAUSE_MS = 500;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** All processes that were started. */
const processes = new Set();
process.on("exit", () => processes.forEach((one) => one.kill()));
process.on("SIGTERM", () => process.exit(1));

/** Starts a process; its output goes to a file. */
function start(name, command, options) {
  const started = spawn(command, options);
  processes.add(started);
  started.on("exit", () => processes.delete(started));
  started.on("error", () => processes.delete(started));
  const log = createWriteStream(join(folder, `${name}.log`), { flags: "a" });
  started.stderr.pipe(log, { end: false });
  return started;
}

async function until(what, seconds, condition) {
  const end = Date.now() + seconds * 1000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`too slow: ${what}`);
    await sleep(200);
  }
}

const answers = (url) => fetch(url, { signal: AbortSignal.timeout(2000) }).then(({ ok }) => ok, () => false);

/** Starts the node at a port; returns a function that stops it. */
async function startNode(port) {
  const ports = ["--http-port", port, "--websocket-port", 0].map(String);
  const node = start("node", nisd, ["run", "--data", join(folder, "devnet"), "--bind", "127.0.0.1", ...ports]);
  await until("the node listens", START_LIMIT, () => answers(`http://127.0.0.1:${port}/chain/height`));
  return async () => {
    const ended = once(node, "exit");
    node.kill();
    await ended;
  };
}

const [direct, hidden, nginx, haproxy] = [await freePort(), await freePort(), await freePort(), await freePort()];

/** Proxies: command, and a configuration with nothing in it that is for event streams, except a short timeout. */
const PROXIES = {
  nginx: {
    port: nginx,
    command: (file) => ["nginx", "-e", join(folder, "nginx.log"), "-p", folder, "-c", file],
    configuration: `daemon off;
      pid ${folder}/nginx.pid;
      events {}
      http {
        access_log off;
        ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((one) => `${one}_temp_path ${folder}/${one};`).join("\n")}
        server {
          listen 127.0.0.1:${nginx};
          location / {
            proxy_pass http://127.0.0.1:${direct};
            proxy_read_timeout ${PROXY_TIMEOUT}s;
          }
        }
      }`,
  },
  HAProxy: {
    port: haproxy,
    command: (file) => ["haproxy", "-db", "-f", file],
    configuration: `defaults
  mode http
  timeout connect 5s
  timeout client ${PROXY_TIMEOUT}s
  timeout server ${PROXY_TIMEOUT}s
frontend all
  bind 127.0.0.1:${haproxy}
  default_backend node
backend node
  server node 127.0.0.1:${direct}
`,
  },
};

function isInstalled(command) {
  try {
    execFileSync(command, ["-v"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Says what is skipped; fails where CI is set. */
function skip(what) {
  if (process.env.CI) throw new Error(what);
  console.log(`events.mjs: ${what}`);
}

/** Starts the proxies that are installed; returns the ways to the node: name and port. */
async function startProxies() {
  const ways = [["directly", direct]];
  for (const [name, { port, command, configuration }] of Object.entries(PROXIES)) {
    const file = join(folder, `${name}.conf`);
    const [path, ...options] = command(file);
    if (!isInstalled(path)) {
      skip(`${name} SKIPPED: not installed`);
      continue;
    }
    writeFileSync(file, configuration);
    start(name, path, options);
    await until(`${name} passes requests on`, START_LIMIT, () => answers(`http://127.0.0.1:${port}/chain/height`));
    ways.push([name, port]);
  }
  return ways;
}

/** What a reader was told. */
class Reader {
  constructor(name) {
    this.name = name;
    this.unconfirmed = new Set();
    this.confirmed = [];
    this.ids = [];
  }

  take(kind, id, data) {
    this.ids.push(id);
    if (kind === "unconfirmed") this.unconfirmed.add(data.meta.hash.data);
    else if (kind === "transaction") this.confirmed.push(data.meta.hash.data);
    else assert.equal(kind, "synchronising", `${this.name}: ${JSON.stringify(data)}`);
  }
}

/** Reads with `curl -N`, which is started again after the last event whenever it ends. */
async function readWithCurl(reader, url) {
  for (;;) {
    const last = reader.ids.length > 0 ? ["-H", `Last-Event-ID: ${reader.ids.at(-1)}`] : [];
    const curl = start("curl", "curl", ["-sSfN", ...last, url]);
    const ended = once(curl, "exit");
    let event = {};
    for await (const line of createInterface({ input: curl.stdout })) {
      const [, name, value] = line.match(/^([a-z]*): ?(.*)$/) ?? [];
      if (name) event[name] = value;
      if (line === "" && event.data) reader.take(event.event, event.id, JSON.parse(event.data));
      if (line === "") event = {};
    }
    await ended;
    await sleep(PAUSE_MS);
  }
}

function readWithPython(library, reader, url) {
  const reading = start(library, python, [program, library, url]);
  createInterface({ input: reading.stdout }).on("line", (line) => {
    const { id, kind, data } = JSON.parse(line);
    reader.take(kind, id, data);
  });
}

/**
 * Reads with an EventSource. It connects again by itself, but ends at an HTTP error, such as that of a proxy while the node
 * is stopped: then another one goes on after the last event. Also runs in a page.
 */
function followEvents(Source, url, take) {
  const open = (last) => {
    const source = new Source(last ? `${url}&after=${last}` : url);
    const hear = ({ type, data, lastEventId }) => {
      last = lastEventId;
      take(type, lastEventId, JSON.parse(data));
    };
    for (const kind of ["synchronising", "transaction", "unconfirmed", "left", "undone", "rollback"]) {
      source.addEventListener(kind, hear);
    }
    source.onerror = () => {
      if (source.readyState === Source.CLOSED) setTimeout(open, 500, last);
    };
  };
  open();
}

/** Opens a page that reads by each way. */
async function readInChromium(readers) {
  const server = createServer((_, response) => response.setHeader("Content-Type", "text/html").end("<!doctype html>"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}`);
  for (const [index, [reader, url]] of readers.entries()) {
    await page.exposeFunction(`take${index}`, (...told) => reader.take(...told));
    const script = `(${followEvents})(EventSource, ${JSON.stringify(url)}, take${index})`;
    await page.evaluate(script);
  }
  return browser;
}

const keyFile = (name) => join(folder, "devnet", `${name}.key`);
mkdirSync(folder, { recursive: true });
let stopNode = await startNode(direct);
const { stdout } = await run(nisd, ["address", "--network", "testnet", keyFile("bob")]);
const address = stdout.match(/\bT[A-Z2-7]{39}\b/)[0];

/** Sends a payment through the node at a port; returns its hash. */
async function pay(port, ...options) {
  const to = ["--to", address, "--amount", "1", "--node", `http://127.0.0.1:${port}`];
  const printed = await run(nisd, ["send", "--from-key-file", keyFile("alice"), ...to, ...options]);
  return `${printed.stdout}${printed.stderr}`.match(/hash:? +([0-9a-f]{64})/)[1];
}

const readers = [];
function reader(name) {
  readers.push(new Reader(name));
  return readers.at(-1);
}
const all = (what, condition) =>
  until(what, EVENT_LIMIT, () => readers.every(condition)).catch((error) => {
    const late = readers.filter((one) => !condition(one));
    for (const { name, confirmed, ids } of late) console.error(`events.mjs: ${name}: ${confirmed} ${ids.at(-1)}`);
    throw error;
  });

let browser;
try {
  const ways = await startProxies();
  const inPage = [];
  for (const [way, port] of ways) {
    const url = `http://127.0.0.1:${port}/events?address=${address}&from=1&confirmations=0`;
    readWithCurl(reader(`curl ${way}`), url);
    const own = reader(`eventsource ${way}`);
    followEvents(EventSource, url, (...told) => own.take(...told));
    for (const library of ["httpx-sse", "sseclient-py"]) readWithPython(library, reader(`${library} ${way}`), url);
    if (existsSync(CHROMIUM)) inPage.push([reader(`Chromium ${way}`), url]);
  }
  if (inPage.length > 0) browser = await readInChromium(inPage);
  else skip("Chromium SKIPPED: not in CHROMIUM or at /usr/bin/chromium");

  await all("everyone is told the first payment", ({ confirmed }) => confirmed.length === 1);
  const live = await pay(direct);
  await all("everyone is told an unconfirmed payment", ({ unconfirmed }) => unconfirmed.has(live));
  await all("everyone is told its confirmation", ({ confirmed }) => confirmed.includes(live));
  const connections = readers.map(({ ids }) => ids.length);
  await sleep((PROXY_TIMEOUT + 2) * 1000);
  assert.deepEqual(readers.map(({ ids }) => ids.length), connections, "silent streams stay open");

  await stopNode();
  stopNode = await startNode(hidden);
  const missed = await pay(hidden, "--wait");
  await stopNode();
  stopNode = await startNode(direct);
  await all("everyone is told what came meanwhile", ({ confirmed }) => confirmed.includes(missed));
  const last = await pay(direct);
  await all("everyone is told the last payment", ({ confirmed }) => confirmed.includes(last));
  for (const { name, confirmed } of readers) {
    assert.deepEqual(confirmed.slice(1), [live, missed, last], `${name}: each payment once, in order`);
  }
  console.log(`events.mjs: ${readers.length} readers resumed: ${readers.map(({ name }) => name).join(", ")}`);
  await stopNode();
  process.exitCode = 0;
} catch (error) {
  console.error("events.mjs:", error);
  process.exitCode = 1;
}
await browser?.close();
// Readers would go on.
process.exit();
