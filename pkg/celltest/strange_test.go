// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Requests of random bytes, of a later schema, for another project's instance,
// and in a partition that is not their project's: each is in rejected with its
// reason, and nobody acts on any.
func TestStrangeRequests(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(1)...)
		r.metrics = telemetry.NewMetrics()
		c := r.upWithOne()
		refused, topics := r.refusals(), r.cell("").Topics()
		mine := r.boot(c, 3, compute.Boot{Flavor: "m1.small"})
		r.await(mine, compute.StateActive)
		home := wire.Partition("p", r.kafka.Partitions)
		near, far := r.neighbours("p")
		request := func(p compute.Project, id compute.InstanceID, op compute.RequestOp, at int32) wire.Record {
			q := compute.Request{Project: p, Instance: id, Op: op}
			if op == compute.OpBoot {
				q.Boot = &compute.Boot{Flavor: "m1.small"}
			}
			return wire.EncodeRequest(q).To(topics.Requests(), at)
		}
		later := func(rec wire.Record) wire.Record {
			rec.Headers = append(rec.Headers, wire.Header{Key: wire.HeaderSchema, Value: fmt.Append(nil, wire.Schema+1)})
			return rec
		}
		away := (home + 1) % r.kafka.Partitions
		bad := []wire.Record{
			later(request("p", mine[0], compute.OpDelete, home)),
			later(request("p", compute.InstanceID(uuid.NewString()), compute.OpBoot, home)),
			request(near, mine[0], compute.OpDelete, home), request(near, mine[0], compute.OpBoot, home),
			request(near, mine[0], compute.OpStop, home), request(near, mine[0], compute.OpReboot, home),
			request(
				"p",
				mine[0],
				compute.OpDelete,
				away,
			),
			request("p", compute.InstanceID(uuid.NewString()), compute.OpBoot, away),
			request(
				far,
				mine[0],
				compute.OpDelete,
				home,
			),
			request(far, compute.InstanceID(uuid.NewString()), compute.OpBoot, home),
		}
		rnd := rand.New(rand.NewPCG(seeds(t), 0))
		for i := range 100 {
			junk := make([]byte, 1+rnd.IntN(300))
			for j := range junk {
				junk[j] = byte(rnd.Uint32())
			}
			junk[0] = 0xff // no protobuf begins so
			bad = append(
				bad,
				wire.Record{Key: []byte("p"), Value: junk}.To(topics.Requests(), int32(i)%r.kafka.Partitions),
			)
		}
		i := -1
		want := expected(
			r.throwAll(len(bad), func() wire.Record { i++; return bad[i] }),
			func(wire.Record) bool { return true },
		)
		refused.await(t, topics.Requests(), want)
		refused.only(t, topics.Requests(), want)
		for _, id := range mine {
			if inst := r.seen.get(id); inst.State != compute.StateActive || inst.Project != "p" {
				t.Errorf("%s is %s of %s", id, inst.State, inst.Project)
			}
		}
		// What will never be decided is not shown as accepted either.
		for _, p := range []compute.Project{near, far, "p"} {
			list, err := r.as(p).Instances(t.Context(), client.Filter{})
			r.must(err)
			for _, inst := range list {
				if string(inst.State) == compute.StateAccepted.String() {
					t.Errorf("%s has %s, accepted for ever", p, inst.ID)
				}
			}
		}
		r.exactlyOnce(mine)
	})
}

// neighbours are projects beside p, in its partition and in another.
func (r *rig) neighbours(p compute.Project) (near, far compute.Project) {
	home := wire.Partition(p, r.kafka.Partitions)
	for i := 0; near == "" || far == ""; i++ {
		other := compute.Project(fmt.Sprintf("n%d", i))
		if wire.Partition(other, r.kafka.Partitions) == home {
			near = other
		} else {
			far = other
		}
	}
	return near, far
}

// The same id twice: the same request changes nothing, another one is refused,
// and another project's instance of that id is another instance.
func TestDuplicateIDs(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(2)...)
		r.metrics = telemetry.NewMetrics()
		c := r.upWithOne()
		refused, topics := r.refusals(), r.cell("").Topics()
		near, far := r.neighbours("p")
		id := compute.InstanceID(uuid.NewString())
		for range 3 {
			_, err := c.Boot(t.Context(), id, compute.Boot{Flavor: "m1.small", Name: "same"})
			r.must(err)
		}
		_, err := c.Boot(t.Context(), id, compute.Boot{Flavor: "m1.small", Name: "other"})
		if compute.KindOf(err) != compute.KindConflict {
			t.Errorf("another body under the same id: %v", err)
		}
		r.await([]compute.InstanceID{id}, compute.StateActive)
		for _, p := range []compute.Project{near, far} {
			_, err := r.as(p).Boot(t.Context(), id, compute.Boot{Flavor: "m1.small"})
			if compute.KindOf(err) != compute.KindConflict {
				t.Errorf("another project's id, by HTTP: %v", err)
			}
			if _, err := r.as(p).Delete(t.Context(), id); compute.KindOf(err) != compute.KindNotFound {
				t.Errorf("another project deletes it, by HTTP: %v", err)
			}
		}
		record := func(p compute.Project, name string) wire.Record {
			boot := compute.Request{
				Project:  p,
				Instance: id,
				Op:       compute.OpBoot,
				Boot:     &compute.Boot{Flavor: "m1.small", Name: name},
			}
			return wire.EncodeRequest(boot).To(topics.Requests(), wire.Partition(p, r.kafka.Partitions))
		}
		recs := []wire.Record{record("p", "same"), record("p", "other"), record(near, "x"), record(far, "x")}
		i := -1
		thrown := r.throwAll(len(recs), func() wire.Record { i++; return recs[i] })
		want := map[place]bool{placeOf(thrown[2]): true}
		refused.await(t, topics.Requests(), want)
		// No conductor of another partition can know: it is an instance of its own, and
		// the host that has the first does not take the second.
		far1 := r.as(far)
		r.poll("the other project's own is active", func() bool {
			inst, err := far1.Instance(t.Context(), id)
			return err == nil && string(inst.State) == compute.StateActive.String()
		})
		mine, err := c.Instance(t.Context(), id)
		r.must(err)
		theirs, err := far1.Instance(t.Context(), id)
		r.must(err)
		if mine.Host == theirs.Host || mine.Name != "same" || mine.State != rest.State(compute.StateActive.String()) {
			t.Errorf("mine is %+v, theirs %+v", mine, theirs)
		}
		refused.only(t, topics.Requests(), want)
		_, err = far1.Delete(t.Context(), id)
		r.must(err)
		r.poll("theirs is gone", func() bool {
			inst, err := far1.Instance(t.Context(), id)
			r.must(err)
			return string(inst.State) == compute.StateDeleted.String()
		})
		if mine, err = c.Instance(t.Context(), id); err != nil ||
			mine.State != rest.State(compute.StateActive.String()) {
			t.Errorf("mine is %+v, %v", mine, err)
		}
	})
}

// specs is a hypervisor that remembers what it was given.
type specs struct {
	hypervisor.Driver
	mu  sync.Mutex
	got map[compute.InstanceID][]byte
}

func (s *specs) Prepare(ctx context.Context, spec hypervisor.Spec) error {
	s.mu.Lock()
	s.got[spec.Instance] = bytes.Clone(spec.UserData)
	s.mu.Unlock()
	return s.Driver.Prepare(ctx, spec)
}

// User data arrives byte for byte up to its limit, by queue and pinned, and is
// refused above, by HTTP and by Kafka.
func TestUserData(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b)
		refused, topics := r.refusals(), r.cell("").Topics()
		h := smallHost(1)
		host, err := r.world.Host(h.ID, h.Inventory)
		r.must(err)
		seen := &specs{Driver: fake.NewDriver(host, h.Driver), got: map[compute.InstanceID][]byte{}}
		part, err := cell.NewAgent(
			r.prepared("agent"),
			cell.AgentOptions{Host: h.ID, State: r.data, Driver: seen, Timing: chatty},
		)
		r.must(err)
		r.start("agent", part)
		r.poll("the host is known", func() bool { _, err := c.Host(t.Context(), h.ID); return err == nil })

		rnd := rand.New(rand.NewPCG(seeds(t), 1))
		data := make([]byte, compute.MaxUserData)
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		metadata := map[string]string{"k": strings.Repeat("ä", compute.MaxMetadataSize/2-1)}
		most := compute.Boot{
			Flavor:   "m1.small",
			UserData: compute.UserData(data),
			Metadata: metadata,
			Name:     strings.Repeat("n", compute.MaxNameLength),
			Image:    strings.Repeat("i", compute.MaxNameLength),
		}
		pinned := most
		pinned.Host = h.ID
		var ids []compute.InstanceID
		for _, boot := range []compute.Boot{most, pinned} {
			id := compute.InstanceID(uuid.NewString())
			answered(r, func() (client.Instance, error) { return c.Boot(t.Context(), id, boot) })
			ids = append(ids, id)
		}
		byKafka := compute.InstanceID(uuid.NewString())
		r.throwAll(1, func() wire.Record {
			return wire.EncodeRequest(
				compute.Request{Project: "p", Instance: byKafka, Op: compute.OpBoot, Boot: &most},
			).To(
				topics.Requests(),
				wire.Partition("p", r.kafka.Partitions),
			)
		})
		ids = append(ids, byKafka)
		r.await(ids, compute.StateActive)
		for _, id := range ids {
			seen.mu.Lock()
			got := seen.got[id]
			seen.mu.Unlock()
			if !bytes.Equal(got, data) {
				t.Errorf("%s got %d bytes that are not those that were sent", id, len(got))
			}
		}
		for _, n := range []int{compute.MaxUserData + 1, 1 << 20, 8 << 20} {
			body, err := json.Marshal(
				rest.FromBoot("p", "", compute.Boot{Flavor: "m1.small", UserData: compute.UserData(make([]byte, n))}),
			)
			r.must(err)
			status, p := r.post("/v1/instances", body)
			if status != http.StatusRequestEntityTooLarge && status != http.StatusUnprocessableEntity ||
				p.Detail == "" {
				t.Errorf("%d bytes: %d, %+v", n, status, p)
			}
			if status == http.StatusUnprocessableEntity &&
				(p.Field != "user_data" || p.Remedy == "" || len(p.Value) > 100) {
				t.Errorf("%d bytes: %+v", n, p)
			}
			_, err = c.Boot(t.Context(), "", compute.Boot{Flavor: "m1.small", UserData: compute.UserData(make([]byte, n))})
			if compute.KindOf(err) != compute.KindInvalid {
				t.Errorf("%d bytes, by the client: %v", n, err)
			}
		}
		large := r.throwAll(1, func() wire.Record {
			boot := compute.Request{
				Project:  "p",
				Instance: compute.InstanceID(uuid.NewString()),
				Op:       compute.OpBoot,
				Boot:     &compute.Boot{Flavor: "m1.small", UserData: compute.UserData(make([]byte, 1000<<10))},
			}
			return wire.EncodeRequest(boot).To(topics.Requests(), wire.Partition("p", r.kafka.Partitions))
		})
		refused.await(t, topics.Requests(), map[place]bool{placeOf(large[0]): true})
		r.exactlyOnce(ids)
	})
}
