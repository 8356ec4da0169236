// Creates test data for the explorer page on a private network, and prints where it is.
//
//   node scene.mjs HTTP NISD ALICE_KEY BOB_KEY CAROL_KEY TRANSACTIONS
//
// The node signs, as the keys are worthless. Prints the created objects as one line of JSON.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent, request } from "node:http";

const [http, nisd, ...rest] = process.argv.slice(2);
const count = Number(rest.pop());
const XEM = 1_000_000;
const TESTNET = -1744830464;
const HOUR = 3600;
/** Maximum seconds until an announced transaction is confirmed, and number of concurrent announcements. */
const PATIENCE = 240;
const AT_ONCE = 16;
const TRANSFER = 0x0101;
const MODIFICATION = 0x1001;
const COSIGNATURE = 0x1002;
const MULTISIG = 0x1004;
const NAMESPACE = 0x2001;
const DEFINITION = 0x4001;

const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });

/** Sends a request to the node; returns its response. */
function ask(method, path, body) {
  return new Promise((done, failed) => {
    const headers = { "Content-Type": "application/json" };
    const sent = request(http + path, { method, agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part) => {
        text += part;
      });
      response.on("end", () => {
        const answer = text ? JSON.parse(text) : null;
        if (response.statusCode === 200) done(answer);
        else failed(new Error(`${path}: ${text}`));
      });
    });
    sent.on("error", failed);
    sent.end(body && JSON.stringify(body));
  });
}

/** Accounts that receive the fees for namespaces and mosaics. */
const NAMESPACE_SINK = "TAMESPACEWH4MKFMBCVFERDPOOP4FK7MTDJEYP35";
const MOSAIC_SINK = "TBMOSAICOD4F54EE5CDMR23CCBGOAM2XSJBR5OLC";

const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const hex = (text) => Buffer.from(text, "utf8").toString("hex");

/** Returns the account of a key file. */
function accountOf(file) {
  const printed = execFileSync(nisd, ["key", "inspect", "--network", "testnet", file], { encoding: "utf8" });
  return {
    privateKey: readFileSync(file, "utf8").match(/^\s*([0-9a-f]{64})\s*$/im)[1],
    publicKey: printed.match(/[0-9a-f]{64}/)[0],
    address: printed.match(/\bT[A-Z2-7]{39}\b/)[0],
  };
}

async function newAccount() {
  const { privateKey, publicKey, address } = await ask("GET", "/account/generate");
  return { privateKey, publicKey, address };
}

/** Returns an unsigned transaction of an account. */
async function transaction(signer, type, version, fee, fields) {
  const { receiveTimeStamp } = await ask("GET", "/time-sync/network-time");
  const timeStamp = Math.floor(receiveTimeStamp / 1000) - 5;
  return {
    type,
    version: TESTNET + version,
    timeStamp,
    deadline: timeStamp + HOUR,
    fee,
    signer: signer.publicKey,
    ...fields,
  };
}

/** Lets the node sign and announce a transaction; returns its response. */
const offer = (signer, unsigned) =>
  ask("POST", "/transaction/prepare-announce", { transaction: unsigned, privateKey: signer.privateKey });

/** Lets the node sign and announce a transaction; returns its hash. */
async function announce(signer, unsigned) {
  const { message, transactionHash } = await offer(signer, unsigned);
  assert.equal(message, "SUCCESS", JSON.stringify(unsigned));
  return transactionHash.data;
}

const transfer = (from, to, amount, message, { type = 1, mosaics } = {}) =>
  transaction(from, TRANSFER, mosaics ? 2 : 1, 20 * XEM, {
    recipient: to.address,
    amount,
    message: message ? { payload: message, type } : {},
    ...(mosaics && { mosaics }),
  });

/** Waits until a transaction is confirmed. */
async function confirmed(hash) {
  for (let second = 0; second < PATIENCE; second++) {
    const found = await ask("GET", `/transaction/get?hash=${hash}`).catch(({ message }) =>
      assert.match(message, /not found/),
    );
    if (found) return found;
    await sleep(1000);
  }
  throw new Error(`not confirmed: ${hash}`);
}

const allConfirmed = (hashes) => Promise.all(hashes.map(confirmed));

const [alice, bob, carol] = rest.map(accountOf);

const HOSTILE = `<script>document.title = "taken"</script><img src=x onerror="document.title='taken'">
\u202egnp.exe\u202c \u2067right to left \u2069\u2069 ${"long".repeat(200)} &amp; 'quoted' "twice"`;

async function transfers() {
  const plain = await announce(alice, await transfer(alice, bob, 12.5 * XEM, hex("hello, wörld — good morning")));
  const hostile = await announce(alice, await transfer(alice, bob, 1_234_567_890_123, hex(HOSTILE)));
  const encrypted = await announce(bob, await transfer(bob, alice, XEM, "5f".repeat(64), { type: 2 }));
  const bytes = await announce(bob, await transfer(bob, carol, 0, `fe4e545903${"ab".repeat(32)}`));
  return { plain, hostile, encrypted, bytes };
}

const provision = (owner, newPart, parent, rentalFee, sink) =>
  transaction(owner, NAMESPACE, 1, XEM, { rentalFeeSink: sink, rentalFee, newPart, parent });

const mosaic = (owner, name, description, levy) =>
  transaction(owner, DEFINITION, 1, XEM, {
    creationFee: 10 * XEM,
    creationFeeSink: MOSAIC_SINK,
    mosaicDefinition: {
      creator: owner.publicKey,
      description,
      id: { namespaceId: "shop", name },
      levy,
      properties: Object.entries({
        divisibility: 3,
        initialSupply: 1_000_000,
        supplyMutable: true,
        transferable: true,
      }).map(([property, value]) => ({ name: property, value: String(value) })),
    },
  });

async function names() {
  await confirmed(await announce(alice, await provision(alice, "shop", null, 100 * XEM, NAMESPACE_SINK)));
  const levy = { type: 2, fee: 50, recipient: carol.address, mosaicId: { namespaceId: "nem", name: "xem" } };
  const hashes = [
    await announce(alice, await provision(alice, "toys", "shop", 10 * XEM, NAMESPACE_SINK)),
    await announce(alice, await mosaic(alice, "voucher", "A voucher for the shop, with a levy", levy)),
    await announce(
      alice,
      await mosaic(alice, "token", `<b onclick="alert(1)">bold</b> \u202edesrever ${"x".repeat(300)}`, {}),
    ),
  ];
  await allConfirmed(hashes);
  const mosaics = [
    { mosaicId: { namespaceId: "shop", name: "voucher" }, quantity: 1500 },
    { mosaicId: { namespaceId: "shop", name: "token" }, quantity: 2_000_001 },
  ];
  const sent = await announce(alice, await transfer(alice, bob, 2 * XEM, hex("some of each"), { mosaics }));
  await confirmed(sent);
  return { definition: hashes[2], mosaics: sent };
}

/** Creates a multisig account with three cosignatories, of which two must sign. */
async function vault() {
  const account = await newAccount();
  await confirmed(await announce(alice, await transfer(alice, account, 1000 * XEM, null)));
  const modifications = [alice, bob, carol].map(({ publicKey }) => ({
    modificationType: 1,
    cosignatoryAccount: publicKey,
  }));
  await confirmed(
    await announce(
      account,
      await transaction(account, MODIFICATION, 2, 40 * XEM, { modifications, minCosignatories: { relativeChange: 2 } }),
    ),
  );
  return account;
}

const fromVault = async (account, amount) =>
  transaction(alice, MULTISIG, 1, 6 * XEM, {
    otherTrans: await transfer(account, carol, amount, hex("from all of us")),
    signatures: [],
  });

async function multisig() {
  const account = await vault();
  const complete = await announce(alice, await fromVault(account, 10 * XEM));
  const { data } = await ask("GET", `/account/unconfirmedTransactions?address=${account.address}`);
  const otherHash = { data: data.find(({ transaction: one }) => one.type === MULTISIG).meta.data };
  await announce(bob, await transaction(bob, COSIGNATURE, 1, 6 * XEM, { otherHash, otherAccount: account.address }));
  await confirmed(complete);
  const half = await announce(alice, await fromVault(account, 20 * XEM));
  return { vault: account.address, complete, half };
}

/** Creates an account with very many transactions, as fast as the node accepts them from one sender. */
async function busy() {
  const account = await newAccount();
  let next = 0,
    last = null;
  const worker = async () => {
    let draft = await transfer(alice, account, 0, null);
    while (next < count) {
      // Their amounts distinguish them.
      const amount = next++;
      let answer = await offer(alice, { ...draft, amount });
      while (answer.message === "FAILURE_TRANSACTION_CACHE_TOO_FULL") {
        await sleep(1000);
        // The node remembers rejected transactions.
        draft = await transfer(alice, account, 0, null);
        answer = await offer(alice, { ...draft, amount });
      }
      assert.equal(answer.message, "SUCCESS");
      last = answer.transactionHash.data;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  await confirmed(last);
  return { busy: account.address, last };
}

const hashes = await transfers();
const found = await Promise.all([names(), multisig(), allConfirmed(Object.values(hashes))]);
const [named, shared] = found;
const scene = { alice, bob, ...hashes, ...named, ...shared, ...(await busy()), count };
console.log(JSON.stringify(scene));
agent.destroy();
