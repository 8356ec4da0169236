// Addresses, hashes and bytes as text.

import { keccak256 } from "./keccak.js";
import { ripemd160 } from "./ripemd.js";
import { NETWORK_BYTE } from "./settings.js";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/** Maximum number of addresses cached by public key. */
const MOST_REMEMBERED = 5000;
const remembered = new Map();

export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
export const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** Encodes 25 bytes as 40 letters. */
function base32(bytes) {
  let text = "",
    bits = 0,
    buffer = 0;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    for (bits += 8; bits >= 5; bits -= 5) text += ALPHABET[(buffer >>> (bits - 5)) & 31];
    buffer &= (1 << bits) - 1;
  }
  return text;
}

/**
 * Returns the address of a public key.
 * @param {string} publicKey 64 hexadecimal digits
 */
export function addressOf(publicKey) {
  const known = remembered.get(publicKey);
  if (known) return known;
  const body = [NETWORK_BYTE, ...ripemd160(keccak256(fromHex(publicKey)))];
  const address = base32([...body, ...keccak256(Uint8Array.from(body)).subarray(0, 4)]);
  if (remembered.size >= MOST_REMEMBERED) remembered.clear();
  remembered.set(publicKey, address);
  return address;
}

/** Decodes 40 letters to 25 bytes. */
function fromBase32(text) {
  const bytes = [];
  let bits = 0,
    buffer = 0;
  for (const letter of text) {
    buffer = (buffer << 5) | ALPHABET.indexOf(letter);
    bits += 5;
    if (bits >= 8) bytes.push((buffer >>> (bits -= 8)) & 255);
    buffer &= (1 << bits) - 1;
  }
  return Uint8Array.from(bytes);
}

/** Returns an address without hyphens and in upper case, or null if a text cannot be one. */
export function parseAddress(text) {
  const address = text.replace(/[-\s]/g, "").toUpperCase();
  return /^[A-Z2-7]{40}$/.test(address) ? address : null;
}

/** Returns whether a text in the form of an address is valid on this network; the checksum detects typing errors. */
export function isAddress(address) {
  const bytes = fromBase32(address),
    checksum = keccak256(bytes.subarray(0, 21));
  return bytes[0] === NETWORK_BYTE && bytes.subarray(21).every((byte, index) => byte === checksum[index]);
}

/** Returns an address in groups of six. */
export const inGroups = (address) => address.match(/.{1,6}/g).join("-");
