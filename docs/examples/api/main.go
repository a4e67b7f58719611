// SPDX-License-Identifier: Apache-2.0

// Command api boots a machine over HTTP, and follows it until it runs. BERTH_API is the address of an API node, and
// BERTH_TOKEN a token where callers sign in.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	c, err := client.New(client.Config{
		Address: os.Getenv("BERTH_API"), Project: "web", Token: os.Getenv("BERTH_TOKEN"),
	})
	if err != nil {
		return err
	}
	// The key is a name of your own for this boot: run the program again, and it is the same machine.
	made, err := c.BootUnder(ctx, "deploy-42", compute.Boot{Name: "web-1", Flavor: "m1.small"})
	if err != nil {
		return err // a *compute.Error: its kind says what to do, its remedy what to mend
	}
	// Present: how it is by now comes first. A connection that is lost is made again, and nothing is missed.
	for told, err := range c.Events(ctx, client.Follow{Instance: made.ID, Present: true}) {
		if err != nil {
			return err
		}
		if told.Event.Instance != made.ID {
			continue // what is there was told
		}
		fmt.Println(told.Event.Name, told.Event.State, told.Event.Host)
		switch told.Event.State {
		case "active":
			return nil
		case "error", "deleted":
			return fmt.Errorf("it ended: %+v", told.Event.Reason)
		}
	}
	return ctx.Err()
}
