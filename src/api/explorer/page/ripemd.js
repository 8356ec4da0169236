// RIPEMD-160 of a message of 32 bytes, the only size that addresses need.

const LEFT_WORDS = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [7, 4, 13, 1, 10, 6, 15, 3, 12, 0, 9, 5, 2, 14, 11, 8],
  [3, 10, 14, 4, 9, 15, 8, 1, 2, 7, 0, 6, 13, 11, 5, 12],
  [1, 9, 11, 10, 0, 8, 12, 4, 13, 3, 7, 15, 14, 5, 6, 2],
  [4, 0, 5, 9, 7, 12, 2, 10, 14, 1, 3, 8, 11, 6, 15, 13],
];
const RIGHT_WORDS = [
  [5, 14, 7, 0, 9, 2, 11, 4, 13, 6, 15, 8, 1, 10, 3, 12],
  [6, 11, 3, 7, 0, 13, 5, 10, 14, 15, 8, 12, 4, 9, 1, 2],
  [15, 5, 1, 3, 7, 14, 6, 9, 11, 8, 12, 2, 10, 0, 4, 13],
  [8, 6, 4, 1, 3, 11, 15, 0, 5, 12, 2, 13, 9, 7, 10, 14],
  [12, 15, 10, 4, 1, 5, 8, 7, 6, 2, 13, 14, 0, 3, 9, 11],
];
const LEFT_SHIFTS = [
  [11, 14, 15, 12, 5, 8, 7, 9, 11, 13, 14, 15, 6, 7, 9, 8],
  [7, 6, 8, 13, 11, 9, 7, 15, 7, 12, 15, 9, 11, 7, 13, 12],
  [11, 13, 6, 7, 14, 9, 13, 15, 14, 8, 13, 6, 5, 12, 7, 5],
  [11, 12, 14, 15, 14, 15, 9, 8, 9, 14, 5, 6, 8, 6, 5, 12],
  [9, 15, 5, 11, 6, 8, 13, 12, 5, 12, 13, 14, 11, 8, 5, 6],
];
const RIGHT_SHIFTS = [
  [8, 9, 9, 11, 13, 15, 15, 5, 7, 7, 8, 11, 14, 14, 12, 6],
  [9, 13, 15, 7, 12, 8, 9, 11, 7, 7, 12, 7, 6, 15, 13, 11],
  [9, 7, 15, 11, 8, 6, 6, 14, 12, 13, 5, 14, 13, 13, 7, 5],
  [15, 5, 8, 11, 14, 14, 6, 14, 6, 9, 12, 9, 12, 5, 15, 8],
  [8, 5, 12, 9, 12, 5, 14, 6, 8, 13, 6, 5, 15, 13, 11, 11],
];
const LEFT_CONSTANTS = [0, 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xa953fd4e];
const RIGHT_CONSTANTS = [0x50a28be6, 0x5c4dd124, 0x6d703ef3, 0x7a6d76e9, 0];
const START = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
const MIXES = [
  (x, y, z) => x ^ y ^ z,
  (x, y, z) => (x & y) | (~x & z),
  (x, y, z) => (x | ~y) ^ z,
  (x, y, z) => (x & z) | (y & ~z),
  (x, y, z) => x ^ (y | ~z),
];

const rotate = (word, by) => (word << by) | (word >>> (32 - by));

/** One of the two lines of five rounds. */
function line(message, words, shifts, constants, mixes) {
  let [a, b, c, d, e] = START;
  for (let round = 0; round < 5; round++) {
    for (let step = 0; step < 16; step++) {
      const sum = (a + mixes[round](b, c, d) + message[words[round][step]] + constants[round]) | 0;
      [a, b, c, d, e] = [e, (rotate(sum, shifts[round][step]) + e) | 0, b, rotate(c, 10), d];
    }
  }
  return [a, b, c, d, e];
}

/**
 * Returns the hash of 32 bytes.
 * @param {Uint8Array} bytes
 * @returns {Uint8Array} 20 bytes
 */
export function ripemd160(bytes) {
  const block = new DataView(new ArrayBuffer(64));
  bytes.forEach((byte, index) => block.setUint8(index, byte));
  block.setUint8(32, 0x80);
  block.setUint32(56, 32 * 8, true);
  const message = Array.from({ length: 16 }, (_, word) => block.getInt32(4 * word, true));
  const left = line(message, LEFT_WORDS, LEFT_SHIFTS, LEFT_CONSTANTS, MIXES);
  const right = line(message, RIGHT_WORDS, RIGHT_SHIFTS, RIGHT_CONSTANTS, MIXES.toReversed());
  const hash = new DataView(new ArrayBuffer(20));
  for (let word = 0; word < 5; word++) {
    const sum = START[(word + 1) % 5] + left[(word + 2) % 5] + right[(word + 3) % 5];
    hash.setInt32(4 * word, sum | 0, true);
  }
  return new Uint8Array(hash.buffer);
}
