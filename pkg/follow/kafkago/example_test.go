// SPDX-License-Identifier: Apache-2.0

package kafkago_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/segmentio/kafka-go"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/follow/kafkago"
	"github.com/berth-project/berth/pkg/wire"
)

// Shows every instance there is, with the addresses and settings of a kafka-go
// client. KAFKA is the address of a broker; TestExample runs this.
func Example() {
	client := &kafka.Client{Addr: kafka.TCP(os.Getenv("KAFKA")), Transport: &kafka.Transport{ClientID: "my-api"}}
	ctx, stop := context.WithCancel(context.Background())
	follower, err := kafkago.New(client, follow.Options{
		Topics: wire.Topics{Prefix: "berth."},
		Handle: func(b follow.Batch) {
			for _, c := range b.Changes {
				switch {
				case c.Err != nil:
					log.Print(c.Err) // written by a newer Berth, perhaps
				case c.Removed():
					fmt.Println("forgotten:", c.ID)
				default:
					fmt.Println(c.Instance.Boot.Name, c.Instance.State, c.Instance.Host, c.Instance.Reason)
				}
			}
			if b.CaughtUp {
				stop() // a program that goes on learns of every change
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(follower.Run(ctx))
}
