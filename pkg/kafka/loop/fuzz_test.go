// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
)

// FuzzCursor reads the outbox cursor from what a committed position carries.
func FuzzCursor(f *testing.F) {
	f.Add("outbox=7", int64(3))
	f.Add("outbox=-1", int64(0))
	f.Add("outbox=1 reset=2", int64(5))
	f.Add("reset=-2 outbox=x", int64(5))
	f.Add("outbox=99999999999999999999", int64(-1))
	f.Fuzz(func(t *testing.T, metadata string, cursor int64) {
		if n := parseReset(&metadata); n < 0 {
			t.Errorf("%q is %d", metadata, n)
		}
		if n := parseCursor(&metadata); n < -1 {
			t.Errorf("%q is %d", metadata, n)
		}
		p := position{cursor: cursor, reset: cursor}
		m := p.metadata(requests)
		if n := parseCursor(m); n != max(cursor, -1) || parseReset(m) != max(p.reset, 0) {
			t.Errorf("%d comes back as %d", cursor, n)
		}
	})
}

// FuzzAssignor shares out partitions by what members say of themselves: every
// partition goes to exactly one of them.
func FuzzAssignor(f *testing.F) {
	mine := coPartitioned{has: func() []int32 { return []int32{1, 3} }, agreed: func(compute.Schema) {}}
	good := mine.JoinGroupMetadata([]string{"a", "b"}, nil, 4)
	f.Add(good, good, int32(4))
	f.Add([]byte{0}, good, int32(0))
	f.Fuzz(func(t *testing.T, one, two []byte, n int32) {
		n %= 1000
		members := []kmsg.JoinGroupResponseMember{
			{MemberID: "one", ProtocolMetadata: one}, {MemberID: "two", ProtocolMetadata: two},
		}
		b, err := kgo.NewConsumerBalancer(mine, members)
		if err != nil {
			return
		}
		plan := mine.Balance(b, map[string]int32{"a": n, "b": n})
		given := map[int32]int{}
		for _, a := range plan.(agreedPlan).AsMemberIDMap() {
			for _, p := range a["a"] {
				given[p]++
			}
		}
		for p := range max(n, 0) {
			if given[p] != 1 {
				t.Fatalf("partition %d of %d goes to %d members", p, n, given[p])
			}
		}
		if _, err := mine.ParseSyncAssignment(one); err != nil {
			return
		}
	})
}
