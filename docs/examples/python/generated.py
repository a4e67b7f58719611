#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boots a machine through a client that is generated from the API's own document, and follows it until it runs.

Needs Python 3.11, and that client, which these commands make in the folder berth_api:

    pip install openapi-python-client==0.29.1
    openapi-python-client generate --url "$BERTH_API/openapi.json" --meta none --output-path berth_api

BERTH_API is the address of an API node, and BERTH_TOKEN a token where callers sign in.
"""

import json
import os
import sys
import time

from berth_api import AuthenticatedClient, Client
from berth_api.api.instances import boot
from berth_api.models import Boot, Event, EventState, Problem

PROJECT = "web"


def connect():
    api = os.environ.get("BERTH_API", "http://127.0.0.1:7070")
    if os.environ.get("BERTH_TOKEN"):
        return AuthenticatedClient(base_url=api, token=os.environ["BERTH_TOKEN"])
    return Client(base_url=api)


def booted(client):
    """Answers the instance. A refusal that says when to come again is obeyed, three times."""
    for left in (3, 2, 1, 0):
        # The key is a name of your own for this boot: run the program again, and it is the same machine.
        answer = boot.sync_detailed(
            client=client,
            body=Boot(project=PROJECT, name="web-3", flavor="m1.small"),
            idempotency_key="deploy-44",
        )
        if not isinstance(answer.parsed, Problem):
            return answer.parsed
        after = answer.headers.get("Retry-After")
        if after is None or left == 0:
            raise SystemExit("%s: %s" % (answer.parsed.kind, answer.parsed.detail))
        time.sleep(float(after))


def events(client, instance):
    """Yields each event. A generated client does not read streams, but its connection and its models do."""
    # With present=true, how it is by now comes first. Something comes every 15 s; a minute without ends the connection.
    query = {"project": PROJECT, "instance": instance, "present": "true"}
    with client.get_httpx_client().stream("GET", "/v1/events", params=query, timeout=60) as stream:
        stream.raise_for_status()
        name, data = "", ""
        for line in stream.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data += value
            elif field == "" and name:
                if name in ("present", "change"):
                    yield Event.from_dict(json.loads(data))
                name, data = "", ""


def main():
    client = connect()
    for event in events(client, booted(client).id):
        print(event.name, event.state.value, event.host or "")
        if event.state == EventState.ACTIVE:
            return 0
        if event.state in (EventState.ERROR, EventState.DELETED):
            print(event.reason and event.reason.message)
            return 1
    print("the connection ended; begin again with the last id as Last-Event-ID")
    return 1


if __name__ == "__main__":
    sys.exit(main())
