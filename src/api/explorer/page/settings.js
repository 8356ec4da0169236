// Values that the node inserts into the page.

const told = (name) => Number(document.documentElement.dataset[name]);

/** Network byte of addresses. */
export const NETWORK_BYTE = told("networkByte");
/** Target time between blocks in seconds. */
export const TARGET_SECONDS = told("targetSeconds");
/**
 * What the node allows requests of this page: what is "public"; on its own machine the "metrics" too, and with its secret
 * what is for local clients; or all that is "local".
 */
export const ACCESS = document.documentElement.dataset.access;
/** Whether the node returns its metrics to this page. */
export const HAS_METRICS = ACCESS !== "public";
/** The ports of the node. */
export const HTTP_PORT = told("httpPort");
export const WEBSOCKET_PORT = told("websocketPort");
