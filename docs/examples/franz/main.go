// SPDX-License-Identifier: Apache-2.0

// Command franz boots a machine by a record in Kafka, through franz-go, and follows it until it runs. KAFKA is the
// address of a broker.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/follow"
	following "github.com/berth-project/berth/pkg/follow/franz"
	"github.com/berth-project/berth/pkg/publish"
	publishing "github.com/berth-project/berth/pkg/publish/franz"
	"github.com/berth-project/berth/pkg/wire"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

var topics = wire.Topics{Prefix: wire.DefaultPrefix}

func run(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA")), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer client.Close()
	publisher, err := publishing.New(client, publish.Options{Topics: topics})
	if err != nil {
		return err // a setting of the client that would lose requests
	}
	boot := compute.Request{
		Project: "web", Op: compute.OpBoot,
		Instance: publish.NewID(), // keep it: with it, a repetition boots nothing more
		Boot:     &compute.Boot{Name: "franz-1", Flavor: "m1.small"},
	}
	if err := publisher.Publish(ctx, boot); err != nil {
		return err // KindTimeout and KindUnavailable: it may be there all the same; publish the same once more
	}
	return follows(ctx, boot.Instance, client)
}

// follows prints each change of the instance until it runs or has ended.
func follows(ctx context.Context, id compute.InstanceID, client *kgo.Client) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var last compute.Instance
	follower, err := following.New(client, follow.Options{Topics: topics, Handle: func(b follow.Batch) {
		for _, c := range b.Changes {
			if c.ID != id || c.Instance == nil {
				continue // another one, or a record of a later version
			}
			last = *c.Instance
			fmt.Println(last.Boot.Name, last.State, last.Host)
			if last.State == compute.StateActive || last.State.Ended() {
				stop()
			}
		}
	}})
	if err != nil {
		return err
	}
	if err := follower.Run(ctx); err != nil {
		return err
	}
	if last.State != compute.StateActive {
		return fmt.Errorf("it is %s: %s", last.State, last.Reason)
	}
	return nil
}
