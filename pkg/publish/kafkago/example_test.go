// SPDX-License-Identifier: Apache-2.0

package kafkago_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/kafkago"
	"github.com/berth-project/berth/pkg/wire"
)

// Boots a machine through a kafka-go writer. KAFKA is the address of a broker;
// TestExamples runs this.
func Example() {
	transport := &kafka.Transport{MetadataTopics: []string{"berth.requests"}} // otherwise: of every topic, every 6 s
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr: kafka.TCP(os.Getenv("KAFKA")), Transport: transport,
		RequiredAcks: kafka.RequireAll, Balancer: kafkago.Balancer{}, BatchTimeout: time.Millisecond,
	}
	defer func() { _ = writer.Close() }()
	publisher, err := kafkago.New(writer, publish.Options{Topics: wire.Topics{Prefix: "berth."}})
	if err != nil {
		log.Fatal(err) // a setting of the writer that would lose requests
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

// Boots a machine with kafka-go and a JSON document, and no Berth package at
// all. KAFKA is the address of a broker; TestExamples runs this.
func Example_plainJSON() {
	transport := &kafka.Transport{MetadataTopics: []string{"berth.requests"}}
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr: kafka.TCP(os.Getenv("KAFKA")), Transport: transport, BatchTimeout: time.Millisecond,
		RequiredAcks: kafka.RequireAll,        // the default waits for nobody
		Balancer:     kafka.Murmur2Balancer{}, // the default goes round
	}
	defer func() { _ = writer.Close() }()
	const boot = `{
		"project": "web-shop",
		"instance": "0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a",
		"boot": {"name": "web-1", "flavor": "m1.small", "deadline": "600s"}
	}`
	err := writer.WriteMessages(context.Background(), kafka.Message{
		Topic:   "berth.requests",
		Key:     []byte("web-shop"), // the project: it chooses the partition
		Value:   []byte(boot),
		Headers: []kafka.Header{{Key: "content-type", Value: []byte("application/json")}},
	})
	fmt.Println("published:", err)
}
