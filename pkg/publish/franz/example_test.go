// SPDX-License-Identifier: Apache-2.0

package franz_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/franz"
	"github.com/berth-project/berth/pkg/wire"
)

// Boots a machine through the franz-go client that a program has anyway. KAFKA
// is the address of a broker; TestExamples runs this.
func Example() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA")), kgo.ProducerLinger(0))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	publisher, err := franz.New(client, publish.Options{Topics: wire.Topics{Prefix: "berth."}})
	if err != nil {
		log.Fatal(err) // a setting of the client that would lose requests
	}
	boot := compute.Request{
		Project: "web-shop", Op: compute.OpBoot,
		Instance: publish.NewID(), // keep it: with it, a repeat boots nothing more
		Boot:     &compute.Boot{Name: "web-1", Flavor: "m1.small"},
	}
	err = publisher.Publish(context.Background(), boot)
	switch compute.KindOf(err) {
	case compute.KindTimeout, compute.KindUnavailable:
		log.Print(err) // it may have been written: publish the same once more
	default:
		fmt.Println("published:", boot.Boot.Name, err)
	}
}

// Boots a machine with franz-go and a JSON document, and no Berth package at
// all. KAFKA is the address of a broker; TestExamples runs this.
func Example_plainJSON() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	const boot = `{
		"project": "web-shop",
		"instance": "0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a",
		"boot": {"name": "web-1", "flavor": "m1.small", "deadline": "600s"}
	}`
	err = client.ProduceSync(context.Background(), &kgo.Record{
		Topic:   "berth.requests",
		Key:     []byte("web-shop"), // the project: it chooses the partition
		Value:   []byte(boot),
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}},
	}).FirstErr()
	fmt.Println("published:", err)
}
