// The page as a whole: routes, and the parts around the content.

import { account } from "./account.js";
import { block } from "./block.js";
import { followChain } from "./chain.js";
import { foreign, h } from "./dom.js";
import { grouped, setNetworkTime } from "./format.js";
import { home } from "./home.js";
import { blocks, mosaics, namespaces, transactions } from "./lists.js";
import { want, watch } from "./live.js";
import { mosaic, namespace } from "./names.js";
import { get, nodeInfo } from "./node.js";
import { link, nothing, problem, refill } from "./parts.js";
import { followPool } from "./pool.js";
import { find } from "./search.js";
import { transaction } from "./transaction.js";

/** @typedef {import("./live.js").Wish} Wish */

/**
 * Routes: `(signal, ...parts of the path) => {title, body, wish}`; the wish is what it wants to be told.
 * @type {[RegExp, (signal: AbortSignal, ...parts: string[]) => {title: string, body: any, wish?: Wish}][]}
 */
const ROUTES = [
  [/^$/, home],
  [/^block\/(\d{1,15})(?:\/page\/(\d{1,6}))?$/, block],
  [/^transaction\/([0-9a-fA-F]{64})$/, transaction],
  [/^account\/([A-Z2-7]{40})(?:\/before\/(\d{1,18}))?$/, account],
  [/^namespace\/([^/]+)$/, namespace],
  [/^mosaic\/([^/]+?)(?:\/holders\/(\d{1,10}))?$/, mosaic],
  [/^blocks(?:\/before\/(\d{1,15}))?$/, blocks],
  [/^transactions(?:\/before\/(\d{1,15})(?:\/(\d{1,6}))?)?$/, transactions],
  [/^namespaces(?:\/before\/(\d{1,18}))?$/, namespaces],
  [/^mosaics(?:\/before\/(\d{1,18}))?$/, mosaics],
];
const STATES = {
  connecting: "Connecting…",
  connected: "Live",
  lost: "Not connected; retrying",
};
/** What is wrong with a node that does not follow its network. */
const AILMENTS = { "no peers": "no peers", booting: "the node is starting", "not booted": "the node is not booted" };

const element = (id) => document.getElementById(id);
const main = element("main"),
  field = element("search"),
  told = element("told");
/** Aborted when the user leaves the current content. */
let leaving = new AbortController();

function unknown() {
  return {
    title: "Nothing here",
    body: [h("h1", { tabindex: -1 }, "Nothing here"), nothing(["This link leads nowhere. ", link("", "Overview")])],
  };
}

/** Returns the path in the page's address. */
function path() {
  const text = location.hash.replace(/^#?\/?/, "");
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shows the content of the current address. */
function show() {
  leaving.abort();
  leaving = new AbortController();
  const where = path();
  const route = ROUTES.find(([pattern]) => pattern.test(where));
  const { title, body, wish } = route ? route[1](leaving.signal, ...where.match(route[0]).slice(1)) : unknown();
  document.title = `${title} · nisd`;
  refill(main, body);
  want(wish ?? {});
}

/** Follows a link and moves the focus to the heading. */
function move() {
  show();
  told.replaceChildren();
  scrollTo(0, 0);
  main.querySelector("h1").focus({ preventScroll: true });
}

/** Searches for the text in the field. */
async function search(event) {
  event.preventDefault();
  const text = field.value;
  if (!text.trim()) return;
  try {
    const found = await find(text);
    if (found === null)
      return refill(
        told,
        "Cannot search for ",
        foreign(text.slice(0, 100)),
        ". Enter a height, a hash, an address, a public key, a namespace or a mosaic (name:mosaic).",
      );
    field.value = "";
    told.replaceChildren();
    location.hash = `#/${found}`;
  } catch (error) {
    refill(told, problem(error));
  }
}

function showState(state, sync) {
  const place = element("state");
  const isBehind = state === "connected" && sync?.status === "synchronising";
  const ailment = state === "connected" && AILMENTS[sync?.status];
  place.className = `state ${isBehind ? "behind" : state}`;
  if (isBehind) place.textContent = `Synchronising, ${grouped(sync.behind)} behind`;
  else place.replaceChildren(h("span", {}, STATES[state]), ailment ? `, ${ailment}` : "");
}

/** A slash focuses the search field, as on other sites, unless the user is typing. */
function hearKey(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
  event.preventDefault();
  field.focus();
}

/** Shows the name of this node; nothing while the node does not answer. */
function showNode() {
  nodeInfo().then(
    ({ identity, metaData }) => {
      const name = identity.name ? [foreign(identity.name), ", "] : null;
      refill(element("node"), name, foreign(metaData.platform));
    },
    () => {},
  );
}

/** Ages are by the node's clock, which is requested at first and with each connection. */
const askTime = (state) => state !== "lost" && get("time-sync/network-time").then(setNetworkTime, () => {});

/** The skip link focuses the content without changing the address. */
function skip(event) {
  event.preventDefault();
  main.querySelector("h1").focus();
}

element("search-form").addEventListener("submit", search);
element("skip").addEventListener("click", skip);
addEventListener("hashchange", move);
addEventListener("keydown", hearKey);
watch(showState);
watch(askTime);
followChain();
followPool();
showNode();
show();
