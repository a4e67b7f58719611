// SPDX-License-Identifier: Apache-2.0

package publish_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/publishtest"
	"github.com/berth-project/berth/pkg/wire"
)

const (
	project  compute.Project    = "web-shop"
	instance compute.InstanceID = "0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a"
	trace    compute.Trace      = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

func at() time.Time { return time.Date(2026, 11, 21, 7, 0, 0, 123456789, time.UTC) }

func boot() compute.Request {
	return compute.Request{
		Project: project, Instance: instance, Op: compute.OpBoot, Boot: &compute.Boot{Flavor: "m1.small"},
	}
}

// fullBoot has every field set.
func fullBoot() compute.Request {
	q := boot()
	q.Command, q.At, q.Trace = "cmd-81", at(), trace
	q.Boot = &compute.Boot{
		Name: "web-1", Flavor: "m1.small", With: compute.Choices{"gpu": "a100", "disk": "ssd"}, Image: "debian-13",
		Metadata: map[string]string{"role": "web", "tier": "größer"}, UserData: "#cloud-config\n\x00\xff",
		Attempts: 5, Deadline: 10*time.Minute + 7, OnNoCapacity: compute.FailAtOnce, Avoid: []compute.HostID{"host-17"},
	}
	return q
}

// table is one request of every kind, each publishable.
func table() []compute.Request {
	of := func(op compute.RequestOp, hard bool, command compute.CommandID) compute.Request {
		return compute.Request{Project: project, Instance: instance, Op: op, Hard: hard, Command: command, At: at()}
	}
	large := boot()
	large.Boot.UserData = compute.UserData(make([]byte, compute.MaxUserData))
	pinned := boot()
	pinned.Boot.Host = "host-17"
	return []compute.Request{
		boot(), fullBoot(), large, pinned, of(compute.OpDelete, false, ""), of(compute.OpStop, true, ""),
		of(compute.OpStop, false, "c-1"),
		of(compute.OpStart, false, ""), of(compute.OpReboot, true, "r-81"),
	}
}

// everyone is every client, and last Berth's own API nodes.
func everyone(partitions int32) []publishtest.Way {
	return append(publishtest.Adapters(), publishtest.Way{Name: "berth", New: func(t testing.TB,
		brokers []string, o publish.Options) publishtest.Publish {
		own, err := write.NewProducer(kafka.Config{Brokers: brokers, Topics: o.Topics})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(own.Close)
		return func(ctx context.Context, q compute.Request) error {
			return own.Send(ctx, wire.EncodeRequest(q).To(o.Topics.Requests(), wire.Partition(q.Project, partitions)))
		}
	}})
}

// asText compares bytes as one thing: by themselves they take long.
var asText = cmp.Transformer("text", func(b []byte) string { return string(b) })

// Whichever client publishes a request, the same record is in the same partition, in the
// same order: each client writes the same requests into a topic of its own.
func TestTheSameRecordWhoeverPublishes(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		const partitions = 7
		sent := table()
		for i := range 100 {
			sent = append(sent, rapid.Custom(anyRequest).Example(i))
		}
		ways := everyone(partitions)
		logs := make([][]wire.Record, len(ways))
		var all sync.WaitGroup
		for i, w := range ways {
			o := publish.Options{Topics: wire.Topics{Prefix: b.Prefix + w.Name + "."}}
			publishtest.Topic(t, b.Addrs, o.Topics.Requests(), partitions, nil)
			p := w.New(t, b.Addrs, o)
			all.Go(func() {
				for _, q := range sent {
					if err := p(t.Context(), q); err != nil {
						t.Errorf("%s: %v", w.Name, err)
						return
					}
				}
				logs[i] = publishtest.Read(t, b.Addrs, o.Topics.Requests(), len(sent))
			})
		}
		all.Wait()
		want := logs[len(logs)-1]
		for _, rec := range want {
			if p := wire.Partition(compute.Project(rec.Key), partitions); p != rec.Partition {
				t.Errorf("%q is in partition %d, Berth looks in %d", rec.Key, rec.Partition, p)
			}
		}
		for i, w := range ways {
			if diff := cmp.Diff(want, logs[i], cmpopts.IgnoreFields(wire.Record{}, "Topic"), asText); diff != "" {
				t.Errorf("-berth +%s:\n%s", w.Name, diff)
			}
		}
	})
}

// anyRequest is a request of a random project that may be published.
func anyRequest(t *rapid.T) compute.Request {
	name := rapid.StringMatching(`[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?`)
	const uuid = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
	q := compute.Request{
		Project:  compute.Project(name.Draw(t, "project")),
		Instance: compute.InstanceID(rapid.StringMatching(uuid).Draw(t, "instance")),
		Op: rapid.SampledFrom([]compute.RequestOp{
			compute.OpBoot, compute.OpDelete, compute.OpStop, compute.OpStart, compute.OpReboot,
			compute.OpChange,
		}).Draw(t, "operation"),
		Command: compute.CommandID(rapid.StringN(1, 20, 40).Draw(t, "command")),
		Hard:    rapid.Bool().Draw(t, "hard"),
	}
	if rapid.Bool().Draw(t, "traced") {
		q.Trace = trace
	}
	if q.Op == compute.OpChange {
		name := rapid.StringN(0, 40, 200).Draw(t, "name")
		q.Change = &compute.Change{
			Name: &name, Set: rapid.MapOfN(rapid.StringN(1, 10, 40), rapid.StringN(0, 10, 40), 0, 5).Draw(t, "set"),
		}
	}
	if q.Op == compute.OpBoot {
		q.Boot = &compute.Boot{
			Name: rapid.StringN(0, 40, 200).Draw(t, "name"), Flavor: compute.FlavorName(name.Draw(t, "flavor")),
			Metadata: rapid.MapOfN(rapid.StringN(0, 10, 40), rapid.StringN(0, 10, 40), 0, 5).Draw(t, "metadata"),
			UserData: compute.UserData(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "user data")),
			Deadline: time.Duration(rapid.Int64Range(0, int64(compute.MaxDeadline)).Draw(t, "deadline")),
		}
	}
	return q
}

// Fence and forget go to every partition once; a client that cannot says so.
func TestFenceGoesEverywhere(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		const partitions = 5
		for _, w := range publishtest.Adapters() {
			t.Run(w.Name, func(t *testing.T) {
				o := publish.Options{Topics: wire.Topics{Prefix: b.Prefix + w.Name + "."}}
				publishtest.Topic(t, b.Addrs, o.Topics.Requests(), partitions, nil)
				err := w.New(t, b.Addrs, o)(t.Context(), compute.Request{Op: compute.OpFence, Host: "host-17"})
				if !w.Everywhere {
					wantError(t, err, compute.KindInvalid, "partitioner")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				for i, rec := range publishtest.Read(t, b.Addrs, o.Topics.Requests(), partitions) {
					if int(rec.Partition) != i || string(rec.Key) != "host-17" {
						t.Errorf("record %d is in partition %d with key %q", i, rec.Partition, rec.Key)
					}
				}
			})
		}
	})
}

// What JSON makes is read as what Record makes, and is where it is.
func TestJSONSaysTheSame(t *testing.T) {
	check := func(t interface {
		Helper()
		Fatalf(string, ...any)
		Errorf(string, ...any)
	}, q compute.Request) {
		t.Helper()
		bin, err1 := publish.Record(q)
		text, err2 := publish.JSON(q)
		if err1 != nil || err2 != nil {
			t.Fatalf("%v, %v", err1, err2)
		}
		fromBin, err1 := wire.DecodeRequest(bin)
		fromText, err2 := wire.DecodeRequest(text)
		if err1 != nil || err2 != nil {
			t.Fatalf("%v, %v", err1, err2)
		}
		if diff := cmp.Diff(fromBin, fromText, asText); diff != "" || string(bin.Key) != string(text.Key) {
			t.Errorf("-protobuf +JSON of %s:\n%s", text.Value, diff)
		}
	}
	for _, q := range table() {
		check(t, q)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, anyRequest(t)) })
	q := boot()
	rec, err := publish.JSON(q)
	if want := fmt.Sprintf(
		`{"project":%q,"instance":%q,"boot":{"flavor":"m1.small","on_no_capacity":"NO_CAPACITY_WAIT"}}`,
		project, instance,
	); err != nil || string(rec.Value) != want {
		t.Errorf("%s, %v; want %s", rec.Value, err, want)
	}
}
