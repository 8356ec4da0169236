// The transactions of an account: unconfirmed, confirmed and undone ones, as the stream tells them.

import { h } from "./dom.js";
import { grouped, plural } from "./format.js";
import { hear } from "./live.js";
import { get } from "./node.js";
import { blockLink, link, loaded, nothing, pager, refill, section, transactionLink } from "./parts.js";
import { followTold, withHashes } from "./pool.js";
import { transactionTable } from "./transactions.js";

/** Entries on a page of the list. */
export const PAGE = 25;
/** Maximum numbers of transactions that are kept. */
const MOST_CONFIRMED = 500;
const MOST_LOST = 50;
/** Minimum time between two changes that are told to other parts of the page. */
const CHANGE_MS = 1000;

/** Returns the entry of a list for a confirmed transaction as the node tells it. */
export const entryOf = ({ meta, transaction }) => ({
  transaction,
  hash: meta.hash.data,
  height: meta.height,
  id: meta.id,
});

/** Returns confirmed ones, newest first. */
const newest = (confirmed) => [...confirmed.values()].sort((one, other) => other.id - one.id);

const bySignature = (entries) => new Map(entries.map((one) => [one.transaction.signature, one]));

/**
 * Follows the transactions of an account.
 * @param {string} address
 * @param {AbortSignal} signal
 */
export function payments(address, signal) {
  /** Confirmed ones by their ids, which are in the order of the chain: the last ones, as far as known. */
  let confirmed = new Map();
  /** Whether older ones are on the next page. */
  let hasOlder = false;
  /** @type {Map<string, any> | null} unconfirmed ones by signature */
  let pending = null;
  /** Undone and dropped ones by hash, newest first; each with its `fate`. */
  let lost = new Map();
  /** What the stream has told while the first page is requested. */
  let early = [];
  let isDrawing = false;
  const listeners = new Set();
  let changing = null;

  const lists = { waiting: h("div"), lost: h("div", { role: "status" }), confirmed: h("div") };
  const lostPart = section("Undone and dropped", lists.lost);
  lostPart.hidden = true;

  const draw = () => {
    isDrawing = false;
    if (signal.aborted) return;
    if (pending) refill(lists.waiting, waitingTable([...pending.values()], address));
    lostPart.hidden = lost.size === 0;
    refill(lists.lost, lost.size > 0 && lostTable([...lost.values()], address));
    if (early === null) refill(lists.confirmed, confirmedTable(confirmed, hasOlder, address));
  };
  const change = () => {
    if (isDrawing) return;
    isDrawing = true;
    requestAnimationFrame(draw);
  };
  /** Tells the other parts that the account has changed. */
  const changed = () => {
    changing ??= setTimeout(() => {
      changing = null;
      if (signal.aborted) return;
      listeners.forEach((listener) => listener());
      // A rollback leaves fewer than a page shows.
      if (hasOlder && confirmed.size < PAGE) reload();
    }, CHANGE_MS);
  };

  /** Drops the older ones, which are on the next page. */
  const trim = () => {
    confirmed = new Map(newest(confirmed).slice(0, PAGE).map((one) => [one.id, one]));
    hasOlder = true;
  };
  const lose = (entry, fate) => {
    const { hash } = entry;
    const before = lost.get(hash);
    lost.delete(hash);
    lost = new Map([[hash, { ...before, ...entry, fate }], ...[...lost].slice(0, MOST_LOST - 1)]);
  };
  const undo = (entry) => {
    confirmed.delete(entry.id);
    lose({ ...entry, from: entry.height }, "undone");
  };
  /** Changes the state of a transaction that was undone. */
  const settle = (hash, fate, more = {}) => lost.has(hash) && lost.set(hash, { ...lost.get(hash), fate, ...more });

  const tellers = {
    transaction(told) {
      const entry = entryOf(told);
      confirmed.set(entry.id, entry);
      if (confirmed.size > MOST_CONFIRMED) trim();
      pool.remove((one) => one.hash === entry.hash);
      settle(entry.hash, "confirmed", { height: entry.height });
      changed();
    },
    undone(told) {
      undo(entryOf(told));
      changed();
    },
    rollback({ height, transactions }) {
      if (transactions === "listed") return;
      [...confirmed.values()].filter((one) => one.height > height).forEach(undo);
      changed();
    },
    unconfirmed: ({ meta }) => settle(meta.hash.data, "unconfirmed"),
    left({ hash, status, reason, conflict }) {
      const fate = { status, reason, conflict };
      const before = [...(pending?.values() ?? [])].find((one) => one.hash === hash);
      if (before) lose(before, fate);
      else settle(hash, fate);
    },
  };
  for (const [kind, teller] of Object.entries(tellers)) {
    const take = (told) => {
      if (early === null) teller(told);
      else early.push(() => teller(told));
      change();
    };
    hear(kind, take, signal);
  }
  // After the others, which look whether a transaction is unconfirmed.
  const pool = followTold((known) => {
    pending = known;
    change();
  }, signal);

  const load = async () => {
    const { data } = await get("account/transfers/all", { address, pageSize: PAGE }, signal);
    confirmed = new Map(data.map(entryOf).map((one) => [one.id, one]));
    hasOlder = data.length === PAGE;
    const told = early ?? [];
    early = null;
    told.forEach((one) => one());
    return confirmedTable(confirmed, hasOlder, address);
  };
  const reload = () => load().then(change, () => {});
  // What happened in a gap is not told.
  hear("opened", (_, { isGap }) => isGap && early === null && reload(), signal);
  const waiting = async () => {
    const { data } = await get("account/unconfirmedTransactions", { address }, signal);
    const found = bySignature(await withHashes(data.map(({ transaction }) => transaction)));
    return waitingTable([...(pending ?? found).values()], address);
  };
  lists.waiting = loaded(signal, waiting);
  lists.confirmed = loaded(signal, load);
  return {
    sections: [section("Unconfirmed", lists.waiting), lostPart, section("Transactions", lists.confirmed)],
    /** Calls a function after changes of the account. */
    onChange: (listener) => listeners.add(listener),
  };
}

const missing = ({ missing: addresses }) =>
  addresses?.length > 0 ? `${plural(addresses.length, "signature")} missing` : null;

function waitingTable(entries, address) {
  if (entries.length === 0) return nothing("None.");
  entries.sort((one, other) => other.transaction.timeStamp - one.transaction.timeStamp);
  const fate = entries.some(missing) ? missing : undefined;
  return transactionTable("Unconfirmed transactions of the account", entries, { of: address, fate });
}

/** What became of a transaction after it was undone, or why it was dropped. */
function fateOf({ fate, from, height }) {
  const undone = from ? ["undone in block ", grouped(from)] : [];
  if (fate === "undone") return undone;
  if (fate === "confirmed") return [...undone, ", confirmed again in ", blockLink(height)];
  if (fate === "unconfirmed") return [...undone, ", unconfirmed again"];
  const conflict = fate.conflict ? [": conflicts with ", transactionLink(fate.conflict.hash)] : [];
  return [...undone, undone.length > 0 && ", ", fate.status, fate.reason && `: ${fate.reason}`, ...conflict];
}

const lostTable = (entries, address) => [
  h("p", { class: "quiet" }, "Since this page was opened."),
  transactionTable("Undone and dropped transactions of the account", entries, { of: address, fate: fateOf }),
];

function confirmedTable(confirmed, hasOlder, address) {
  const shown = newest(confirmed).slice(0, PAGE);
  const isMore = shown.length > 0 && (hasOlder || confirmed.size > PAGE);
  return [
    shown.length > 0
      ? transactionTable("Transactions of the account, newest first", shown, { of: address })
      : nothing("No transactions."),
    isMore && pager(link(`account/${address}/before/${shown.at(-1).id}`, "Older", " →")),
  ];
}
