package bench

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"time"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// readyTime is how long queues and agents may take to be ready.
const readyTime = 5 * time.Minute

// offer adds capabilities and flavors, and waits until all queues are open and
// all agents take work.
func (r *run) offer(ctx context.Context, api string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	c, err := client.New(client.Config{Address: api, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, a := range r.cloud.axes {
		if _, err := c.AddCapability(ctx, a, false); err != nil {
			return err
		}
	}
	for _, f := range r.cloud.flavors {
		if _, err := c.AddFlavor(ctx, f, false); err != nil {
			return err
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		open, err := openQueues(ctx, c)
		if err != nil {
			return err
		}
		if open == r.o.Queues && r.ready() == r.o.Hosts {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &compute.Error{
				Op: "get ready", Kind: compute.KindTimeout, Cause: ctx.Err(),
				Message: fmt.Sprintf("%d of %d queues are open and %d of %d agents take work", open, r.o.Queues, r.ready(), r.o.Hosts),
			}
		}
	}
}

func openQueues(ctx context.Context, c *client.Client) (int, error) {
	flavors, err := c.Flavors(ctx)
	open := 0
	for _, f := range flavors {
		open += f.Queues.Open
	}
	return open, err
}

// profile writes a CPU profile until stop is called.
func profile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		_ = f.Close() // it holds nothing
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }, nil // a profile cut short says so when it is read
}
