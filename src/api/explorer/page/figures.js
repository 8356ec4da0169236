// The metrics of the node as small plots. The node returns them to local clients only.

import { h } from "./dom.js";
import { bytes, grouped, round } from "./format.js";
import { Problem, getText } from "./node.js";
import { refill, section } from "./parts.js";
import { line } from "./plot.js";
import { HAS_METRICS } from "./settings.js";

/** Polling interval, and maximum number of samples drawn. */
const PAUSE_MS = 5000;
const MOST = 60;

const milliseconds = (seconds) => `${round(seconds * 1000)}\u00a0ms`;
const DRAWN = [
  { name: "nisd_memory_resident_bytes", title: "Memory", text: bytes },
  { name: "nisd_buffered_bytes", title: "Connection buffers", text: bytes },
  { name: "nisd_connections", title: "Connections", text: grouped },
  { name: "nisd_websocket_sessions", title: "Websocket sessions", text: grouped },
  { name: "nisd_unconfirmed_transactions", title: "Unconfirmed transactions", text: grouped },
  { name: "nisd_loop_step_longest_seconds", title: "Longest loop step", text: milliseconds },
];

/**
 * Parses the text format of Prometheus: sums of the samples by name, without labels.
 * @param {string} text
 * @returns {Map<string, number>}
 */
export function parseFigures(text) {
  const sums = new Map();
  for (const [, name, value] of text.matchAll(/^([A-Za-z_:][\w:]*)(?:\{.*\})? +(\S+)/gm)) {
    const number = Number(value);
    if (!Number.isNaN(number)) sums.set(name, (sums.get(name) ?? 0) + number);
  }
  return sums;
}

/** Values of each metric, oldest first, kept while the page is open. */
const history = new Map(DRAWN.map(({ name }) => [name, []]));

function note(sums) {
  for (const [name, values] of history) {
    if (sums.has(name)) values.push(sums.get(name));
    if (values.length > MOST) values.shift();
  }
}

function figure({ name, title, text }) {
  const values = history.get(name);
  if (values.length === 0) return null;
  return h(
    "div",
    { class: "figure" },
    h("p", { class: "figure-name" }, title),
    h("p", { class: "figure-value" }, text(values.at(-1))),
    line(values.map((value, index) => [index, value])),
  );
}

/** Whether the node returns its metrics to this client. */
let isTold = HAS_METRICS;

/** Requests the metrics, unless they were refused. */
async function ask(signal) {
  try {
    note(parseFigures(await getText("metrics", signal)));
  } catch (error) {
    isTold = !(error instanceof Problem && ["refused", "missing"].includes(error.kind));
  }
}

/**
 * The plots, redrawn every few seconds until the signal aborts. Hidden if the node does not return its metrics.
 * @param {AbortSignal} signal
 */
export function figures(signal) {
  const plots = h("div", { class: "figures" });
  const part = section("This node", plots);
  const draw = () => {
    const drawn = DRAWN.map(figure);
    part.hidden = drawn.every((one) => one === null);
    refill(plots, drawn);
  };
  const goOn = async () => {
    if (!document.hidden) await ask(signal);
    if (!isTold || signal.aborted) return;
    draw();
    setTimeout(goOn, PAUSE_MS);
  };
  draw();
  if (isTold) goOn();
  return part;
}
