// The home page: the current state of the chain and the node.

import { newestBlocks } from "./blocks.js";
import { chainFailure, firstShown, lastBlocks, onBlocks, tip } from "./chain.js";
import { h } from "./dom.js";
import { figures } from "./figures.js";
import { duration, grouped, plural, round, secondsSince } from "./format.js";
import { post } from "./node.js";
import { accountLink, link, nothing, problem, refill, section, table } from "./parts.js";
import { peers } from "./peers.js";
import { bars, share } from "./plot.js";
import { onUnconfirmed, unconfirmed } from "./pool.js";
import { reorgs } from "./reorgs.js";
import { TARGET_SECONDS } from "./settings.js";
import { transactionTable } from "./transactions.js";

/** Maximum numbers of rows. */
const BLOCKS = 12;
const WAITING = 15;
const HARVESTERS = 8;
/** Minimum number of bars to leave space for, so that the first ones are not wide. */
const FEWEST_BARS = 20;

/** Returns the seconds between successive known blocks, oldest first. */
function intervals() {
  const times = lastBlocks()
    .map((block) => block.time)
    .reverse();
  return times.slice(1).map((time, index) => time - times[index]);
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** A number with its name. */
const figure = (name, value, note) =>
  h(
    "div",
    {},
    h("dt", {}, name),
    h("dd", {}, h("span", { class: "value" }, value), note && h("span", { class: "note" }, note)),
  );

/** The numbers at the top. */
function overview() {
  const times = intervals(),
    span = sum(times),
    last = tip();
  // The oldest block marks the start of the time span, so its transactions do not count.
  const count = sum(
    lastBlocks()
      .slice(0, -1)
      .map((block) => block.count),
  );
  const waiting = unconfirmed();
  return h(
    "dl",
    { class: "overview" },
    figure("Height", link(`block/${last.height}`, grouped(last.height)), [h("span", { class: "age" }, age()), " ago"]),
    figure("Transactions per minute", span > 0 ? round((60 * count) / span) : "–", `in ${plural(times.length, "block")}`),
    figure("Block time", times.length > 0 ? duration(span / times.length) : "–", `target ${duration(TARGET_SECONDS)}`),
    figure("Unconfirmed", waiting ? grouped(waiting.length) : "–", "transactions"),
  );
}

const age = () => duration(secondsSince(tip().time));

function blockTimes() {
  const times = intervals();
  if (times.length === 0) return nothing("There is only one block yet.");
  const slowest = Math.max(...times);
  return [
    bars(times, TARGET_SECONDS, Math.max(FEWEST_BARS, times.length)),
    h(
      "p",
      { class: "quiet" },
      `${plural(times.length, "interval")}: ${duration(sum(times) / times.length)} on average, `,
      `${duration(slowest)} at most; the line is the target of ${duration(TARGET_SECONDS)}.`,
    ),
  ];
}

function harvesterTable() {
  const blocks = lastBlocks().filter(({ height }) => height > 1),
    counts = new Map();
  blocks.forEach(({ harvester }) => counts.set(harvester, (counts.get(harvester) ?? 0) + 1));
  const rows = [...counts].sort(([, one], [, other]) => other - one).slice(0, HARVESTERS);
  if (rows.length === 0) return nothing("No block has been harvested yet.");
  return table(
    "Harvesters of the last blocks",
    [
      { name: "Account", cell: ([address]) => accountLink(address) },
      { name: "Blocks", class: "number", cell: ([, count]) => grouped(count) },
      {
        name: "Share",
        class: "share-cell",
        cell: ([, count]) => [share(count / blocks.length), `${Math.round((100 * count) / blocks.length)}\u00a0%`],
      },
    ],
    rows,
  );
}

function waitingTable() {
  const waiting = unconfirmed();
  if (waiting === null) return nothing("Loading…");
  if (waiting.length === 0) return nothing("There are no unconfirmed transactions.");
  const hidden = waiting.length - WAITING;
  return [
    transactionTable("Unconfirmed transactions, newest first", waiting.slice(0, WAITING)),
    hidden > 0 && h("p", { class: "quiet" }, `and ${plural(hidden, "other", "others")}`),
  ];
}

/** Returns how many accounts harvest on this node. */
async function ownHarvesters() {
  const told = await post("account/unlocked/info", {});
  const count = told["num-unlocked"];
  return count === 0
    ? "No account harvests on this node."
    : `${plural(count, "account")} ${count === 1 ? "harvests" : "harvest"} on this node.`;
}

/** Returns everything that is shown once there is a chain. */
function parts(signal) {
  const top = h("div"),
    times = h("div"),
    harvesters = h("div"),
    waiting = h("div");
  const own = h("p", { class: "quiet" });
  onBlocks(() => {
    if (!tip()) return;
    refill(top, overview());
    refill(times, blockTimes());
    refill(harvesters, harvesterTable());
  }, signal);
  onUnconfirmed(() => {
    if (tip()) refill(top, overview());
    refill(waiting, waitingTable());
  }, signal);
  const aging = setInterval(() => top.querySelector(".age")?.replaceChildren(age()), 1000);
  signal.addEventListener("abort", () => clearInterval(aging));
  // Left out if the request fails: another part shows that the node does not answer.
  ownHarvesters().then(
    (text) => own.replaceChildren(text),
    () => {},
  );
  return [
    top,
    h(
      "div",
      { class: "columns" },
      section("Last blocks", newestBlocks("The last blocks, newest first", BLOCKS, signal)),
      h("div", {}, section("Block times", times), section("Harvesters", harvesters, own)),
    ),
    section("Unconfirmed transactions", waiting),
    reorgs(signal),
    peers(signal),
    figures(signal),
  ];
}

/** @param {AbortSignal} signal */
export function home(signal) {
  const place = h("div", {}, nothing("Loading…"));
  let isThere = false;
  onBlocks(() => {
    if (tip() && !isThere) {
      isThere = true;
      refill(place, parts(signal));
    } else if (chainFailure() && !isThere) {
      refill(place, problem(chainFailure()));
    }
  }, signal);
  const wish = { pool: true, first: firstShown };
  return { title: "Overview", wish, body: [h("h1", { tabindex: -1 }, "Overview"), place] };
}
