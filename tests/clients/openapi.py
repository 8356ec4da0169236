"""Generates a client from a node's OpenAPI document, and calls every GET with it. Each response must be decoded into its
described type, and be the same when it is encoded again.

    pip install -r requirements.txt
    python openapi.py http://127.0.0.1:7890 ADDRESS FOLDER

ADDRESS is that of an account with a transaction; the chain must also have a mosaic. The client and the document stay in
FOLDER.
"""

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

NODE, ADDRESS, FOLDER = sys.argv[1:4]
# Operations of features that are off by default.
STATUSES = {"getAccountHistoricalData": 500, "getMosaicExpired": 500}


def ask(path):
    """Returns the response of the node to a GET."""
    with urlopen(NODE + path) as answer:
        return answer.read()


def generate():
    """Generates the client; returns its package."""
    folder = Path(FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "openapi.json").write_bytes(ask("/openapi.json"))
    # The code need not be formatted.
    (folder / "config.json").write_text(json.dumps({"post_hooks": []}))
    command = ["generate", "--path", "openapi.json", "--config", "config.json", "--meta", "none", "--fail-on-warning"]
    program = [sys.executable, "-m", "openapi_python_client"]
    subprocess.run([*program, *command, "--output-path", "nis1", "--overwrite"], check=True, cwd=folder)
    sys.path.insert(0, str(folder))
    return importlib.import_module("nis1")


def snake(name):
    """Returns a name in snake case, as modules are named."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name.replace(" ", "")).lower()


def call(client, operation, values):
    """Calls an operation with those of the values that it accepts, and checks the status and the decoded response."""
    tag, name = operation["tags"][0], operation["operationId"]
    module = importlib.import_module(f"nis1.api.{snake(tag)}.{snake(name)}")
    given = {}
    for parameter in inspect.signature(module.sync_detailed).parameters:
        plain = parameter.replace("_", "").lower()
        if plain in values:
            given[parameter] = values[plain]
    answer = module.sync_detailed(client=client, **given)
    read = answer.parsed
    assert answer.status_code == STATUSES.get(name, 200), f"{name}: {answer}"
    assert read is not None, f"{name} is decoded as nothing: {answer.content}"
    if hasattr(read, "to_dict"):
        sent = json.loads(answer.content)
        assert read.to_dict() == sent, f"{name} was decoded as {read.to_dict()}, and sent as {sent}"
    else:
        assert read == answer.content.decode(), f"{name}: {read}"


def main():
    """Calls all GET operations except `/shutdown`, and `/events`, which does not end."""
    client = generate().Client(base_url=NODE)
    block = json.loads(ask("/chain/last-block"))
    transaction = json.loads(ask(f"/account/transfers/all?address={ADDRESS}"))["data"][0]
    mosaic = json.loads(ask("/mosaic/definition/page"))["data"][0]["mosaic"]["id"]
    # The block before the tip can also be found by its hash.
    block_values = {"hash": block["prevBlockHash"]["data"]}
    values = {
        "address": ADDRESS,
        "publickey": block["signer"],
        "hash": transaction["meta"]["hash"]["data"],
        "namespace": mosaic["namespaceId"],
        "mosaicid": f"{mosaic['namespaceId']}:{mosaic['name']}",
        "startheight": 1,
        "endheight": 1,
        "increment": 1,
        "pagesize": 5,
    }
    description = json.loads((Path(FOLDER) / "openapi.json").read_text(encoding="utf8"))
    operations = {path: methods["get"] for path, methods in description["paths"].items() if "get" in methods}
    del operations["/shutdown"], operations["/events"]
    for path, operation in operations.items():
        call(client, operation, block_values if path == "/block/get" else values)
    print(f"a generated Python client: {len(operations)} kinds of responses decoded and encoded again")


if __name__ == "__main__":
    main()
