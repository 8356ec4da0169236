// Requests to the node's public interface.

/** Error of a request. */
export class Problem extends Error {
  /**
   * @param {"unreachable" | "starting" | "unavailable" | "missing" | "refused" | "busy" | "failed"} kind
   * @param {string} message of the node, or a replacement
   */
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const KINDS = { 401: "refused", 404: "missing", 429: "busy", 503: "unavailable" };
/** The node's 400 error for an unknown hash. */
const UNKNOWN_HASH = "Hash was not found in cache";
/** The beginning of the node's 503 error while it has no chain; other 503 errors have another reason, or none. */
const LOADING = "NIS_ILLEGAL_STATE_LOADING_CHAIN";
const OVERLOADED = "The node has too much to do for this address at the moment.";
/** Maximum attempts while the node responds 429, and the delay before the next one, times the attempt. */
const ATTEMPTS = 4;
const PAUSE_MS = 1000;
/** JSON strings and numbers. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** An integer that may exceed the exact range of a JavaScript number. */
const LONG_INTEGER = /^-?\d{16,}$/;

/**
 * Parses JSON without loss: an integer of 16 digits or more becomes a string, as numbers are exact only up to 2^53 =
 * 9007199254740992. `BigInt` accepts both, and all amounts go through it.
 */
export const parseExactly = (text) =>
  JSON.parse(text.replace(TOKENS, (token) => (LONG_INTEGER.test(token) ? `"${token}"` : token)));

const pause = (time) => new Promise((done) => setTimeout(done, time));

async function problemOf(response) {
  const told = await response.json().catch(() => ({}));
  const { status, statusText } = response;
  if (told.message === UNKNOWN_HASH) return new Problem("missing", told.message);
  if (told.message?.startsWith(LOADING)) return new Problem("starting", told.message);
  return new Problem(KINDS[status] ?? "failed", told.message ?? (status === 503 ? OVERLOADED : `${status} ${statusText}`));
}

/** Sends a request and returns the 2xx response. */
async function ask(path, options, attempt = 1) {
  let response;
  const headers = new Headers(options.headers);
  const sent = path.startsWith(LOCAL_PATHS) ? secret.value : null;
  if (sent !== null) headers.set("Authorization", `Bearer ${sent}`);
  try {
    response = await fetch(new URL(path, document.baseURI), { cache: "no-store", ...options, headers });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem("unreachable", "the node does not answer");
  }
  if (response.ok) return response;
  if (response.status === 401 && sent !== null && secret.value === sent) {
    secret.value = null;
    secret.onLost();
  }
  if (response.status !== 429 || attempt === ATTEMPTS) throw await problemOf(response);
  await pause(PAUSE_MS * attempt);
  options.signal?.throwIfAborted();
  return ask(path, options, attempt + 1);
}

/** The secret of the node for requests that are for local clients; it is forgotten when the node no longer takes it. */
export const secret = { value: null, onLost: () => {} };
const LOCAL_PATHS = "local/";

const question = (body, accept, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json", Accept: accept },
  body: JSON.stringify(body),
  signal,
});

/**
 * Requests an object by GET.
 * @param {string} path without a leading slash
 * @param {Record<string, string | number>} [parameters]
 * @param {AbortSignal} [signal]
 */
export async function get(path, parameters = {}, signal) {
  const query = new URLSearchParams(parameters).toString();
  const response = await ask(query ? `${path}?${query}` : path, { signal });
  return parseExactly(await response.text());
}

export async function getText(path, signal) {
  return (await ask(path, { signal })).text();
}

export async function post(path, body, signal) {
  const response = await ask(path, question(body, "application/json", signal));
  return parseExactly(await response.text());
}

/** Requests the binary form of an object by POST. */
export async function postForBytes(path, body, signal) {
  const response = await ask(path, question(body, "application/binary", signal));
  return new Uint8Array(await response.arrayBuffer());
}

/** Returns the result of the promise `load`; null if the node does not have the object. */
export async function ifThere(load) {
  try {
    return await load;
  } catch (error) {
    if (error instanceof Problem && error.kind === "missing") return null;
    throw error;
  }
}

export const blockAt = (height, signal) => post("block/at/public", { height }, signal);

/** Caches the result of `load` by key, until `forget` is called. Failed results are not cached. */
export function remembering(load, most = 500) {
  const known = new Map();
  const remember = (key) => {
    if (!known.has(key)) {
      if (known.size >= most) known.clear();
      known.set(
        key,
        load(key).catch((error) => {
          known.delete(key);
          throw error;
        }),
      );
    }
    return known.get(key);
  };
  return Object.assign(remember, { forget: () => known.clear() });
}

const unchanging = remembering((path) => get(path));

/** Requests the description of the node, which does not change while it runs. */
export const nodeInfo = () => unchanging("node/info");

/** Feature bit of a node that finds transactions by hash. */
const FINDS_BY_HASH = 1;
export const findsByHash = async () => ((await nodeInfo()).metaData.features & FINDS_BY_HASH) !== 0;

/** Requests the confirmed transaction that has or contains a hash; null if there is none or no hash lookup. */
export const transactionByHash = async (hash, signal) =>
  (await findsByHash()) ? ifThere(get("transaction/get", { hash, nested: true }, signal)) : null;
