// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// unreachable is a Kafka that takes nothing.
type unreachable struct{}

func (unreachable) Send(context.Context, ...wire.Record) error { return errors.New("no broker") }

func (unreachable) SendEach(_ context.Context, recs []wire.Record, told func(i int, err error)) {
	sentEach(len(recs), errors.New("no broker"), told)
}

// The agent dies after the first write of a new journal and before its hello
// has arrived: the next life says it, those after that do not.
func TestHelloOutlivesTheAgent(t *testing.T) {
	story(t, fake.Options{}, func(c *cell, dir string) {
		n := c.start(dir, fake.Options{}, nil)
		c.boot(1, "small")
		pass(time.Second)
		stop(c, n)
		if err := fake.NewDriver(c.host, fake.Options{}).Destroy(c.t.Context(), id(1)); err != nil {
			c.t.Fatal(err)
		}
		dir, before := c.t.TempDir(), c.reported(compute.ReportHello, 0)
		stop(c, c.start(dir, fake.Options{}, func(o *Options) { o.Reporter = unreachable{} }))
		n = c.start(dir, fake.Options{}, func(o *Options) { o.Reporter = unreachable{} })
		pass(time.Minute)
		stop(c, n)
		for range 2 {
			n = c.start(dir, fake.Options{}, nil)
			pass(10 * time.Second)
			stop(c, n)
		}
		if got := c.reported(compute.ReportHello, 0) - before; got != 2 {
			c.t.Errorf("%d hellos, want one for each of two partitions", got)
		}
		c.want(compute.StateError) // what only the lost journal knew, nobody has
	})
}
