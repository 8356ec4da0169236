// Sends one transaction of each kind with nem-sdk and waits until each is confirmed. Meanwhile it listens with the SDK's
// own connector, which uses SockJS.
//
//   npm install
//   node nem-sdk.mjs [http://127.0.0.1:7890 [alice.key [http://127.0.0.1:7778]]]
//
// The account of the key file pays for everything; the other accounts are generated.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import sdk from "nem-sdk";

const nem = sdk.default;
const { requests } = nem.com;
const { objects, transactions } = nem.model;

const [url = "http://127.0.0.1:7890", keyFile = "alice.key", websocketUrl = "http://127.0.0.1:7778"] =
  process.argv.slice(2);
const endpoint = (url) => objects.create("endpoint")(...url.match(/^(.*):(\d+)$/).slice(1));
const node = endpoint(url);
const network = nem.model.network.data.testnet.id;
const XEM = 1_000_000;

/** Returns an account of this network. */
function account(privateKey = randomBytes(32).toString("hex")) {
  const publicKey = nem.crypto.keyPair.create(privateKey).publicKey.toString();
  const address = nem.model.address.toAddress(publicKey, network);
  return { publicKey, address, common: objects.create("common")("", privateKey) };
}

/** Returns the account of a key file: its first line that is not a comment. */
function accountOfFile(file) {
  return account(readFileSync(file, "utf8").match(/^\s*([0-9a-f]{64})\s*$/im)[1]);
}

/** Signs and announces a transaction; returns its hash. */
async function announce(sender, kind, content, ...more) {
  const entity = transactions.prepare(kind)(sender.common, content, ...more, network);
  const answer = await transactions.send(sender.common, entity, node);
  assert.equal(answer.message, "SUCCESS", kind);
  return answer.transactionHash.data;
}

/** Waits until the transaction with this hash is confirmed. */
async function confirmed(step, hash) {
  for (let second = 0; second < 120; second++) {
    const found = await requests.transaction.byHash(node, hash).catch(() => null);
    if (found) {
      console.log(`nem-sdk: ${step} confirmed at height ${found.meta.height}, hash ${hash}`);
      return found;
    }
    await sleep(1000);
  }
  throw new Error(`${step} is not confirmed: ${hash}`);
}

async function balance({ address }) {
  return (await requests.account.data(node, address)).account.balance;
}

async function transfer(sender, recipient, xem, message) {
  const content = objects.create("transferTransaction")(recipient.address, xem, message);
  return confirmed("transfer", await announce(sender, "transferTransaction", content));
}

async function namespace(owner, name) {
  const content = objects.create("namespaceProvisionTransaction")(name);
  return confirmed("namespace", await announce(owner, "namespaceProvisionTransaction", content));
}

async function mosaicDefinition(owner, namespaceId, name) {
  const content = objects.get("mosaicDefinitionTransaction");
  Object.assign(content, {
    mosaicName: name,
    namespaceParent: { fqn: namespaceId },
    mosaicDescription: "for trying things out",
    properties: { initialSupply: 1_000_000, divisibility: 3, transferable: true, supplyMutable: true },
  });
  return confirmed("mosaic definition", await announce(owner, "mosaicDefinitionTransaction", content));
}

/** Sends a mosaic; the SDK computes the fee from the definition and the supply, which are requested from the node. */
async function mosaicTransfer(owner, recipient, namespaceId, name, quantity) {
  const content = objects.create("transferTransaction")(recipient.address, 1, "");
  content.mosaics = [objects.create("mosaicAttachment")(namespaceId, name, quantity)];
  const definitions = (await requests.namespace.mosaicDefinitions(node, namespaceId)).data;
  const [mosaicDefinition] = Object.values(nem.utils.helpers.searchMosaicDefinitionArray(definitions, [name]));
  const id = `${namespaceId}:${name}`;
  const { supply } = await requests.mosaic.supply(node, id);
  const known = { [id]: { mosaicDefinition, supply } };
  return confirmed("mosaic transfer", await announce(owner, "mosaicTransferTransaction", content, known));
}

/** Turns an account into a multisig account; all cosignatories must sign for it. */
async function conversion(vault, cosignatories) {
  const content = objects.get("multisigAggregateModification");
  const addition = objects.create("multisigCosignatoryModification");
  content.modifications = cosignatories.map(({ publicKey }) => addition(1, publicKey));
  content.relativeChange = cosignatories.length;
  return confirmed("multisig conversion", await announce(vault, "multisigAggregateModificationTransaction", content));
}

/** Sends from the multisig account: one cosignatory initiates, the other finds it at the node and signs. */
async function multisigTransfer(vault, [first, second], recipient, xem) {
  const content = objects.create("transferTransaction")(recipient.address, xem);
  Object.assign(content, { isMultisig: true, multisigAccount: vault });
  const hash = await announce(first, "transferTransaction", content);
  const inner = await pending(second);
  await announce(second, "signatureTransaction", objects.create("signatureTransaction")(vault.address, inner));
  return confirmed("multisig transfer", hash);
}

/** Returns the hash that waits for the signature of a cosignatory. */
async function pending({ address }) {
  const { data } = await requests.account.transactions.unconfirmed(node, address);
  assert.equal(data.length, 1, "one transaction waits for the cosignatory");
  return data[0].meta.data;
}

/** Listens to an account and to the chain; returns the received messages by channel. */
async function listen({ address }) {
  const { connector, subscribe, requests: wanted } = nem.com.websockets;
  const connection = connector.create(endpoint(websocketUrl), address);
  await connection.connect();
  const heard = { errors: [], height: [], blocks: [], account: [], unconfirmed: [], confirmed: [] };
  const note = (channel) => (message) => heard[channel].push(message);
  subscribe.errors(connection, note("errors"));
  subscribe.chain.height(connection, note("height"));
  subscribe.chain.blocks(connection, note("blocks"));
  subscribe.account.data(connection, note("account"));
  subscribe.account.transactions.unconfirmed(connection, note("unconfirmed"));
  subscribe.account.transactions.confirmed(connection, note("confirmed"));
  wanted.account.data(connection);
  wanted.account.data(connection, "NOBODY");
  return { connection, heard };
}

/** Checks the messages about the owner of 200 XEM, a namespace and a mosaic. */
function checkHeard({ connection, heard }, owner) {
  const [announced, first] = [heard.unconfirmed[0], heard.confirmed[0]];
  assert.equal(heard.errors[0].status, 400);
  assert.ok(heard.height.at(-1).height > heard.height[0].height);
  assert.ok(heard.blocks.some(({ transactions }) => transactions.length > 0));
  assert.equal(heard.account[0].account.address, owner.address);
  assert.ok(heard.account.some(({ account }) => account.balance === 200 * XEM));
  assert.equal(announced.meta.hash.data, first.meta.hash.data);
  assert.equal(first.transaction.amount, 200 * XEM);
  // The transfer to it, its namespace, its mosaic, and the mosaic that it sent.
  assert.equal(heard.confirmed.length, 4);
  connection.socket.close();
  const counts = Object.entries(heard).map(([channel, messages]) => `${channel} ${messages.length}`);
  console.log(`nem-sdk: received by its connector: ${counts.join(", ")}`);
}

async function main() {
  const bank = accountOfFile(keyFile);
  const [owner, vault, friend, first, second] = Array.from({ length: 5 }, () => account());
  const listening = await listen(owner);
  const namespaceId = `nemsdk-${randomBytes(4).toString("hex")}`;

  await Promise.all([transfer(bank, owner, 200, "hello"), transfer(bank, vault, 100)]);
  assert.equal(await balance(owner), 200 * XEM);

  await Promise.all([namespace(owner, namespaceId), conversion(vault, [first, second])]);
  assert.equal((await requests.namespace.info(node, namespaceId)).owner, owner.address);
  assert.equal((await requests.account.data(node, vault.address)).meta.cosignatories.length, 2);

  const [, sent] = await Promise.all([
    mosaicDefinition(owner, namespaceId, "coin"),
    multisigTransfer(vault, [first, second], friend, 10),
  ]);
  assert.equal(sent.transaction.signatures.length, 1);
  assert.equal(await balance(friend), 10 * XEM);
  // Less the fees: conversion 0.5, transfer 0.05, multisig 0.15, cosignature 0.15.
  assert.equal(await balance(vault), 89.15 * XEM);

  await mosaicTransfer(owner, friend, namespaceId, "coin", 5000);
  const { data } = await requests.account.mosaics.owned(node, friend.address);
  assert.equal(data.find(({ mosaicId }) => mosaicId.namespaceId === namespaceId).quantity, 5000);
  // Messages arrive shortly after the confirmation.
  await sleep(2000);
  checkHeard(listening, owner);
}

main()
  .catch((error) => {
    console.error("nem-sdk:", error);
    process.exitCode = 1;
  })
  // Open connections would keep the process alive.
  .finally(() => process.exit());
