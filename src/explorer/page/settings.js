// What the node says of itself in the page.

const told = (name) => Number(document.documentElement.dataset[name]);

/** The first byte of addresses. */
export const NETWORK_BYTE = told("networkByte");
/** Seconds between blocks that the network aims at. */
export const TARGET_SECONDS = told("targetSeconds");
/** Whether the node tells this browser what it tells its own machine only. */
export const IS_LOCAL = document.documentElement.dataset.isLocal === "true";
/** The ports of the node. */
export const HTTP_PORT = told("httpPort");
export const WEBSOCKET_PORT = told("websocketPort");
