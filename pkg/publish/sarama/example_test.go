// SPDX-License-Identifier: Apache-2.0

package sarama_test

import (
	"context"
	"fmt"
	"log"
	"os"

	ibm "github.com/IBM/sarama"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/sarama"
	"github.com/berth-project/berth/pkg/wire"
)

// Boots a machine through a sarama client. KAFKA is the address of a broker;
// TestExample runs this.
func Example() {
	o := publish.Options{Topics: wire.Topics{Prefix: "berth."}}
	config := ibm.NewConfig()
	sarama.Configure(config, o) // acks, idempotence, partitioner
	client, err := ibm.NewClient([]string{os.Getenv("KAFKA")}, config)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	publisher, err := sarama.New(client, o)
	if err != nil {
		log.Fatal(err) // a setting of the client that would lose requests
	}
	defer func() { _ = publisher.Close() }()
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
