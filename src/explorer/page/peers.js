// Other nodes, as this one knows them.

import { foreign, h } from "./dom.js";
import { duration, grouped } from "./format.js";
import { get } from "./node.js";
import { badge, loaded, nothing, refill, section, table } from "./parts.js";
import { IS_LOCAL } from "./settings.js";

/** Time between two questions, and rows that are shown. */
const PAUSE_MS = 30_000;
const MOST = 50;

const STATES = { active: "good", busy: "neutral", untried: "neutral", inactive: "bad", failure: "bad" };
/** In the order in which they are shown. */
const ORDER = Object.keys(STATES);

/** A node without more than anybody is told. */
const publicly = (state) => (node) => ({ node, state });

/** All other nodes: with all that there is to know, or else with their states. */
async function known(signal) {
  if (IS_LOCAL) return (await get("local/peers", {}, signal)).peers;
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
  if (IS_LOCAL) {
    columns.push(
      { name: "Height", class: "number", cell: ({ height }) => (height ? grouped(height.height) : "–") },
      {
        name: "Heard",
        class: "number",
        cell: ({ lastContact }) => (lastContact ? `${duration(lastContact.secondsAgo)} ago` : "–"),
      },
    );
  }
  return [
    table("Other nodes that this one knows", columns, rows),
    peers.length > MOST && h("p", { class: "quiet" }, `${grouped(peers.length - MOST)} others are not shown.`),
  ];
}

const alone = () =>
  nothing(
    "This node knows no others. A private network can consist of one node; to join others, start it with --peer HOST.",
  );

/**
 * The other nodes, asked for anew from time to time until the signal is given.
 * @param {AbortSignal} signal
 */
export function peers(signal) {
  const show = async () => {
    const peers = await known(signal);
    return peers.length > 0 ? peerTable(peers) : alone();
  };
  const place = loaded(signal, show);
  const timer = setInterval(() => {
    // What goes wrong later leaves what is there.
    if (!document.hidden)
      show().then(
        (shown) => refill(place, shown),
        () => {},
      );
  }, PAUSE_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return section("Other nodes", place);
}
