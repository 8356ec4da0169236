// Tests the computations of the page without a browser: hashes, addresses, amounts, metrics.
//
//   node exact.mjs FOLDER        the folder with the modules of the page
import assert from "node:assert/strict";
import { join, resolve } from "node:path";

const folder = resolve(process.argv[2]);
globalThis.document = { documentElement: { dataset: { networkByte: "152" } } };
const load = (name) => import(join(folder, name));

const { keccak256 } = await load("keccak.js");
const { addressOf, isAddress, toHex } = await load("address.js");
const { units } = await load("format.js");
const { moved } = await load("kinds.js");
const { textOf } = await load("message.js");
const { parseExactly } = await load("node.js");
const { parseFigures } = await load("figures.js");

/** Lengths of zero bytes and their hashes: none, and a full block of the function, so that padding adds another. */
const HASHES = [
  [0, "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"],
  [136, "3a5912a7c5faa06ee4fe906253e339467a9ce87d533c65be3c15cb231cdb25f9"],
];
for (const [length, hash] of HASHES) assert.equal(toHex(keccak256(new Uint8Array(length))), hash);

const KEY = "e617190965389d86b3d8954eab00e4417247467b2abef8e54ef4dfbfe24d0dee";
const ADDRESS = "TCB6M7SCSLQEAGOMSROIMNIWHJBIEG6ZSGRUIIS5";
assert.equal(addressOf(KEY), ADDRESS);
assert.ok(isAddress(ADDRESS));
for (const wrong of [ADDRESS.replace("SGR", "SGS"), `N${ADDRESS.slice(1)}`]) assert.ok(!isAddress(wrong), wrong);

// JavaScript numbers are exact up to 2^53; amounts can be greater. Strings stay unchanged.
const { amount, name, share } = parseExactly(
  '{"amount":9007199254740993,"name":"9007199254740993 \\" 1","share":0.12345678901234567}',
);
assert.equal(BigInt(amount), 9007199254740993n);
assert.equal(name, '9007199254740993 " 1');
assert.equal(share, 0.12345678901234567);
for (const [quantity, divisibility, text] of [
  ["9007199254740993", 6, "9,007,199,254.740993"],
  [0, 6, "0"],
  [1, 6, "0.000001"],
  [1_500_000, 6, "1.5"],
  [1234, 0, "1,234"],
  [-5n, 2, "\u22120.05"],
]) {
  assert.equal(units(quantity, divisibility), text);
}
const mosaicId = { namespaceId: "shop", name: "token" };
const [{ quantity }] = moved({
  amount: 8_999_999_999_000_000,
  mosaics: [{ mosaicId, quantity: 8_999_999_999_999_999 }],
});
assert.equal(quantity, 80999999990999991000000001n);

for (const [payload, text] of [
  ["68c3b6", "hö"],
  ["f09f9982", "🙂"],
  ["61eda0bdedb98262", "a🙂b"],
  ["eda0bdedb982eda0bdedb982", "🙂🙂"],
  ["eda0bd", null],
  ["edb982eda0bd", null],
  ["ff", null],
]) {
  assert.equal(textOf(payload), text, payload);
}

const figures = parseFigures('# HELP a b\n# TYPE a gauge\na 1\nb{x="1"} 2\nb{x="}\\" 7"} 3e1 1700000000\nc NaN\n');
assert.deepEqual(
  [...figures],
  [
    ["a", 1],
    ["b", 32],
  ],
);
console.log("explorer: the computations of the page are exact");
