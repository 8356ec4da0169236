"""Reads the stream of events of a node with a library, and prints each event as one line of JSON. Whenever the stream
ends, it goes on after the last event.

    pip install -r requirements.txt
    python events.py httpx-sse|sseclient-py 'http://127.0.0.1:7890/events?from=1'
"""

import json
import sys
import time

import httpx
import httpx_sse
import sseclient

PAUSE = 0.5
# The node sends a comment after 15 s of silence.
TIMEOUT = httpx.Timeout(5, read=20)


def with_httpx_sse(client, url, headers):
    """Yields the events of one connection."""
    with httpx_sse.connect_sse(client, "GET", url, headers=headers) as source:
        source.response.raise_for_status()
        yield from source.iter_sse()


def with_sseclient(client, url, headers):
    """Yields the events of one connection."""
    with client.stream("GET", url, headers=headers | {"Accept": "text/event-stream"}) as response:
        response.raise_for_status()
        yield from sseclient.SSEClient(response.iter_bytes()).events()


READERS = {"httpx-sse": with_httpx_sse, "sseclient-py": with_sseclient}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in READERS:
        sys.exit("usage: python events.py httpx-sse|sseclient-py URL")
    read, url = READERS[sys.argv[1]], sys.argv[2]
    last = None
    while True:
        with httpx.Client(timeout=TIMEOUT) as client:
            try:
                for event in read(client, url, {"Last-Event-ID": last} if last else {}):
                    last = event.id
                    line = {"id": event.id, "kind": event.event, "data": json.loads(event.data)}
                    print(json.dumps(line), flush=True)
            except httpx.HTTPError:
                pass
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
