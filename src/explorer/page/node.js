// Questions to the node, over the interface that is open to everybody.

/** What went wrong with a question. */
export class Problem extends Error {
  /**
   * @param {"unreachable" | "starting" | "missing" | "refused" | "busy" | "failed"} kind
   * @param {string} message what the node said, or a word instead
   */
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const KINDS = { 401: "refused", 404: "missing", 429: "busy", 503: "starting" };
/** The node answers 400 to a hash that it does not know. */
const UNKNOWN_HASH = "Hash was not found in cache";
/** Attempts while the node says that it is asked too often, and the time between them. */
const ATTEMPTS = 4;
const PAUSE_MS = 1000;
/** Strings, and numbers with all their parts. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/** An integer of so many digits may be more than a number of JavaScript holds exactly. */
const LONG_INTEGER = /^-?\d{16,}$/;

/**
 * Reads JSON without loss: an integer of 16 digits or more becomes a string of its digits, as numbers are exact up to
 * 2^53 = 9007199254740992 only. `BigInt` takes either, and all amounts go through it.
 */
export const parseExactly = (text) =>
  JSON.parse(text.replace(TOKENS, (token) => (LONG_INTEGER.test(token) ? `"${token}"` : token)));

const pause = (time) => new Promise((done) => setTimeout(done, time));

async function problemOf(response) {
  const told = await response.json().catch(() => ({}));
  const kind = told.message === UNKNOWN_HASH ? "missing" : (KINDS[response.status] ?? "failed");
  return new Problem(kind, told.message ?? `${response.status} ${response.statusText}`);
}

/** An answer of status 2xx. */
async function ask(path, options, attempt = 1) {
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), { cache: "no-store", ...options });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Problem("unreachable", "the node does not answer");
  }
  if (response.ok) return response;
  if (response.status !== 429 || attempt === ATTEMPTS) throw await problemOf(response);
  await pause(PAUSE_MS * attempt);
  options.signal?.throwIfAborted();
  return ask(path, options, attempt + 1);
}

const question = (body, accept, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json", Accept: accept },
  body: JSON.stringify(body),
  signal,
});

/**
 * An object by GET.
 * @param {string} path without a slash in front
 * @param {Record<string, string | number>} [parameters]
 * @param {AbortSignal} [signal]
 */
export async function get(path, parameters = {}, signal) {
  const query = new URLSearchParams(parameters).toString();
  const response = await ask(query ? `${path}?${query}` : path, { signal });
  return parseExactly(await response.text());
}

/** A text by GET. */
export async function getText(path, signal) {
  return (await ask(path, { signal })).text();
}

/** An object by POST. */
export async function post(path, body, signal) {
  const response = await ask(path, question(body, "application/json", signal));
  return parseExactly(await response.text());
}

/** The binary form of an object, by POST. */
export async function postForBytes(path, body, signal) {
  const response = await ask(path, question(body, "application/binary", signal));
  return new Uint8Array(await response.arrayBuffer());
}

/** What `load` brings; null if the node has no such thing. */
export async function ifThere(load) {
  try {
    return await load;
  } catch (error) {
    if (error instanceof Problem && error.kind === "missing") return null;
    throw error;
  }
}

/** The block at a height. */
export const blockAt = (height, signal) => post("block/at/public", { height }, signal);

/** Something that is asked for once for each key and then remembered; what failed is asked for again. */
export function remembering(load, most = 500) {
  const known = new Map();
  return (key) => {
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
}

const unchanging = remembering((path) => get(path));

/** What the node says of itself; this does not change while it runs. */
export const nodeInfo = () => unchanging("node/info");

/** A bit of the features of a node: whether it finds transactions of the chain by their hashes. */
const FINDS_BY_HASH = 1;
export const findsByHash = async () => ((await nodeInfo()).metaData.features & FINDS_BY_HASH) !== 0;

/** The transaction of the chain that has a hash, or in which that is; null if there is none, or the node does not look. */
export const transactionByHash = async (hash, signal) =>
  (await findsByHash()) ? ifThere(get("transaction/get", { hash, nested: true }, signal)) : null;
