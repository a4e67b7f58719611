// SPDX-License-Identifier: Apache-2.0

// Command kafkago boots a machine by a record in Kafka, through kafka-go, and follows it until it runs. KAFKA is the
// address of a broker.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/follow"
	following "github.com/berth-project/berth/pkg/follow/kafkago"
	"github.com/berth-project/berth/pkg/publish"
	publishing "github.com/berth-project/berth/pkg/publish/kafkago"
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
	transport := &kafka.Transport{MetadataTopics: []string{topics.Requests()}} // else it asks about every topic
	defer transport.CloseIdleConnections()
	writer := &kafka.Writer{
		Addr: kafka.TCP(os.Getenv("KAFKA")), Transport: transport, RequiredAcks: kafka.RequireAll,
		Balancer: publishing.Balancer{}, BatchTimeout: time.Millisecond,
	}
	defer func() { _ = writer.Close() }()
	publisher, err := publishing.New(writer, publish.Options{Topics: topics})
	if err != nil {
		return err // a setting of the writer that would lose requests
	}
	boot := compute.Request{
		Project: "web", Op: compute.OpBoot,
		Instance: publish.NewID(), // keep it: with it, a repetition boots nothing more
		Boot:     &compute.Boot{Name: "kafkago-1", Flavor: "m1.small"},
	}
	if err := publisher.Publish(ctx, boot); err != nil {
		return err // KindTimeout and KindUnavailable: it may be there all the same; publish the same once more
	}
	return follows(ctx, boot.Instance)
}

// follows prints each change of the instance until it runs or has ended.
func follows(ctx context.Context, id compute.InstanceID) error {
	client := &kafka.Client{Addr: kafka.TCP(os.Getenv("KAFKA")), Transport: &kafka.Transport{ClientID: "example"}}
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
