// SPDX-License-Identifier: Apache-2.0

package publish_test

import (
	"context"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publishkey"
	"github.com/berth-project/berth/pkg/wire"
)

// log keeps what is sent to a topic of three partitions.
type log struct{ recs []wire.Record }

func (l *log) Partitions(context.Context, string) (int32, error) { return 3, nil }
func (l *log) Chooses() bool                                     { return true }
func (l *log) Close() error                                      { return nil }

func (l *log) Send(_ context.Context, rec wire.Record) (int32, error) {
	l.recs = append(l.recs, rec)
	return rec.Partition, nil
}

// Every kind of request is signed as conductors want it; what the key is not for is refused before it is sent.
func TestSignedRequests(t *testing.T) {
	master := hostkey.NewMaster([32]byte{1})
	v := publishkey.NewVerifier(hostkey.TrustKeys, []hostkey.Master{master})
	all := append(table(),
		compute.Request{Op: compute.OpFence, Host: "h"}, compute.Request{Op: compute.OpForget, Host: "h"},
		compute.Request{Op: compute.OpConfirm, Host: "h"},
	)
	for projects, wanted := range map[publishkey.Projects]int{
		publishkey.All: len(table()) + 9, publishkey.Projects(project): len(table()), "q": 0,
	} {
		l, key := &log{}, publishkey.Derive(master, "ci", projects)
		p := publish.New(l, publish.Options{Topics: wire.Topics{Prefix: wire.DefaultPrefix}, Key: &key})
		for _, q := range all {
			if err := p.Publish(t.Context(), q); !projects.Allow(q.Project) {
				wantError(t, err, compute.KindForbidden, "project")
			} else if err != nil {
				t.Error(err)
			}
		}
		for _, rec := range l.recs {
			q, err := wire.DecodeRequest(rec)
			if err != nil {
				t.Fatal(err)
			}
			if reason := v.Check(rec, q.Project); reason != nil {
				t.Errorf("%s of %q: %s", q.Op, q.Project, reason)
			}
		}
		if len(l.recs) != wanted {
			t.Errorf("%s: %d records, want %d", projects, len(l.recs), wanted)
		}
	}
}
