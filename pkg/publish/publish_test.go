// SPDX-License-Identifier: Apache-2.0

package publish_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/publishtest"
	"github.com/berth-project/berth/pkg/wire"
)

func wantError(t *testing.T, err error, kind compute.Kind, field string) {
	t.Helper()
	var e *compute.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Field != field {
		t.Fatalf("%v; want kind %s about field %q", err, kind, field)
	}
	if e.Remedy == "" || !strings.HasPrefix(e.Op, "publish ") {
		t.Errorf("%#v says not what was done, or not what to do", e)
	}
}

// What Berth would reject is refused before it is sent, by name.
func TestRefusedBeforeItIsSent(t *testing.T) {
	change := func(f func(*compute.Request)) compute.Request {
		q := fullBoot()
		f(&q)
		return q
	}
	for field, qs := range map[string][]compute.Request{
		"instance id": {
			change(func(q *compute.Request) { q.Instance = "" }),
			change(func(q *compute.Request) { q.Instance = "0B9CF4A2-3F0E-4C5E-9A55-0F6F1D2C3B4A" }),
			{Project: project, Op: compute.OpDelete},
		},
		"project": {
			change(func(q *compute.Request) { q.Project = "" }),
			change(func(q *compute.Request) { q.Project = "Web Shop" }),
			{Op: compute.OpFence, Host: "host-17", Project: project},
		},
		"boot": {
			change(func(q *compute.Request) { q.Boot = nil }),
			change(func(q *compute.Request) { q.Op = compute.OpDelete }),
		},
		"flavor":     {change(func(q *compute.Request) { q.Boot.Flavor = "" })},
		"capability": {change(func(q *compute.Request) { q.Boot.With = compute.Choices{"GPU": "a100"} })},
		"user_data":  {change(func(q *compute.Request) { q.Boot.UserData = compute.UserData(make([]byte, compute.MaxUserData+1)) })},
		"attempts":   {change(func(q *compute.Request) { q.Boot.Attempts = 21 })},
		"deadline":   {change(func(q *compute.Request) { q.Boot.Deadline = -time.Second })},
		"name":       {change(func(q *compute.Request) { q.Boot.Name = "\xff" })},
		"metadata":   {change(func(q *compute.Request) { q.Boot.Metadata = map[string]string{"\xff": ""} })},
		"operation":  {change(func(q *compute.Request) { q.Op, q.Boot = compute.OpNone, nil })},
		"host":       {{Op: compute.OpForget}},
		"command": {
			{Project: project, Instance: instance, Op: compute.OpReboot},
			change(func(q *compute.Request) { q.Command = compute.CommandID(strings.Repeat("x", wire.MaxID+1)) }),
		},
		"metadata of": {},
	} {
		for _, q := range qs {
			_, err := publish.Record(q)
			wantError(t, err, compute.KindInvalid, field)
			_, err = publish.JSON(q)
			wantError(t, err, compute.KindInvalid, field)
		}
	}
}

func TestABootWithoutAnIDSaysHowToGetOne(t *testing.T) {
	q := boot()
	q.Instance = ""
	_, err := publish.Record(q)
	if err == nil || !strings.Contains(err.Error(), "publish.NewID") {
		t.Errorf("%v", err)
	}
	q.Instance = publish.NewID()
	if _, err := publish.Record(q); err != nil {
		t.Error(err)
	}
	if q.Instance == publish.NewID() {
		t.Error("two instances have one name")
	}
}

// A topic that is not there is said to be missing, and not made by the way.
func TestNoTopic(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		for _, w := range publishtest.Adapters() {
			t.Run(w.Name, func(t *testing.T) {
				t.Parallel()
				o := publish.Options{Topics: wire.Topics{Prefix: b.Prefix + w.Name + "."}}
				p := w.New(t, b.Addrs, o)
				for range 2 {
					err := settled(t, p) // on a busy machine a client gives up before a broker has said so
					wantError(t, err, compute.KindNotFound, "topic")
					if !errors.Is(err, wire.ErrNoTopic) || !strings.Contains(err.Error(), o.Topics.Requests()) {
						t.Errorf("%v", err)
					}
				}
				if slices.Contains(publishtest.Topics(t, b.Addrs), o.Topics.Requests()) {
					t.Error("the topic was made")
				}
			})
		}
	})
}

// Larger than the topic takes is the request's fault, not Kafka's.
func TestTooLargeForTheTopic(t *testing.T) {
	b := kafkatest.Kafka(t)
	for _, w := range publishtest.Adapters() {
		t.Run(w.Name, func(t *testing.T) {
			o := publish.Options{Topics: wire.Topics{Prefix: b.Prefix + w.Name + "."}}
			publishtest.Topic(t, b.Addrs, o.Topics.Requests(), 1, map[string]string{"max.message.bytes": "1000"})
			p := w.New(t, b.Addrs, o)
			q := boot()
			data := []byte(strings.Repeat("berth", 1000))
			for i := range data { // hard to compress
				data[i] ^= byte(i*i>>3 + i*7)
			}
			q.Boot.UserData = compute.UserData(data)
			wantError(t, p(t.Context(), q), compute.KindInvalid, "")
			if err := p(t.Context(), boot()); err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

// While no broker answers, publishing ends in time and says what to do; when
// one is back, it works again with the same client.
func TestBrokerGoesAndComesBack(t *testing.T) {
	c := kafkatest.StartT(t, kafkatest.Options{})
	o := publish.Options{Topics: wire.Topics{Prefix: "p."}, Timeout: 2 * time.Second}
	publishtest.Topic(t, c.Addrs(), o.Topics.Requests(), 3, nil)
	ways := publishtest.Adapters()
	var all []publishtest.Publish
	for _, w := range ways {
		p := w.New(t, c.Addrs(), o)
		persist(t, w.Name, p) // a broker that has just begun may take longer than o.Timeout
		all = append(all, p)
	}
	if err := c.Kill(1); err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		err := p(t.Context(), boot())
		if kind := compute.KindOf(err); kind != compute.KindTimeout && kind != compute.KindUnavailable ||
			!strings.Contains(err.Error(), string(instance)) {
			t.Errorf("%s, no broker: %v", ways[i].Name, err)
		}
	}
	if err := c.Restart(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		persist(t, ways[i].Name, p)
	}
}

// persist publishes one request until it is there, as a caller should.
func persist(t *testing.T, name string, p publishtest.Publish) {
	t.Helper()
	if err := settled(t, p); err != nil {
		t.Errorf("%s, the broker is there: %v", name, err)
	}
}

// settled publishes one request until it is known how that fared, for a minute at most.
func settled(t *testing.T, p publishtest.Publish) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := p(ctx, boot())
		kind := compute.KindOf(err)
		if ctx.Err() != nil || kind != compute.KindTimeout && kind != compute.KindUnavailable {
			return err
		}
	}
}

// A caller that gives up is told that the outcome is unknown, and the id to
// repeat it with.
func TestWhoGivesUp(t *testing.T) {
	b := kafkatest.Embedded(t)
	o := publish.Options{Topics: wire.Topics{Prefix: b.Prefix}}
	publishtest.Topic(t, b.Addrs, o.Topics.Requests(), 1, nil)
	for _, w := range publishtest.Adapters() {
		p := w.New(t, b.Addrs, o)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := p(ctx, boot())
		if compute.KindOf(err) != compute.KindTimeout || !strings.Contains(err.Error(), string(instance)) {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
}
