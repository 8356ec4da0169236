// Values that the node inserts into the page.

const told = (name) => Number(document.documentElement.dataset[name]);

/** Network byte of addresses. */
export const NETWORK_BYTE = told("networkByte");
/** Target time between blocks in seconds. */
export const TARGET_SECONDS = told("targetSeconds");
/** What the node allows requests of this page: "public", "metrics" or "local". */
const ACCESS = document.documentElement.dataset.access;
/** Whether this page has local access to the node. */
export const IS_LOCAL = ACCESS === "local";
/** Whether the node returns its metrics to this page. */
export const HAS_METRICS = ACCESS !== "public";
/** The ports of the node. */
export const HTTP_PORT = told("httpPort");
export const WEBSOCKET_PORT = told("websocketPort");
