"""Sends one transaction of each kind with symbol-sdk-python's NEM facade, and waits until each is confirmed.

    pip install -r requirements.txt
    python symbol-sdk.py [http://127.0.0.1:7890 [alice.key]]

The account of the key file pays for everything; the other accounts are generated.
"""

import json
import re
import secrets
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from symbolchain.CryptoTypes import PrivateKey
from symbolchain.facade.NemFacade import NemFacade
from symbolchain.nc import Amount
from symbolchain.nem.FeeCalculator import (
    calculate_mosaic_rental_fee,
    calculate_namespace_rental_fee,
    calculate_transaction_fee,
)

ARGUMENTS = dict(enumerate(sys.argv[1:]))
NODE = ARGUMENTS.get(0, "http://127.0.0.1:7890")
KEY_FILE = ARGUMENTS.get(1, "alice.key")
XEM = 1_000_000
NAMESPACE_SINK = "TAMESPACEWH4MKFMBCVFERDPOOP4FK7MTDJEYP35"
MOSAIC_SINK = "TBMOSAICOD4F54EE5CDMR23CCBGOAM2XSJBR5OLC"

facade = NemFacade("testnet")


def call(path, body=None):
    """Returns the response of the node: the SDK itself has no HTTP client."""
    request = Request(NODE + path, body and body.encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=10) as answer:
        return json.load(answer)


def account_of_file(path):
    """Returns the account of a key file: its first line that is not a comment."""
    key = re.search(r"^\s*([0-9a-f]{64})\s*$", Path(path).read_text(encoding="utf8"), re.MULTILINE | re.IGNORECASE)
    return facade.create_account(PrivateKey(key[1]))


def made(signer_public_key, descriptor, mosaics=None):
    """Returns an unsigned transaction with the minimum fee."""
    transaction = facade.create_transaction_from_descriptor(descriptor, signer_public_key, 0, 3600)
    transaction.fee = Amount(calculate_transaction_fee(transaction, mosaics))
    return transaction


def announce(sender, transaction):
    """Signs and announces a transaction, which the node must accept; returns its hash."""
    signature = sender.sign_transaction(transaction)
    answer = call("/transaction/announce", facade.transaction_factory.attach_signature(transaction, signature))
    assert answer["message"] == "SUCCESS", (transaction, answer)
    assert answer["transactionHash"]["data"].upper() == str(facade.hash_transaction(transaction))
    return answer["transactionHash"]["data"]


def confirmed(step, transaction_hash):
    """Waits until the transaction with this hash is confirmed."""
    for _ in range(120):
        try:
            found = call(f"/transaction/get?hash={transaction_hash}")
        except HTTPError:
            time.sleep(1)
            continue
        height = found["meta"]["height"]
        print(f"symbol-sdk-python: {step} confirmed at height {height}, hash {transaction_hash}", flush=True)
        return found
    raise TimeoutError(f"{step} is not confirmed: {transaction_hash}")


def balance(account):
    return call(f"/account/get?address={account.address}")["account"]["balance"]


def transfer(sender_public_key, recipient, xem, message=None):
    # Version 2, also without mosaics: the SDK computes no fees for version 1.
    descriptor = {"type": "transfer_transaction_v2", "recipient_address": recipient.address, "amount": xem * XEM}
    if message:
        descriptor["message"] = {"message_type": "plain", "message": message}
    return made(sender_public_key, descriptor)


def namespace(owner, name):
    return made(owner.public_key, {
        "type": "namespace_registration_transaction_v1",
        "rental_fee_sink": NAMESPACE_SINK,
        "rental_fee": calculate_namespace_rental_fee(is_root=True),
        "name": name,
    })


def mosaic_definition(owner, mosaic_id):
    # The node requires this order.
    properties = {"divisibility": "3", "initialSupply": "1000000", "supplyMutable": "true", "transferable": "true"}
    return made(owner.public_key, {
        "type": "mosaic_definition_transaction_v1",
        "mosaic_definition": {
            "owner_public_key": owner.public_key,
            "id": mosaic_id,
            "description": "for trying things out",
            "properties": [{"property_": {"name": name, "value": value}} for name, value in properties.items()],
        },
        "rental_fee_sink": MOSAIC_SINK,
        "rental_fee": calculate_mosaic_rental_fee(),
    })


def mosaic_transfer(owner, recipient, mosaic_id, quantity):
    """Returns a transfer of a mosaic; the SDK computes the fee from divisibility and supply, which the node returns."""
    name = f"{mosaic_id['namespace_id']['name']}:{mosaic_id['name']}"
    properties = call(f"/mosaic/definition?mosaicId={name}")["properties"]
    divisibility = int(next(item["value"] for item in properties if item["name"] == "divisibility"))
    supply = call(f"/mosaic/supply?mosaicId={name}")["supply"]
    descriptor = {
        "type": "transfer_transaction_v2",
        "recipient_address": recipient.address,
        "amount": 1 * XEM,
        "mosaics": [{"mosaic": {"mosaic_id": mosaic_id, "amount": quantity}}],
    }
    return made(owner.public_key, descriptor, {name: {"divisibility": divisibility, "supply": supply}})


def cosignatories():
    """Returns two accounts. The SDK sorts them by their decoded addresses, the protocol by their text, in which digits
    precede letters. If the orders differ, nodes reject the SDK's signature, so such accounts are not used."""
    while True:
        pair = [facade.create_account(PrivateKey.random()) for _ in range(2)]
        if (pair[0].address.bytes < pair[1].address.bytes) == (str(pair[0].address) < str(pair[1].address)):
            return pair


def conversion(vault, additional):
    """Returns the transaction that turns an account into a multisig account; all cosignatories must sign for it."""
    additions = [
        {"modification": {"modification_type": "add_cosignatory", "cosignatory_public_key": account.public_key}}
        for account in additional
    ]
    return made(vault.public_key, {
        "type": "multisig_account_modification_transaction_v2",
        "min_approval_delta": len(additional),
        "modifications": additions,
    })


def announce_multisig(vault, first, second, inner):
    """Sends from the multisig account: one cosignatory initiates, the other finds it at the node and signs."""
    outer = made(first.public_key, {
        "type": "multisig_transaction_v1",
        "inner_transaction": facade.transaction_factory.to_non_verifiable_transaction(inner),
    })
    outer_hash = announce(first, outer)
    [waiting] = call(f"/account/unconfirmedTransactions?address={second.address}")["data"]
    assert waiting["meta"]["data"].upper() == str(facade.hash_transaction(inner))
    announce(second, made(second.public_key, {
        "type": "cosignature_v1",
        "other_transaction_hash": waiting["meta"]["data"],
        "multisig_account_address": vault.address,
    }))
    return outer_hash


def main():
    bank = account_of_file(KEY_FILE)
    owner, vault, friend = (facade.create_account(PrivateKey.random()) for _ in range(3))
    first, second = cosignatories()
    coin = {"namespace_id": {"name": f"symbol-{secrets.token_hex(4)}"}, "name": "coin"}
    namespace_name = coin["namespace_id"]["name"]

    gifts = [announce(bank, transfer(bank.public_key, to, xem, "hello")) for to, xem in ((owner, 200), (vault, 100))]
    for gift in gifts:
        confirmed("transfer", gift)
    assert balance(owner) == 200 * XEM

    provision = announce(owner, namespace(owner, namespace_name))
    modification = announce(vault, conversion(vault, [first, second]))
    confirmed("namespace", provision)
    confirmed("multisig conversion", modification)
    assert call(f"/namespace?namespace={namespace_name}")["owner"] == str(owner.address)
    assert len(call(f"/account/get?address={vault.address}")["meta"]["cosignatories"]) == 2

    definition = announce(owner, mosaic_definition(owner, coin))
    multisig = announce_multisig(vault, first, second, transfer(vault.public_key, friend, 10))
    confirmed("mosaic definition", definition)
    assert len(confirmed("multisig transfer", multisig)["transaction"]["signatures"]) == 1
    assert balance(friend) == 10 * XEM
    # Less the fees: conversion 0.5, transfer 0.05, multisig 0.15, cosignature 0.15.
    assert balance(vault) == 89_150_000

    confirmed("mosaic transfer", announce(owner, mosaic_transfer(owner, friend, coin, 5000)))
    owned = call(f"/account/mosaic/owned?address={friend.address}")["data"]
    assert [item["quantity"] for item in owned if item["mosaicId"]["namespaceId"] == namespace_name] == [5000]


if __name__ == "__main__":
    main()
