"""Follows a node over a bare websocket, with frames written by hand, and prints what it is told.

    pip install -r requirements.txt
    python subscriber.py [ws://127.0.0.1:7778/w/messages/websocket [ADDRESS [SECONDS]]]
"""

import json
import sys
import time

from websockets.sync.client import connect

URL = "ws://127.0.0.1:7778/w/messages/websocket"
# Starts multisig transactions in the chain that is compiled into nisd.
ADDRESS = "TCTNP6TE54OAF66MT4K6AFCANMJTPZTYF2JNCPE4"


def frame(command, headers=(), body=""):
    """One STOMP frame."""
    lines = [command, *(f"{name}:{value}" for name, value in headers)]
    return "\n".join(lines) + "\n\n" + body + "\0"


def show(text):
    """Prints a frame from the node in one line."""
    head, _, body = text.partition("\n\n")
    command, *headers = head.split("\n")
    values = dict(header.split(":", 1) for header in headers)
    destination = values.get("destination", "")
    body = body.rstrip("\0")
    if destination == "/blocks":
        block = json.loads(body)
        told = f"height {block['height']}, {len(block['transactions'])} transactions"
    elif destination.startswith("/transactions/"):
        pair = json.loads(body)
        told = f"type {pair['transaction']['type']}, meta {json.dumps(pair['meta'])}"
    else:
        told = repr(body)
    print(command, headers, told, flush=True)


def main():
    arguments = dict(enumerate(sys.argv[1:]))
    address = arguments.get(1, ADDRESS)
    deadline = time.monotonic() + float(arguments.get(2, 20))
    with connect(arguments.get(0, URL)) as socket:
        socket.send(frame("CONNECT"))
        show(socket.recv())
        socket.send(frame("SUBSCRIBE", [("id", "sub-0"), ("destination", "/blocks/new")]))
        socket.send(frame("SUBSCRIBE", [("id", "sub-1"), ("destination", "/blocks")]))
        # Old libraries send the payload in single quotes.
        payload = f"{{'account':'{address}'}}"
        socket.send(frame("SEND", [("destination", "/w/api/account/subscribe")], payload))
        socket.send(frame("SUBSCRIBE", [("id", "sub-2"), ("destination", f"/transactions/{address}")]))
        while (left := deadline - time.monotonic()) > 0:
            try:
                show(socket.recv(timeout=left))
            except TimeoutError:
                break
        socket.send(frame("DISCONNECT", [("receipt", "bye")]))
        while not (text := socket.recv(timeout=5)).startswith("RECEIPT"):
            show(text)
        show(text)


if __name__ == "__main__":
    main()
