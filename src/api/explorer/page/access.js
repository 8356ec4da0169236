// Local access of this page: the node's own grant, or the secret of the node that the person at the page gives it. The
// secret is kept in memory until the page is left, and sent to this node only.

import { h } from "./dom.js";
import { Problem, get, secret } from "./node.js";
import { ACCESS } from "./settings.js";

const followers = new Set();

/** Returns whether the node answers requests of this page that are for local clients. */
export const isLocal = () => ACCESS === "local" || secret.value !== null;

/** Calls `follower` when this page gets or loses local access, until the signal aborts. */
export function onAccess(follower, signal) {
  followers.add(follower);
  signal.addEventListener("abort", () => followers.delete(follower));
}

const tell = () => followers.forEach((follower) => follower());
secret.onLost = tell;

/** Tries a secret, and keeps it only if the node takes it; the error says why it is of no use. */
async function give(text) {
  if (/[^!-~]/.test(text)) throw new Problem("failed", "It has characters that no secret has. Copy it from the file.");
  secret.value = text;
  try {
    await get("local/reorgs");
  } catch (error) {
    if (secret.value === text) secret.value = null;
    throw error;
  } finally {
    tell();
  }
}

/**
 * A form for the secret, for a page on the machine of its node. Hidden while the page has local access.
 * @param {AbortSignal} signal
 */
export function accessForm(signal) {
  if (ACCESS !== "metrics") return null;
  const field = h("input", { id: "secret", type: "password", autocomplete: "off", required: true });
  const note = h("p", { class: "quiet", role: "status" });
  const submit = async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    field.value = "";
    note.replaceChildren();
    try {
      await give(text);
    } catch (error) {
      const isWrong = error instanceof Problem && error.kind === "refused";
      note.textContent = isWrong ? "This is not the secret of the running node." : error.message;
    }
  };
  const form = h(
    "form",
    { class: "access", onsubmit: submit, hidden: isLocal() },
    h("label", { for: "secret" }, "Heights of the peers and replaced blocks are for the operator. Secret of the node:"),
    h("div", {}, field, h("button", {}, "Show")),
    h(
      "p",
      { class: "quiet" },
      "It is the content of the file ",
      h("code", {}, "local-cookie"),
      " in the node's data folder, and new at each start. This page keeps it in memory only.",
    ),
    note,
  );
  onAccess(() => {
    form.hidden = isLocal();
  }, signal);
  return form;
}
