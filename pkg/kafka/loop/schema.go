// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

// What members of the group say about schemas in their user data: words like
// "reads=2", apart by spaces. A version that knows a word more says it behind, and one
// that knows fewer passes over it.
const (
	readsWord  = "reads"  // in what a member says when it joins: up to where it reads
	writesWord = "writes" // in what the leader answers: what all may write
)

func schemaSaid(word string, n compute.Schema) []byte {
	return []byte(word + "=" + strconv.FormatUint(uint64(n), 10))
}

// schemaOf is 0 where user data does not say it, which is what older versions do.
func schemaOf(word string, said []byte) compute.Schema {
	for _, w := range strings.Fields(string(said)) {
		if value, found := strings.CutPrefix(w, word+"="); found {
			n, err := strconv.ParseUint(value, 10, 32)
			if err != nil {
				return 0
			}
			return compute.Schema(n)
		}
	}
	return 0
}

// agreedIn is what an assignment lets its member write. An older version that shared
// out knows nothing of schemas, and may be a member that reads the first alone.
func agreedIn(assignment []byte) compute.Schema {
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(assignment); err != nil {
		return compute.FirstSchema // the reader of the assignment itself says what is wrong
	}
	return schemaOf(writesWord, a.UserData).OrFirst()
}

// agreedPlan is a plan that tells every member what it may write.
type agreedPlan struct {
	*kgo.BalancePlan
	writes compute.Schema
}

func (p agreedPlan) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	all := p.BalancePlan.IntoSyncAssignment()
	for i := range all {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(all[i].MemberAssignment); err != nil {
			continue // nothing is said then, so the first schema is written
		}
		a.UserData = schemaSaid(writesWord, p.writes)
		all[i].MemberAssignment = a.AppendTo(nil)
	}
	return all
}

// agree tells the handler what the members of this generation read, before it decides
// anything under it.
func (r *loopRun) agree(n compute.Schema) {
	n = min(n, r.loop.opts.Reads)
	if n < r.loop.opts.Reads && n != r.writes {
		r.log.Info(
			"records are written in an older schema than this conductor reads: others of its group read no newer one",
			zap.Uint32("writes", uint32(n)), zap.Uint32("reads", uint32(r.loop.opts.Reads)),
		)
	}
	r.writes = n
	if r.loop.opts.Agreed != nil {
		r.loop.opts.Agreed(n)
	}
}
