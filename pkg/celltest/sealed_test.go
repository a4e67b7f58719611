// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/wire"
)

// handed is the user data that machines were prepared with, on any host.
type handed struct {
	mu   sync.Mutex
	data map[compute.InstanceID]string
}

func (h *handed) all() map[compute.InstanceID]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.data)
}

// handing is a driver that notes it.
type handing struct {
	hypervisor.Driver
	*handed
}

func (h handing) Prepare(ctx context.Context, s hypervisor.Spec) error {
	h.mu.Lock()
	h.data[s.Instance] = string(s.UserData)
	h.mu.Unlock()
	return h.Driver.Prepare(ctx, s)
}

// TestSealedUserData: what a caller gave its guest gets, and no record of any topic has it; a host without the key takes
// no such work, and what was sealed for another instance is read by no guest.
func TestSealedUserData(t *testing.T) {
	t.Parallel()
	const secret = "#cloud-config\nplanted secret of a user\n"
	r := newRig(t, kafkatest.Embedded(t), smallHosts(2)...)
	first, second := hostkey.NewMaster([32]byte{1}), hostkey.NewMaster([32]byte{2})
	keys := func(m ...hostkey.Master) *sealed.Keys { return sealed.New(r.kafka.Prefix, m...) }
	guests := &handed{data: map[compute.InstanceID]string{}}
	r.machines = func(d hypervisor.Driver) hypervisor.Driver { return handing{d, guests} }
	r.seals = keys(first)
	r.up() // no agent has a key yet
	topics := r.cell("").Topics()
	var logs []*topicLog
	for _, topic := range append(topics.Own(), topics.Build("m1.small"), topics.Host(r.hosts[0].ID)) {
		if topic != topics.Build("m1.small") {
			logs = append(logs, r.topicLog(topic))
		}
	}
	c := r.as("p")
	r.offer(c, nil, []compute.Flavor{small("m1.small")})
	logs = append(logs, r.topicLog(topics.Build("m1.small")))

	id := publish.NewID()
	boot := func(name string) {
		t.Helper()
		_, err := c.Boot(t.Context(), id, compute.Boot{Flavor: "m1.small", Name: name, UserData: secret})
		r.must(err)
	}
	boot("web")
	boot("web") // it is compared with what it was
	pinned := r.boot(c, 1, compute.Boot{Flavor: "m1.small", Host: r.hosts[0].ID, UserData: secret})
	r.await(pinned, compute.StateError) // that host has no key, and says so
	open := r.boot(c, 1, compute.Boot{Flavor: "m1.small", UserData: ""})
	r.await(open, compute.StateActive) // it lies behind
	if got := r.seen.get(id); got.State != compute.StateQueued || got.Attempt != 1 || len(got.Failures) > 0 {
		t.Errorf("without a key: %s, attempt %d", got.State, got.Attempt)
	}
	if got := guests.all(); len(got) != 1 || got[open[0]] != "" {
		t.Errorf("without a key guests got %q", got)
	}

	r.opens = keys(first) // one host gets the key
	r.stop(string(r.hosts[1].ID))
	r.startAgents(r.hosts[1])
	r.await([]compute.InstanceID{id}, compute.StateActive)
	if got := r.seen.get(id); got.Host != r.hosts[1].ID || guests.all()[id] != secret {
		t.Errorf("on %s its guest got %q", got.Host, guests.all()[id])
	}

	// Another key takes over: agents get it first. What the first has sealed is still compared.
	r.opens = keys(first, second)
	r.stop(string(r.hosts[1].ID))
	r.startAgents(r.hosts[1])
	r.stop("api")
	r.seals = keys(first, second)
	r.startAPI()
	c = r.as("p")
	boot("web")
	young := r.boot(c, 1, compute.Boot{Flavor: "m1.small", UserData: secret})
	r.await(young, compute.StateActive)
	was := r.seen.get(young[0]).Boot.Sealed
	if guests.all()[young[0]] != secret || keys(first).Check(was) == nil || keys(second).Check(was) != nil {
		t.Errorf("by the second key its guest got %q", guests.all()[young[0]])
	}

	// A publisher copies what it has read in Kafka into boots of its own.
	stolen := r.seen.get(id).Boot.Sealed
	var thieves []compute.InstanceID
	for _, p := range []compute.Project{"p", "thief"} {
		q := compute.Request{
			Op: compute.OpBoot, Project: p, Instance: publish.NewID(), At: time.Now().UTC(),
			Boot: &compute.Boot{Flavor: "m1.small", Sealed: stolen, Attempts: 1},
		}
		thieves = append(thieves, q.Instance)
		r.send(wire.EncodeRequest(q).To(topics.Requests(), wire.Partition(p, r.kafka.Partitions)))
	}
	r.await(thieves, compute.StateError)
	for _, thief := range thieves {
		if got, ok := guests.all()[thief]; ok {
			t.Errorf("a thief's guest got %q", got)
		}
		if got := r.seen.get(thief); got.Boot.Sealed != "" {
			t.Error("sealed user data is kept with what has ended")
		}
	}

	r.delete(c, []compute.InstanceID{id})
	r.await([]compute.InstanceID{id}, compute.StateDeleted)
	if got := r.seen.get(id); got.Boot.Sealed != "" || got.Boot.UserData != "" {
		t.Error("sealed user data is kept with what was deleted")
	}
	for _, log := range logs {
		for _, rec := range log.all() {
			if bytes.Contains(rec.Value, []byte("planted secret")) {
				t.Errorf("%s@%d has the user data", rec.Topic, rec.Offset)
			}
		}
	}
}
