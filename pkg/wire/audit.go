// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeAudit makes the record of one call; its key is the request id.
func EncodeAudit(e compute.AuditEntry) Record {
	return seal([]byte(e.Request), &pb.AuditEntry{
		At:        stamp(e.At),
		Node:      message(e.Node),
		Request:   text(e.Request),
		Who:       message(e.Who),
		WhoId:     message(e.WhoID),
		How:       text(e.How),
		Operation: text(e.Operation),
		Project:   text(e.Project),
		Target:    message(e.Target),
		Remote:    message(e.Remote),
		Status:    e.Status,
		Kind:      text(e.Kind),
		LeftOut:   e.LeftOut,
	}, "")
}

// DecodeAudit reads a record of audit.
func DecodeAudit(rec Record) (compute.AuditEntry, error) {
	return decode("audit", rec, &pb.AuditEntry{}, auditFrom)
}

func auditFrom(r *reader, m *pb.AuditEntry) compute.AuditEntry {
	e := compute.AuditEntry{
		At:        r.time("at", m.GetAt()),
		Node:      message(m.GetNode()),
		Request:   m.GetRequest(),
		Who:       message(m.GetWho()),
		WhoID:     message(m.GetWhoId()),
		How:       m.GetHow(),
		Operation: m.GetOperation(),
		Project:   compute.Project(m.GetProject()),
		Target:    message(m.GetTarget()),
		Remote:    message(m.GetRemote()),
		Status:    m.GetStatus(),
		Kind:      m.GetKind(),
		LeftOut:   m.GetLeftOut(),
	}
	perhaps(r, e.Project)
	for field, value := range map[string]string{
		"request": e.Request, "how": e.How, "operation": e.Operation, "kind": e.Kind,
	} {
		r.atMost(field, len(value), MaxID)
	}
	if e.Operation == "" {
		r.refuse(compute.Invalid("operation", "", "say which"))
	}
	if e.Status < 100 || e.Status > 599 {
		r.refuse(compute.Invalid("status", fmt.Sprint(e.Status), "give a status of HTTP, 100 to 599"))
	}
	return e
}
