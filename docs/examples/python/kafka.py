#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boots a machine by a JSON record in Kafka.

Needs confluent-kafka. KAFKA is the address of a broker. What became of it says the API: GET /v1/instances/ID.
"""

import json
import os
import sys
import uuid

from confluent_kafka import Producer

PROJECT = "web"


def main():
    producer = Producer({
        "bootstrap.servers": os.environ["KAFKA"],
        "partitioner": "murmur2_random",  # Kafka's own; librdkafka's default puts projects into other partitions
        "enable.idempotence": True,  # and acks=all
        "allow.auto.create.topics": False,  # librdkafka would have brokers make berth.requests as they like
    })
    # Keep the id: with it, a repetition boots nothing more.
    instance = str(uuid.uuid4())
    failed = []
    producer.produce(
        "berth.requests",
        key=PROJECT,
        value=json.dumps({
            "project": PROJECT,
            "instance": instance,
            "boot": {"name": "kafka-py-1", "flavor": "m1.small", "deadline": "600s"},
        }),
        headers={"content-type": "application/json"},
        on_delivery=lambda error, record: failed.append(error) if error else None,
    )
    if producer.flush(30) or failed:
        print("not known to be written; produce the same once more:", failed)
        return 1
    print(instance)
    return 0


if __name__ == "__main__":
    sys.exit(main())
