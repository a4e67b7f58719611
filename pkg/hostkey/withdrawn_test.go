// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

func isHost(name string) error { return compute.HostID(name).Check() }

// TestWithdrawnKeysDoNotCount, whichever records count otherwise, and another key of the same host does.
func TestWithdrawnKeysDoNotCount(t *testing.T) {
	old, is := master(1), master(2)
	rec := wire.Record{Topic: "berth.reports", Value: []byte("v")}
	under := func(m Master, host compute.HostID) wire.Record { return NewSigner(m.Derive(host)).Sign(rec) }
	for _, trust := range []Trust{TrustAll, TrustKeys} {
		w, err := ParseWithdrawn("hosts.withdrawn", []string{"a", "b@" + old.ID().String()}, isHost)
		if err != nil {
			t.Fatal(err)
		}
		v := NewVerifier(trust, []Master{old, is}).Without(w)
		for _, c := range []struct {
			master Master
			host   compute.HostID
			want   string
		}{{old, "a", "Forged"}, {is, "a", "Forged"}, {old, "b", "Forged"}, {is, "b", ""}, {old, "c", ""}} {
			proved, reason := v.Check(under(c.master, c.host), c.host)
			if code(reason) != c.want || proved.Signed != (c.want == "") {
				t.Errorf("trust %s: %s under %s: %v", trust, c.host, c.master, reason)
			}
			if reason != nil && !strings.Contains(reason.Detail, "hosts.withdrawn") {
				t.Errorf("it does not say why: %s", reason.Detail)
			}
		}
	}
}

func TestParseWithdrawn(t *testing.T) {
	if w, err := ParseWithdrawn("f", nil, isHost); w != nil || err != nil || w.Has("a", MasterID{}) {
		t.Errorf("of nothing: %v, %v", w, err)
	}
	w, err := ParseWithdrawn("f", []string{"a@01020304", "a@05060708", "a@01020304"}, isHost)
	if err != nil || !w.Has("a", MasterID{1, 2, 3, 4}) || !w.Has("a", MasterID{5, 6, 7, 8}) || w.Has("a", MasterID{1}) {
		t.Errorf("%v, %v", w, err)
	}
	for _, bad := range []string{"", "A", "a@", "a@0102030", "a@0102030405", "a@x1020304", "@01020304", "a@01020304@"} {
		if _, err := ParseWithdrawn("f", []string{"ok", bad}, isHost); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
