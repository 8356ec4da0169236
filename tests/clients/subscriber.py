"""Follows a node and an account over a bare websocket, with handwritten frames, and prints the messages. It ends when
every channel has delivered a message; it fails if that takes too long.

    pip install -r requirements.txt
    python subscriber.py ADDRESS [ws://127.0.0.1:7778/w/messages/websocket [SECONDS]]
"""

import json
import sys
import time

from websockets.sync.client import connect

URL = "ws://127.0.0.1:7778/w/messages/websocket"


def frame(command, headers=(), body=""):
    """Returns a STOMP frame."""
    lines = [command, *(f"{name}:{value}" for name, value in headers)]
    return "\n".join(lines) + "\n\n" + body + "\0"


def parsed(text):
    """Returns command, headers and body of a frame."""
    head, _, body = text.partition("\n\n")
    command, *headers = head.split("\n")
    return command, dict(header.split(":", 1) for header in headers), body.rstrip("\0")


def expect(socket, command, deadline):
    """Returns headers and body of the next frame, which must have this command."""
    received, headers, body = parsed(socket.recv(timeout=max(0, deadline - time.monotonic())))
    assert received == command, (received, headers, body)
    return headers, body


def summary(body):
    """Returns a summary of a message: a height, a transaction or a block."""
    if isinstance(body, int):
        return f"height {body}"
    if "transaction" in body:
        return f"type {body['transaction']['type']}, meta {json.dumps(body['meta'])}"
    return f"height {body['height']}, {len(body['transactions'])} transactions"


def follow(socket, address, deadline):
    """Subscribes to everything, and reads until every channel has delivered a message."""
    silent = {"/blocks/new", "/blocks", f"/unconfirmed/{address}", f"/transactions/{address}"}
    # Old libraries send the payload in single quotes.
    socket.send(frame("SEND", [("destination", "/w/api/account/subscribe")], f"{{'account':'{address}'}}"))
    for number, channel in enumerate(sorted(silent)):
        socket.send(frame("SUBSCRIBE", [("id", f"sub-{number}"), ("destination", channel)]))
    while silent:
        try:
            headers, body = expect(socket, "MESSAGE", deadline)
        except TimeoutError:
            sys.exit(f"subscriber.py: no message on {', '.join(sorted(silent))}")
        channel = headers["destination"]
        print(f"subscriber.py: {channel} {summary(json.loads(body))}", flush=True)
        silent.discard(channel)


def main():
    arguments = dict(enumerate(sys.argv[1:]))
    if 0 not in arguments:
        sys.exit("usage: python subscriber.py ADDRESS [URL [SECONDS]]")
    deadline = time.monotonic() + float(arguments.get(2, 60))
    with connect(arguments.get(1, URL)) as socket:
        # Without any header, as old libraries connect: new heights then arrive as bare numbers.
        socket.send(frame("CONNECT"))
        headers, _ = expect(socket, "CONNECTED", deadline)
        print(f"subscriber.py: connected {json.dumps(headers)}", flush=True)
        follow(socket, arguments[0], deadline)
        socket.send(frame("DISCONNECT", [("receipt", "bye")]))
        while parsed(socket.recv(timeout=5))[0] != "RECEIPT":
            pass


if __name__ == "__main__":
    main()
