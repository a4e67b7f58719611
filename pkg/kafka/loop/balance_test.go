// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// Whichever members come, go or claim what they do not have: every partition is given once, to members that have
// equally many, and no more moves than must.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(0, 40).Draw(t, "partitions")
		var claims []claim
		for i := range rapid.IntRange(1, 8).Draw(t, "members") {
			claims = append(claims, claim{
				member:     fmt.Sprint("m", i),
				generation: rapid.Int32Range(-1, 3).Draw(t, "generation"),
				has:        rapid.SliceOfNDistinct(rapid.Int32Range(0, 45), 0, 20, rapid.ID[int32]).Draw(t, "has"),
			})
		}
		shares := share(n, slices.Clone(claims))
		var all []int32
		for _, c := range claims {
			got := len(shares[c.member])
			if least := int(n) / len(claims); got != least && got != least+1 {
				t.Errorf("%s has %d of %d partitions for %d members", c.member, got, n, len(claims))
			}
			all = append(all, shares[c.member]...)
		}
		slices.Sort(all)
		for p := range n {
			if int(p) >= len(all) || all[p] != p {
				t.Fatalf("shared out %v of %d", all, n)
			}
		}
		if again := share(n, claimsOf(shares)); !equalShares(again, shares) {
			t.Errorf("nobody came or went, and %v became %v", shares, again)
		}
	})
}

func TestShareMovesNoMoreThanItMust(t *testing.T) {
	for n := int32(1); n <= 24; n++ {
		shares := share(n, []claim{{member: "a", generation: -1}})
		for i, joins := range []string{"b", "c", "d"} {
			more := share(n, append(claimsOf(shares), claim{member: joins, generation: -1}))
			moved := 0
			for member, has := range more {
				for _, p := range has {
					if !slices.Contains(shares[member], p) {
						moved++
					}
				}
			}
			if moved != len(more[joins]) {
				t.Errorf(
					"%d partitions, %s joins %d others and gets %d, but %d moved", n, joins, i+1, len(more[joins]),
					moved,
				)
			}
			shares = more
		}
	}
}

func claimsOf(shares map[string][]int32) []claim {
	var claims []claim
	for member, has := range shares {
		claims = append(claims, claim{member: member, generation: 7, has: has})
	}
	return claims
}

func equalShares(a, b map[string][]int32) bool {
	for member := range a {
		if !slices.Equal(a[member], b[member]) {
			return false
		}
	}
	return true
}

// A member that joins takes what it is given; nobody else restores anything.
func TestLoopKeepsWhatItHasWhenOthersJoin(t *testing.T) {
	const partitions = 6
	eachCell(t, partitions, func(t *testing.T, cfg kafka.Config) {
		bell := make(chan struct{}, 1)
		var all []*running
		for i := range 3 {
			l := newLedger(t, fmt.Sprint(i))
			l.bell = bell
			all = append(all, loop(t, cfg, Options{SessionTimeout: longSession, StopTimeout: longStop}, l))
			brokertest.Await(t, all[i].Ready(), "it is ready")
			owners(t, bell, partitions, all...)
		}
		// Both topics of a partition are read by its owner: ledgers fail on others.
		var keys []string
		for i := range 2 * partitions {
			keys = append(keys, fmt.Sprintf("%s%d", []string{"k", "report"}[i/partitions], i))
		}
		f := feeding(t, cfg, keys...)
		f.more(5, partitions)
		instances := openLog(t, cfg, cfg.Topics.Instances())
		instances.until("has all", func() bool { return len(instances.recs) >= 5*len(keys) })
		instances.exact(f.n)
		all[0].stop(t)
		owners(t, bell, partitions, all[1:]...)
		for i, want := range []int{6, 4, 3} { // 6 alone; 3 of those given, and 1 at the end; 2, and 1
			got := 0
			for _, n := range all[i].gains {
				got += n
			}
			if got != want {
				t.Errorf("member %d gained %d times, want %d: %v", i, got, want, all[i].gains)
			}
		}
	})
}
