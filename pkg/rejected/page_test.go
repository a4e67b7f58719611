// SPDX-License-Identifier: Apache-2.0

package rejected

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

var topics = wire.Topics{Prefix: "c."}

// kept is the topic in memory. A read hands over at most so many records.
type kept struct {
	parts [][]wire.Record
	most  int64
}

func (k *kept) Span(_ context.Context, since time.Time) (first, end map[int32]int64, err error) {
	first, end = map[int32]int64{}, map[int32]int64{}
	for p, recs := range k.parts {
		n := slices.IndexFunc(recs, func(r wire.Record) bool { return !r.Time.Before(since) })
		if n < 0 {
			n = len(recs)
		}
		first[int32(p)], end[int32(p)] = int64(n), int64(len(recs))
	}
	return first, end, nil
}

func (k *kept) Read(_ context.Context, p int32, from, to int64) (int64, []wire.Record, error) {
	from = max(from, to-k.most)
	return from, k.parts[p][from:to], nil
}

func (k *kept) add(p int, at time.Time, topic, key string, why compute.ReasonCode) {
	rec := wire.EncodeRejected(compute.Rejected{
		Topic: topics.Prefix + topic, Partition: int32(p), Offset: 100 + int64(len(k.parts[p])), Key: []byte(key), At: at,
		Reason: compute.Reason{Code: why},
	})
	rec.Partition, rec.Offset, rec.Time = int32(p), int64(len(k.parts[p])), at
	k.parts[p] = append(k.parts[p], rec)
}

// Page after page shows what is wanted, each once, the newest first: whatever lies in which partition, and however
// little is read at a time.
func TestPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &kept{parts: make([][]wire.Record, rapid.IntRange(1, 3).Draw(t, "partitions")), most: rapid.Int64Range(1, 5).Draw(t, "at once")}
		var all []string
		wanted := Wanted{
			Project: rapid.SampledFrom([]compute.Project{"", "web"}).Draw(t, "project"),
			Reason:  rapid.SampledFrom([]compute.ReasonCode{"", compute.Forged}).Draw(t, "reason"),
		}
		for i := range rapid.IntRange(0, 20).Draw(t, "records") {
			p := rapid.IntRange(0, len(k.parts)-1).Draw(t, "partition")
			project := rapid.SampledFrom([]string{"web", "db"}).Draw(t, "of")
			why := rapid.SampledFrom([]compute.ReasonCode{compute.Forged, compute.Malformed}).Draw(t, "why")
			topic := rapid.SampledFrom([]string{"requests", "reports"}).Draw(t, "topic")
			offset := 100 + len(k.parts[p])
			k.add(p, time.Unix(int64(i), 0), topic, project, why)
			if (wanted.Project == "" || project == "web" && topic == "requests") && (wanted.Reason == "" || wanted.Reason == why) {
				all = append(all, fmt.Sprintf("%s/%d/%d", topic, p, offset))
			}
		}
		slices.Reverse(all)
		q := Query{Wanted: wanted, Limit: rapid.IntRange(1, 6).Draw(t, "limit")}
		var got []string
		for pages := 0; ; pages++ {
			page, err := ReadPage(t.Context(), k, topics, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range page.Items {
				got = append(got, i.Record)
			}
			if len(page.Items) < q.Limit && page.Before != nil && !page.StoppedEarly {
				t.Fatalf("a page of %d says that there are more, and not why: %+v", len(page.Items), page)
			}
			if q.Before = page.Before; q.Before == nil {
				break
			}
			if pages > 100 {
				t.Fatal("it does not end")
			}
		}
		if !slices.Equal(got, all) {
			t.Fatalf("%q, want %q", got, all)
		}
	})
}

func TestWhatAPageSays(t *testing.T) {
	k := &kept{parts: make([][]wire.Record, 1), most: 100}
	k.add(0, time.Unix(1, 0), "requests", "web", compute.Malformed)
	k.add(0, time.Unix(2, 0), "hosts", "h1", compute.Unsigned)
	k.parts[0] = append(k.parts[0], wire.Record{Offset: 2, Value: []byte("garbage"), Time: time.Unix(3, 0)})
	page, err := ReadPage(t.Context(), k, topics, Query{Limit: 10})
	if err != nil || len(page.Items) != 2 || page.Read != 3 || page.Garbled != 1 || page.Before != nil {
		t.Fatalf("%+v %v", page, err)
	}
	h, r := page.Items[0], page.Items[1]
	if h.Host != "h1" || h.Record != "hosts/0/101" || h.Remedy == r.Remedy || r.Project != "web" || r.Remedy == "" {
		t.Errorf("%+v %+v", h, r)
	}
	for name, w := range map[string]Wanted{"record": {Record: "requests/0/100"}, "topic": {Topic: "requests"}} {
		if page, err := ReadPage(t.Context(), k, topics, Query{Wanted: w, Limit: 10}); err != nil || len(page.Items) != 1 {
			t.Errorf("%s: %+v %v", name, page, err)
		}
	}
	if page, _ := ReadPage(t.Context(), k, topics, Query{Limit: 10, Since: time.Unix(2, 0)}); len(page.Items) != 1 {
		t.Errorf("since: %+v", page)
	}
}

// Each reason has something to look at.
func TestRemedies(t *testing.T) {
	seen := map[string]bool{}
	for _, why := range []compute.ReasonCode{
		compute.Unsigned, compute.Forged, compute.Replayed, compute.ForeignProject, compute.Malformed, compute.HostLost,
		compute.LeftAlone,
	} {
		for _, request := range []bool{true, false} {
			seen[remedy(why, request)] = true
		}
	}
	if len(seen) != 9 || seen[""] {
		t.Errorf("%d remedies: %v", len(seen), seen)
	}
}
