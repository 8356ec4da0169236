// Keccak-256 with the padding of the original submission, as NEM uses it. A 64-bit lane is two words, low word first.

const RATE = 136;
const [ROTATIONS, ORDER] = steps();
const CONSTANTS = constants();

/** Rotation and target of each lane, in the order in which "rho" and "pi" visit them. */
function steps() {
  const rotations = [],
    order = [];
  for (let step = 1, x = 1, y = 0; step <= 24; step++) {
    [x, y] = [y, (2 * x + 3 * y) % 5];
    rotations.push(((step * (step + 1)) / 2) % 64);
    order.push(x + 5 * y);
  }
  return [rotations, order];
}

/** The constants of "iota", two words for each round. */
function constants() {
  const words = new Int32Array(48);
  for (let round = 0, register = 1; round < 24; round++) {
    for (let bit = 0; bit < 7; bit++) {
      const position = (1 << bit) - 1;
      if (register & 1) words[2 * round + (position >> 5)] ^= 1 << (position & 31);
      register = (register << 1) ^ (register & 0x80 ? 0x171 : 0);
    }
  }
  return words;
}

function permute(state) {
  const column = new Int32Array(10),
    row = new Int32Array(10);
  for (let round = 0; round < 24; round++) {
    for (let x = 0; x < 10; x++) column[x] = state[x] ^ state[x + 10] ^ state[x + 20] ^ state[x + 30] ^ state[x + 40];
    for (let x = 0; x < 5; x++) {
      const left = 2 * ((x + 4) % 5),
        right = 2 * ((x + 1) % 5);
      const low = column[left] ^ ((column[right] << 1) | (column[right + 1] >>> 31));
      const high = column[left + 1] ^ ((column[right + 1] << 1) | (column[right] >>> 31));
      for (let lane = 2 * x; lane < 50; lane += 10) {
        state[lane] ^= low;
        state[lane + 1] ^= high;
      }
    }
    let low = state[2],
      high = state[3];
    for (let step = 0; step < 24; step++) {
      const lane = 2 * ORDER[step],
        by = ROTATIONS[step] & 31;
      if (ROTATIONS[step] >= 32) [low, high] = [high, low];
      const [nextLow, nextHigh] = [state[lane], state[lane + 1]];
      state[lane] = by ? (low << by) | (high >>> (32 - by)) : low;
      state[lane + 1] = by ? (high << by) | (low >>> (32 - by)) : high;
      [low, high] = [nextLow, nextHigh];
    }
    for (let y = 0; y < 50; y += 10) {
      row.set(state.subarray(y, y + 10));
      for (let x = 0; x < 10; x++) state[y + x] ^= ~row[(x + 2) % 10] & row[(x + 4) % 10];
    }
    state[0] ^= CONSTANTS[2 * round];
    state[1] ^= CONSTANTS[2 * round + 1];
  }
}

/**
 * Returns the hash of bytes.
 * @param {Uint8Array} bytes
 * @returns {Uint8Array} 32 bytes
 */
export function keccak256(bytes) {
  const padded = new Uint8Array((Math.floor(bytes.length / RATE) + 1) * RATE);
  padded.set(bytes);
  padded[bytes.length] ^= 0x01;
  padded[padded.length - 1] ^= 0x80;
  const view = new DataView(padded.buffer),
    state = new Int32Array(50);
  for (let start = 0; start < padded.length; start += RATE) {
    for (let word = 0; word < RATE / 4; word++) state[word] ^= view.getInt32(start + 4 * word, true);
    permute(state);
  }
  const hash = new DataView(new ArrayBuffer(32));
  for (let word = 0; word < 8; word++) hash.setInt32(4 * word, state[word], true);
  return new Uint8Array(hash.buffer);
}
