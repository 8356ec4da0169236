"""Queries and follows a node with the NEM connector of symbol-lightapi: each of its requests once.

    pip install -r requirements.txt
    python symbol-lightapi.py [http://127.0.0.1:7890 [alice.key]]

The account of the key file pays for a transfer to itself.
"""

import asyncio
import re
import sys
from pathlib import Path

from symbolchain.CryptoTypes import Hash256, PrivateKey
from symbolchain.facade.NemFacade import NemFacade
from symbolchain.nc import Amount
from symbolchain.nem.FeeCalculator import calculate_transaction_fee
from symbollightapi.connector.NemConnector import NemConnector
from symbollightapi.model.Constants import TimeoutSettings, TransactionStatus
from symbollightapi.model.Exceptions import HttpException

ARGUMENTS = dict(enumerate(sys.argv[1:]))
NODE = ARGUMENTS.get(0, "http://127.0.0.1:7890")
KEY_FILE = ARGUMENTS.get(1, "alice.key")

facade = NemFacade("testnet")


def account_of_file(path):
    """Returns the account of a key file: its first line that is not a comment."""
    key = re.search(r"^\s*([0-9a-f]{64})\s*$", Path(path).read_text(encoding="utf8"), re.MULTILINE | re.IGNORECASE)
    return facade.create_account(PrivateKey(key[1]))


async def ask(node, account):
    """Queries the node, the account and the currency."""
    height = await node.chain_height()
    assert await node.finalized_chain_height() >= height - 360
    assert (await node.network_time()).timestamp > 0
    assert (await node.block_headers(1))["height"] == 1
    assert (await node.node_info()).node_public_key
    assert await node.peers() == []
    assert await node.balance(account.address) == await node.balance(account.address, ("nem", "xem")) > 0
    assert (await node.account_info(account.address)).address == account.address
    assert (await node.account_info(account.address, forwarded=True)).address == account.address
    assert [info.address for info in await node.account_infos([account.address])] == [account.address]
    assert (await node.mosaic_fee_information(("nem", "xem"))).divisibility == 6
    try:
        await node.transaction_confirmed(Hash256.zero())
        raise AssertionError("there is no such transaction")
    except HttpException as error:
        assert "Hash was not found in cache" in str(error), error
    print(f"symbol-lightapi: queries answered at height {height}")


async def find_in_pool(node, signature):
    """Checks that the mempool contains a transaction. The connector requests the mempool like a peer, but with a
    challenge of 32 bytes, which the node does not sign: it could be the hash of an entity to push in its name."""
    waiting = await node.get_unconfirmed_transactions()
    assert signature in [str(one.signature).upper() for one in waiting], waiting
    short = {"entity": {"hashShortIds": []}, "challenge": {"data": "07" * 32}}
    assert (await node.post("transactions/unconfirmed", short, "signature")) == "00" * 64
    request = {"entity": {"hashShortIds": []}, "challenge": {"data": "07" * 64}}
    waiting = (await node.post("transactions/unconfirmed", request, "entity"))["data"]
    assert signature in [one["signature"].upper() for one in waiting], waiting


async def transfer(node, account):
    """Sends a transfer, and checks all queries that must return it."""
    descriptor = {
        "type": "transfer_transaction_v2",
        "recipient_address": account.address,
        "amount": 1_000_000,
        "message": {"message_type": "plain", "message": "symbol-lightapi"},
        "mosaics": [],
    }
    transaction = facade.create_transaction_from_descriptor(descriptor, account.public_key, 0, 3600)
    transaction.fee = Amount(calculate_transaction_fee(transaction))
    facade.transaction_factory.attach_signature(transaction, account.sign_transaction(transaction))
    transaction_hash = facade.hash_transaction(transaction)
    await node.announce_transaction(transaction)
    await find_in_pool(node, str(transaction.signature))

    settings = TimeoutSettings(100, 1)
    assert await node.try_wait_for_announced_transaction(transaction_hash, TransactionStatus.CONFIRMED, settings)
    [(found, height)] = await node.filter_confirmed_transactions([transaction_hash, Hash256.zero()])
    assert found == transaction_hash
    incoming = await node.incoming_transactions(account.address)
    mine = next(one for one in incoming if one["meta"]["hash"]["data"].upper() == str(transaction_hash))
    older = await node.incoming_transactions(account.address, node.extract_transaction_id(mine))
    assert mine not in older
    block = await node.get_block(height)
    assert str(transaction_hash) in [one.transaction_hash.upper() for one in block.transactions]
    assert (await node.get_blocks_after(height - 1))[0].height == height
    print(f"symbol-lightapi: transfer confirmed at height {height}, hash {transaction_hash}")


async def main():
    node = NemConnector(NODE, facade.network)
    account = account_of_file(KEY_FILE)
    await ask(node, account)
    await transfer(node, account)


asyncio.run(main())
