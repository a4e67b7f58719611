// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// AuditEntry is one call of the API that changed something or was refused.
type AuditEntry struct {
	At        time.Time       `json:"at" doc:"By the clock of the node."`
	Who       string          `json:"who" doc:"The caller's name; anonymous where nobody signs in; empty: not known." example:"token:ci-bot"`
	WhoID     string          `json:"who_id" doc:"What revocation and limits go by."`
	How       string          `json:"how" doc:"How the caller signed in: token, oidc or cert; empty: not at all."`
	Operation string          `json:"operation" example:"delete-instance"`
	Project   compute.Project `json:"project"`
	Target    string          `json:"target" doc:"What it was about; empty: not known." example:"host/h1"`
	Remote    string          `json:"remote" doc:"Address that the call came from."`
	Status    int32           `json:"status" doc:"Of the answer." example:"204"`
	Kind      string          `json:"kind,omitempty" doc:"Of the problem of a refusal." example:"forbidden"`
	Request   string          `json:"request" doc:"X-Request-Id; a caller may have chosen it."`
	Node      string          `json:"node" doc:"The API node."`
	LeftOut   uint64          `json:"left_out,omitempty" doc:"So many refusals before it that this node wrote no entry for."`
}

// FromAudit shows an entry.
func FromAudit(e compute.AuditEntry) AuditEntry {
	return AuditEntry{
		utc(e.At), e.Who, e.WhoID, e.How, e.Operation, e.Project, e.Target, e.Remote, e.Status, e.Kind, e.Request, e.Node,
		e.LeftOut,
	}
}

// AuditPage is a part of the audit.
type AuditPage struct {
	Items        []AuditEntry `json:"items" nullable:"false" doc:"The newest first."`
	Next         string       `json:"next,omitempty" doc:"Give this as marker to get older ones; absent on the last page."`
	Read         int          `json:"read" doc:"How many records were looked at for this page."`
	Garbled      int          `json:"garbled,omitempty" doc:"How many of them are no entries."`
	StoppedEarly bool         `json:"stopped_early,omitempty" doc:"No more are looked at for one page; next goes on, with older ones that may be wanted too."`
}
