// SPDX-License-Identifier: Apache-2.0

package sarama_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	ibm "github.com/IBM/sarama"
	"go.uber.org/goleak"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/sarama"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMain(m *testing.M) {
	// sarama counts with go-metrics, whose one ticker can never be stopped.
	os.Exit(leaktest.Main(m.Run, goleak.IgnoreAnyFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick")))
}

func options() publish.Options {
	return publish.Options{Topics: wire.Topics{Prefix: wire.DefaultPrefix}}
}

// Settings that would lose, double, misplace or keep back a request are refused by name.
func TestUnfitClients(t *testing.T) {
	b := kafkatest.Embedded(t)
	for field, change := range map[string]func(*ibm.Config){
		"Producer.RequiredAcks": func(c *ibm.Config) {
			c.Producer.RequiredAcks, c.Producer.Idempotent = ibm.WaitForLocal, false
		},
		"Producer.Idempotent": func(c *ibm.Config) { c.Producer.Idempotent = false },
		"Producer.Transaction.ID": func(c *ibm.Config) {
			c.Producer.Transaction.ID = "x"
		},
		"Producer.Return":                 func(c *ibm.Config) { c.Producer.Return.Successes = false },
		"Metadata.AllowAutoTopicCreation": func(c *ibm.Config) { c.Metadata.AllowAutoTopicCreation = true },
		"Producer.Partitioner":            func(c *ibm.Config) { c.Producer.Partitioner = ibm.NewHashPartitioner },
		"Producer.Partitioner ": func(c *ibm.Config) {
			c.Producer.Partitioner = ibm.NewReferenceHashPartitioner
		},
		"Producer.Partitioner  ": func(c *ibm.Config) {
			c.Producer.Partitioner = ibm.NewRoundRobinPartitioner
		},
		"Producer.Flush.Frequency":   func(c *ibm.Config) { c.Producer.Flush.Messages = 100 },
		"Producer.Flush.Frequency ":  func(c *ibm.Config) { c.Producer.Flush.Bytes = 1 << 20 },
		"Producer.Flush.Frequency  ": func(c *ibm.Config) { c.Producer.Flush.Messages, c.Producer.Flush.Bytes = 2, 1<<20 },
		"   ":                        func(c *ibm.Config) { c.Producer.Flush.Messages, c.Producer.Flush.Bytes = 1, 1<<20 },
		"    ": func(c *ibm.Config) {
			c.Producer.Flush.Messages, c.Producer.Flush.Bytes, c.Producer.Flush.Frequency = 100, 1<<20, time.Millisecond
		},
		"":   func(*ibm.Config) {},
		" ":  func(c *ibm.Config) { c.Producer.Partitioner = ibm.NewMurmur2Partitioner },
		"  ": func(c *ibm.Config) { c.Producer.Partitioner = ibm.NewManualPartitioner },
	} {
		want := strings.TrimSpace(field)
		t.Run(want, func(t *testing.T) {
			c := ibm.NewConfig()
			sarama.Configure(c, options())
			change(c)
			client, err := ibm.NewClient(b.Addrs, c)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }() // nothing was sent
			p, err := sarama.New(client, options())
			var e *compute.Error
			named := errors.As(err, &e) && e.Field == want && e.Kind == compute.KindInvalid && e.Remedy != ""
			if want == "" && err != nil || want != "" && !named {
				t.Errorf("%v; want %q named", err, want)
			}
			if p != nil {
				closeTwice(t, p)
			}
		})
	}
}

// A publisher that is closed says so, and is not closed twice.
func closeTwice(t *testing.T, p *publish.Publisher) {
	t.Helper()
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	err := p.Publish(t.Context(), compute.Request{Project: "p", Instance: publish.NewID(), Op: compute.OpDelete})
	if compute.KindOf(err) != compute.KindUnavailable || !strings.Contains(err.Error(), "closed") {
		t.Errorf("%v", err)
	}
}
