// The peers of this node.

import { accessForm, isLocal, onAccess } from "./access.js";
import { foreign, h } from "./dom.js";
import { duration, grouped } from "./format.js";
import { get } from "./node.js";
import { badge, loaded, nothing, refill, section, table } from "./parts.js";

/** Polling interval, and maximum number of rows. */
const PAUSE_MS = 30_000;
const MOST = 50;

const STATES = { active: "good", busy: "neutral", untried: "neutral", inactive: "bad", failure: "bad" };
/** In display order. */
const ORDER = Object.keys(STATES);

/** A peer with its public data only. */
const publicly = (state) => (node) => ({ node, state });

/** Returns all peers: with all details for a local client, otherwise with their states only. */
async function known(signal) {
  if (isLocal()) return (await get("local/peers", {}, signal)).peers;
  const lists = await get("node/peer-list/all", {}, signal);
  return ORDER.flatMap((state) => (lists[state] ?? []).map(publicly(state)));
}

function peerTable(peers) {
  const rows = peers.toSorted((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state)).slice(0, MOST);
  const columns = [
    { name: "Name", cell: ({ node }) => foreign(node.identity?.name ?? "–") },
    { name: "Address", class: "wide", cell: ({ node }) => foreign(`${node.endpoint.host}:${node.endpoint.port}`) },
    { name: "State", cell: ({ state }) => badge(state, STATES[state]) },
    { name: "Version", class: "wide", cell: ({ node }) => foreign(node.metaData?.version ?? "–") },
  ];
  if (isLocal()) {
    columns.push(
      { name: "Height", class: "number", cell: ({ height }) => (height?.height ? grouped(height.height) : "–") },
      {
        name: "Last answer",
        class: "number",
        cell: ({ lastContact }) => (lastContact ? `${duration(lastContact.secondsAgo)} ago` : "–"),
      },
    );
  }
  return [
    table("Peers of this node", columns, rows),
    peers.length > MOST && h("p", { class: "quiet" }, `${grouped(peers.length - MOST)} more are not shown.`),
  ];
}

const alone = () =>
  nothing(
    "This node has no peers. A private network can consist of one node; to join others, start it with --peer HOST.",
  );

/**
 * The peers, refreshed periodically until the signal aborts.
 * @param {AbortSignal} signal
 */
export function peers(signal) {
  const show = async () => {
    const peers = await known(signal);
    return peers.length > 0 ? peerTable(peers) : alone();
  };
  const place = loaded(signal, show);
  const again = () =>
    show().then(
      (shown) => refill(place, shown),
      // A later failure leaves the content as it is.
      () => {},
    );
  const timer = setInterval(() => document.hidden || again(), PAUSE_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  onAccess(again, signal);
  return section("Peers", place, accessForm(signal));
}
