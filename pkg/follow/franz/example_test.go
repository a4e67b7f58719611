// SPDX-License-Identifier: Apache-2.0

package franz_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/follow/franz"
	"github.com/berth-project/berth/pkg/wire"
)

// Shows every instance there is, through the franz-go client that a program has
// anyway. KAFKA is the address of a broker; TestExample runs this.
func Example() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA")))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())
	follower, err := franz.New(client, follow.Options{
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
