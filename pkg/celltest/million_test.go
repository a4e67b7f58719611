// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/wiretest"
)

// The parts of a control plane are started where many instances are in the log, each
// alone and then all at once, and take a boot. With BERTH_MILLION=1000000 it runs on Kafka
// and is a row of docs/PERFORMANCE.md; without, few enough on the embedded broker to be
// run every time.
func TestMillionRestart(t *testing.T) {
	broker := kafkatest.Embedded
	if os.Getenv("BERTH_MILLION") != "" {
		broker = kafkatest.Kafka
	}
	many := wiretest.Many(t)
	if raced {
		many = min(many, 2000)
	}
	r := newRig(t, broker(t))
	r.up()
	r.offer(r.as("default"), nil, []compute.Flavor{small("m1.small")})
	r.stop("witness")
	var face *statusserver.Server
	made := func(p service.Part, err error) service.Part { r.must(err); return p }
	parts := map[string]func() service.Part{
		"queues": func() service.Part {
			return made(cell.NewQueueManager(r.prepared("queues"), cell.QueueManagerOptions{}))
		},
		"conductor": func() service.Part {
			return made(cell.NewConductor(r.prepared("conductor"), cell.ConductorOptions{Name: "conductor"}))
		},
		"api": func() (p service.Part) {
			p, face = cell.NewAPIWithServer(r.prepared("api"), statusserver.Options{Address: "127.0.0.1:0"}, cell.APIOptions{})
			return p
		},
	}
	begin := func(names ...string) {
		for _, name := range names {
			r.begin(name, parts[name]())
		}
		for _, name := range names {
			r.ready(name)
		}
		if face != nil {
			r.api = face.Addr().String()
		}
	}
	for name := range parts {
		r.stop(name)
	}
	crowd := wiretest.Mixed(many, max(many/1000, 1), time.Now())
	crowd.State = compute.StateActive
	fillLog(t, r, crowd, many)
	begin("queues", "conductor", "api")
	for _, restarted := range [][]string{{"queues"}, {"conductor"}, {"api"}, {"queues", "conductor", "api"}} {
		for _, name := range restarted {
			r.stop(name)
		}
		runtime.GC() // what they knew
		began := time.Now()
		begin(restarted...)
		up := time.Since(began)
		c := r.as("default")
		ids := r.boot(c, 1, compute.Boot{Flavor: "m1.small"})
		r.poll("queued", func() bool {
			now, err := c.Instance(t.Context(), ids[0])
			r.must(err)
			return string(now.State) == compute.StateQueued.String()
		})
		t.Logf(
			"%d instances, %v started again: ready after %.1f s, a boot queued after %.1f s",
			many,
			restarted,
			up.Seconds(),
			time.Since(began).Seconds(),
		)
	}
	shown := 0
	for i := range crowd.Projects {
		list, err := r.as(crowd.Project(i)).Instances(t.Context(), client.Filter{})
		r.must(err)
		if shown += len(list); i == 9 {
			break
		}
	}
	if least := many / crowd.Projects; shown < least {
		t.Errorf("of ten projects %d instances are shown, fewer than one should have", shown)
	}
}

// fillLog writes many instances of a crowd to the log.
func fillLog(t *testing.T, r *rig, crowd wiretest.Crowd, many int) {
	t.Helper()
	c := r.cell("fill")
	g := service.NewGroup()
	log, err := c.Producer(g)
	r.must(err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	for i := 0; i < many; i += 1000 {
		var recs []wire.Record
		for j := i; j < min(i+1000, many); j++ {
			inst := crowd.Instance(j)
			recs = append(
				recs,
				wire.EncodeInstance(inst).To(c.Topics().Instances(), wire.Partition(inst.Project, r.kafka.Partitions)),
			)
		}
		r.must(log.Send(ctx, recs...))
	}
	stop()
	r.must(<-done)
}
