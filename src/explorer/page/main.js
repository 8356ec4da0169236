// The page as a whole: which part of it is shown, and what stands around it.

import { account } from "./account.js";
import { block } from "./block.js";
import { followChain } from "./chain.js";
import { foreign, h } from "./dom.js";
import { home } from "./home.js";
import { blocks, mosaics, namespaces, transactions } from "./lists.js";
import { connect, watch } from "./live.js";
import { mosaic, namespace } from "./names.js";
import { nodeInfo } from "./node.js";
import { link, nothing, problem, refill } from "./parts.js";
import { followPool } from "./pool.js";
import { find } from "./search.js";
import { transaction } from "./transaction.js";

/**
 * What a path shows: `(signal, ...parts of the path) => {title, body}`.
 * @type {[RegExp, (signal: AbortSignal, ...parts: string[]) => {title: string, body: any}][]}
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
  lost: "Not connected; trying again",
};

const element = (id) => document.getElementById(id);
const main = element("main"),
  field = element("search"),
  told = element("told");
/** Given when what is shown goes. */
let leaving = new AbortController();

function unknown() {
  return {
    title: "Nothing here",
    body: [h("h1", { tabindex: -1 }, "Nothing here"), nothing(["This link leads nowhere. ", link("", "Overview")])],
  };
}

/** The path in the address of the page. */
function path() {
  const text = location.hash.replace(/^#?\/?/, "");
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Shows what the address of the page names. */
function show() {
  leaving.abort();
  leaving = new AbortController();
  const where = path();
  const route = ROUTES.find(([pattern]) => pattern.test(where));
  const { title, body } = route ? route[1](leaving.signal, ...where.match(route[0]).slice(1)) : unknown();
  document.title = `${title} · nisd`;
  refill(main, body);
}

/** Goes to where a link leads: reading begins there. */
function move() {
  show();
  told.replaceChildren();
  scrollTo(0, 0);
  main.querySelector("h1").focus({ preventScroll: true });
}

/** Looks for what is in the field. */
async function search(event) {
  event.preventDefault();
  const text = field.value;
  if (!text.trim()) return;
  try {
    const found = await find(text);
    if (found === null)
      return refill(
        told,
        "Nothing can be called ",
        foreign(text.slice(0, 100)),
        ": a height, a hash, an address, a public key, a namespace or a mosaic (name:mosaic) is looked for.",
      );
    field.value = "";
    told.replaceChildren();
    location.hash = `#/${found}`;
  } catch (error) {
    refill(told, problem(error));
  }
}

function showState(state) {
  const place = element("state");
  place.className = `state ${state}`;
  place.textContent = STATES[state];
}

/** A slash leads to the search, as on other pages, unless somebody is writing. */
function hearKey(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
  event.preventDefault();
  field.focus();
}

/** Says which node this is. While it cannot tell, that is left open. */
function showNode() {
  nodeInfo().then(
    ({ identity, metaData }) => {
      const name = identity.name ? [foreign(identity.name), ", "] : null;
      refill(element("node"), name, foreign(metaData.platform));
    },
    () => {},
  );
}

/** The link over everything leads to what is shown without changing its address. */
function skip(event) {
  event.preventDefault();
  main.querySelector("h1").focus();
}

element("search-form").addEventListener("submit", search);
element("skip").addEventListener("click", skip);
addEventListener("hashchange", move);
addEventListener("keydown", hearKey);
watch(showState);
connect();
followChain();
followPool();
showNode();
show();
