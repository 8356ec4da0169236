// Sends one transaction of each kind with nem-library and waits until each is confirmed. Meanwhile it listens with the
// library's own listeners, which use SockJS.
//
//   npm install
//   node nem-library.mjs [http://127.0.0.1:7890 [alice.key [http://127.0.0.1:7778]]]
//
// The account of the key file pays for everything; the other accounts are generated.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import nem from "nem-library";

nem.NEMLibrary.bootstrap(nem.NetworkTypes.TEST_NET);

const [url = "http://127.0.0.1:7890", keyFile = "alice.key", websocketUrl = "http://127.0.0.1:7778"] =
  process.argv.slice(2);
const nodesAt = (url) => {
  const { hostname: domain, port } = new URL(url);
  return [{ protocol: "http", domain, port }];
};
const nodes = nodesAt(url);
const accounts = new nem.AccountHttp(nodes);
const mosaics = new nem.MosaicHttp(nodes);
const namespaces = new nem.NamespaceHttp(nodes);
const transactions = new nem.TransactionHttp(nodes);
const XEM = 1_000_000;

/** Returns the account of a key file: its first line that is not a comment. */
function accountOfFile(file) {
  return nem.Account.createWithPrivateKey(readFileSync(file, "utf8").match(/^\s*([0-9a-f]{64})\s*$/im)[1]);
}

/** Signs and announces a transaction, which the node must accept; returns its hash. */
async function announce(sender, transaction) {
  const answer = await transactions.announceTransaction(sender.signTransaction(transaction)).toPromise();
  return answer.transactionHash.data;
}

/** Waits until the transaction with this hash is confirmed. */
async function confirmed(step, hash) {
  for (let second = 0; second < 120; second++) {
    const found = await transactions.getByHash(hash).toPromise().catch(() => null);
    if (found) {
      console.log(`nem-library: ${step} confirmed at height ${found.getTransactionInfo().height}, hash ${hash}`);
      return found;
    }
    await sleep(1000);
  }
  throw new Error(`${step} is not confirmed: ${hash}`);
}

/** Returns a time window of two hours from now. */
function window() {
  return nem.TimeWindow.createWithDeadline();
}

/** Returns the XEM of an account, as a mosaic: the library cannot read accounts that have never sent a transaction. */
async function balance({ address }) {
  const owned = await accounts.getMosaicOwnedByAddress(address).toPromise();
  return owned.find(({ mosaicId }) => mosaicId.equals(nem.XEM.MOSAICID)).quantity;
}

function xemTransfer(recipient, xem, message = nem.EmptyMessage) {
  return nem.TransferTransaction.create(window(), recipient.address, new nem.XEM(xem), message);
}

async function transfer(sender, recipient, xem, message) {
  return confirmed("transfer", await announce(sender, xemTransfer(recipient, xem, message)));
}

async function namespace(owner, name) {
  return confirmed("namespace", await announce(owner, nem.ProvisionNamespaceTransaction.createRoot(window(), name)));
}

async function mosaicDefinition(owner, id) {
  // Divisibility, initial supply, transferable, supply mutable.
  const properties = new nem.MosaicProperties(3, 1_000_000, true, true);
  const publicAccount = nem.PublicAccount.createWithPublicKey(owner.publicKey);
  const definition = new nem.MosaicDefinition(publicAccount, id, "for trying things out", properties);
  const transaction = nem.MosaicDefinitionCreationTransaction.create(window(), definition);
  return confirmed("mosaic definition", await announce(owner, transaction));
}

/** Sends a mosaic; the library computes the fee from the definition, which it requests from the node. */
async function mosaicTransfer(owner, recipient, id, amount) {
  const attachment = await mosaics.getMosaicTransferableWithAmount(id, amount).toPromise();
  const { address } = recipient;
  const transaction = nem.TransferTransaction.createWithMosaics(window(), address, [attachment], nem.EmptyMessage);
  return confirmed("mosaic transfer", await announce(owner, transaction));
}

/** Turns an account into a multisig account; all cosignatories must sign for it. */
async function conversion(vault, cosignatories) {
  const additions = cosignatories.map(
    ({ publicKey }) =>
      new nem.CosignatoryModification(
        nem.PublicAccount.createWithPublicKey(publicKey),
        nem.CosignatoryModificationAction.ADD,
      ),
  );
  // The node requires the order of their addresses.
  additions.sort((a, b) => (a.cosignatoryAccount.address.plain() < b.cosignatoryAccount.address.plain() ? -1 : 1));
  const { length } = cosignatories;
  const transaction = nem.MultisigAggregateModificationTransaction.create(window(), additions, length);
  return confirmed("multisig conversion", await announce(vault, transaction));
}

/** Sends from the multisig account: one cosignatory initiates, the other finds it at the node and signs. */
async function multisigTransfer(vault, [first, second], recipient, xem) {
  const publicAccount = nem.PublicAccount.createWithPublicKey(vault.publicKey);
  const inner = xemTransfer(recipient, xem);
  const hash = await announce(first, nem.MultisigTransaction.create(window(), inner, publicAccount));
  const waiting = await accounts.unconfirmedTransactions(second.address).toPromise();
  const { hashData } = waiting.find((transaction) => transaction.isPendingToSign());
  await announce(second, nem.MultisigSignatureTransaction.create(window(), vault.address, hashData));
  return confirmed("multisig transfer", hash);
}

/** Listens to two accounts and to the chain; returns the received values by listener. */
function listen({ address }, bank) {
  const listeners = nodesAt(websocketUrl);
  const heard = { height: [], block: [], account: [], unconfirmed: [], confirmed: [] };
  const note = (name, observable) =>
    observable.subscribe((value) => heard[name].push(value), (error) => console.error(`nem-library: ${name}:`, error));
  note("height", new nem.BlockchainListener(listeners).newHeight());
  note("block", new nem.BlockchainListener(listeners).newBlock());
  // The library cannot read accounts that have never sent a transaction; this one has.
  note("account", new nem.AccountListener(listeners).given(bank.address));
  note("unconfirmed", new nem.UnconfirmedTransactionListener(listeners).given(address));
  note("confirmed", new nem.ConfirmedTransactionListener(listeners).given(address));
  return heard;
}

/** Checks the messages about the owner of 200 XEM, a namespace and a mosaic, and about the paying account. */
function checkHeard(heard, bank) {
  const counts = Object.entries(heard).map(([name, values]) => `${name} ${values.length}`);
  console.log(`nem-library: received by its listeners: ${counts.join(", ")}`);
  assert.ok(Number.isInteger(heard.height[0]) && heard.height.length > 1);
  assert.ok(heard.block.length > 1);
  // One block can contain all payments of the bank.
  assert.ok(heard.account.length > 0);
  assert.ok(heard.account.every(({ publicAccount }) => publicAccount.address.equals(bank.address)));
  assert.equal(heard.confirmed.length, 4);
  assert.equal(heard.unconfirmed.length, 4);
}

async function main() {
  const bank = accountOfFile(keyFile);
  const [owner, vault, friend, first, second] = Array.from({ length: 5 }, () => nem.Account.generateAccount());
  const heard = listen(owner, bank);
  // The library does not report when its listeners are connected.
  await sleep(5000);
  const coin = new nem.MosaicId(`nemlib-${randomBytes(4).toString("hex")}`, "coin");

  await Promise.all([transfer(bank, owner, 200, nem.PlainMessage.create("hello")), transfer(bank, vault, 100)]);
  assert.equal(await balance(owner), 200 * XEM);

  await Promise.all([namespace(owner, coin.namespaceId), conversion(vault, [first, second])]);
  const found = await namespaces.getNamespace(coin.namespaceId).toPromise();
  assert.equal(found.owner.plain(), owner.address.plain());

  const [, sent] = await Promise.all([
    mosaicDefinition(owner, coin),
    multisigTransfer(vault, [first, second], friend, 10),
  ]);
  assert.equal(sent.signatures.length, 1);
  assert.equal(await balance(friend), 10 * XEM);
  // Less the fees: conversion 0.5, transfer 0.05, multisig 0.15, cosignature 0.15.
  assert.equal(await balance(vault), 89.15 * XEM);

  await mosaicTransfer(owner, friend, coin, 5);
  const owned = await accounts.getMosaicOwnedByAddress(friend.address).toPromise();
  assert.equal(owned.find(({ mosaicId }) => mosaicId.equals(coin)).quantity, 5000);
  // Messages arrive shortly after the confirmation.
  await sleep(2000);
  checkHeard(heard, bank);
}

main()
  .catch((error) => {
    console.error("nem-library:", error.stack);
    process.exitCode = 1;
  })
  // Open connections would keep the process alive.
  .finally(() => process.exit());
