// Values that the node inserts into the page.

const told = (name) => Number(document.documentElement.dataset[name]);

/** Network byte of addresses. */
export const NETWORK_BYTE = told("networkByte");
/** Target time between blocks in seconds. */
export const TARGET_SECONDS = told("targetSeconds");
/** Whether this browser has local access to the node. */
export const IS_LOCAL = document.documentElement.dataset.isLocal === "true";
/** The ports of the node. */
export const HTTP_PORT = told("httpPort");
export const WEBSOCKET_PORT = told("websocketPort");
