#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boots a machine over HTTP, and follows it until it runs.

Needs Python 3.8 and nothing else. BERTH_API is the address of an API node, and BERTH_TOKEN a token where callers sign
in.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request

API = os.environ.get("BERTH_API", "http://127.0.0.1:7070")
PROJECT = "web"


def call(method, path, body=None, headers=None, timeout=60):
    """Answers the open response. A refusal that says when to come again is obeyed, three times."""
    request = urllib.request.Request(API + path, method=method, headers=dict(headers or {}))
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if os.environ.get("BERTH_TOKEN"):
        request.add_header("Authorization", "Bearer " + os.environ["BERTH_TOKEN"])
    for left in (3, 2, 1, 0):
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as refused:
            problem = json.load(refused)
            after = refused.headers.get("Retry-After")
            if after is None or left == 0:
                raise SystemExit("%s: %s" % (problem["kind"], problem["detail"]))
            time.sleep(float(after))


def events(path):
    """Yields the name and the data of each server-sent event."""
    with call("GET", path) as stream:
        name, data = "", ""
        for line in stream:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                data += value
            elif field == "" and name:
                yield name, json.loads(data)
                name, data = "", ""


def main():
    # The key is a name of your own for this boot: run the program again, and it is the same machine.
    with call("POST", "/v1/instances", {"project": PROJECT, "name": "web-2", "flavor": "m1.small"},
              {"Idempotency-Key": "deploy-43"}) as answer:
        made = json.load(answer)
    # With present=true, how it is by now comes first. Something comes every 15 s; a minute without ends the connection.
    for name, event in events("/v1/events?project=%s&instance=%s&present=true" % (PROJECT, made["id"])):
        if name not in ("present", "change"):
            continue
        print(event.get("name"), event["state"], event.get("host", ""))
        if event["state"] == "active":
            return 0
        if event["state"] in ("error", "deleted"):
            print(event.get("reason"))
            return 1
    print("the connection ended; begin again with the last id as Last-Event-ID")
    return 1


if __name__ == "__main__":
    sys.exit(main())
