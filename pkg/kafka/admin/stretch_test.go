// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// What is read is what is asked for and still there, whatever else a fetch brings.
func TestStretch(t *testing.T) {
	_, cfg := brokertest.FakeCluster(t)
	const topic = "audit"
	ctx, a := brokertest.Patient(t), adminOf(t, cfg)
	if _, err := a.Ends(ctx, topic); compute.KindOf(err) != compute.KindNotFound {
		t.Errorf("a topic that is not there ends: %v", err)
	}
	brokertest.MakeTopic(t, cfg, topic, 2, nil)
	const big = 300 << 10 // twice, in key and value, so that one fetch does not bring all
	const all = 1 << 30
	for i := range 10 {
		brokertest.Put(t, cfg, topic, 1, fmt.Sprint(i, strings.Repeat(" ", big)))
	}
	brokertest.Put(t, cfg, topic, 0, "other")
	for _, c := range []struct {
		from, to int64
		most     int
		begin    int64
		want     string
	}{
		{0, 10, all, 0, "0123456789"}, {3, 5, all, 3, "34"}, {9, 100, all, 9, "9"}, {10, 20, all, 10, ""}, {4, 4, all, 4, ""},
		{0, 10, 5 * big, 8, "89"}, {0, 10, 1, 9, "9"}, {2, 6, 1, 5, "5"}, {0, 10, 3 * big, 9, "9"}, {0, 2, big, 1, "1"},
	} {
		begin, recs, err := a.Stretch(ctx, topic, 1, c.from, c.to, c.most)
		var got strings.Builder
		for _, rec := range recs {
			got.WriteByte(rec.Value[0])
		}
		if err != nil || got.String() != c.want || begin != c.begin {
			t.Errorf("from %d to %d, at most %d bytes: %q from %d on, %v", c.from, c.to, c.most, got.String(), begin, err)
		}
	}
	starts, err := a.Starts(ctx, topic)
	ends, err2 := a.Ends(ctx, topic)
	if err != nil || err2 != nil || starts[1] != 0 || ends[1] != 10 || ends[0] != 1 {
		t.Errorf("from %v to %v: %v, %v", starts, ends, err, err2)
	}
	since, err := a.OffsetsSince(ctx, topic, time.Now().Add(time.Hour))
	if err != nil || since[1] != 10 {
		t.Errorf("what is not yet written begins at %v: %v", since, err)
	}
}

// Records that were removed meanwhile are left out.
func TestStretchOfWhatIsRemoved(t *testing.T) {
	_, cfg := brokertest.FakeCluster(t)
	brokertest.MakeTopic(t, cfg, "audit", 1, nil)
	brokertest.Put(t, cfg, "audit", 0, "a", "b", "c", "d")
	brokertest.RemoveBelow(t, cfg, "audit", 2)
	_, recs, err := adminOf(t, cfg).Stretch(brokertest.Patient(t), "audit", 0, 0, 4, 1<<20)
	if err != nil || len(recs) != 2 || string(recs[0].Value) != "c" {
		t.Errorf("%v, %v", recs, err)
	}
}

// A right that lacks is named, and what passes is waited for.
func TestStretchRefused(t *testing.T) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		brokertest.MakeTopic(t, c.Cfg, "audit", 1, nil)
		put := producer(t, c.Cfg)
		if err := put.Send(t.Context(), wire.Record{Topic: "audit", Value: []byte("a")}); err != nil {
			t.Fatal(err)
		}
		put.Close()
		a := adminOf(t, c.Cfg)
		passing := c.Refuse(kmsg.Fetch, kerr.NotLeaderForPartition, 2)
		_, recs, err := a.Stretch(t.Context(), "audit", 0, 0, 1, 1<<20)
		if err != nil || len(recs) != 1 {
			t.Errorf("%v, %v", recs, err)
		}
		brokertest.HitBy(t, passing, 2)
		c.Refuse(kmsg.Fetch, kerr.TopicAuthorizationFailed, 1)
		_, _, err = a.Stretch(t.Context(), "audit", 0, 0, 1, 1<<20)
		brokertest.WantKind(t, err, compute.KindForbidden)
		brokertest.SaysWhatLacks(t, err.Error())
	})
}
