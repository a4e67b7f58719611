// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// AuditFacts are what is known of the audit: of the settings that the doctor was given, and of the topic's newest
// entries, at most AuditLooks of the last day, and fewer where they are large.
type AuditFacts struct {
	Kept    string // "true", "false"; empty: the doctor was given no file of an API node
	Err     error  // why the topic could not be read; nil: it was
	Looked  int    // records that were read
	Garbled int    // of them that are no entries
	LeftOut uint64 // refusals before these entries that have none
	Last    time.Time
	Node    string // the API node that wrote the last one
}

// AuditLooks is how many records of the audit are looked at.
const AuditLooks = 10_000

// audit judges whether it is known who changed what over the API.
func audit(f Facts) []Finding {
	a := f.Audit
	kept := Finding{
		About: "audit", Check: "kept", Is: "audit " + cmp.Or(a.Kept, "not known") + "; " + a.last(f.Now), Wanted: "true",
		Why: "nobody can find out later who changed what over the API",
		Fix: "audit: true, or a way to sign in, in the settings of every API node",
	}
	if a.Kept == "" {
		kept.Wanted = "an API node's file tells (--config)"
	}
	all := []Finding{kept.with(when(a.Kept == "false", Warn, OK))}
	if _, there := f.Own[f.Topics.Audit()]; !there && !slices.Contains(f.Refused, f.Topics.Audit()) {
		return all
	}
	if a.Err != nil {
		return append(all, Finding{
			About: "audit", Check: "its entries", Wanted: "they can be read",
			Why: "berth audit cannot show them either", Fix: "look again in a moment",
		}.notKnown(a.Err))
	}
	return append(all, a.leftOut(), a.garbled())
}

// last is when there was an entry.
func (a AuditFacts) last(now time.Time) string {
	if a.Err != nil {
		return "its entries are not known"
	}
	if a.Last.IsZero() {
		return "no entry in the last day"
	}
	return fmt.Sprintf("the last entry is %s old, of node %s", now.Sub(a.Last).Round(time.Second), cmp.Or(a.Node, "-"))
}

func (a AuditFacts) leftOut() Finding {
	out := Finding{
		About: "audit", Check: "refusals without an entry", Is: fmt.Sprint(a.LeftOut), Wanted: "0",
		Why: fmt.Sprintf("in the last day, by the newest %d entries: more was refused at once than is written down",
			a.Looked-a.Garbled),
		Fix: `berth audit --result refused: somebody tries, or a program has no right token; ` +
			`berth_api_audit_entries_total has what a node left out or could not write`,
	}
	return out.with(when(a.LeftOut == 0, OK, Warn))
}

func (a AuditFacts) garbled() Finding {
	out := Finding{
		About: "audit", Check: "records that are no entries", Is: fmt.Sprint(a.Garbled), Wanted: "0",
		Why: "something else than API nodes of this version or an earlier one writes there",
		Fix: "upgrade this command; then look who may write there: kafka-acls.sh --list",
	}
	return out.with(when(a.Garbled == 0, OK, Warn))
}
