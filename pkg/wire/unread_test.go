// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// What stands for a batch that cannot be read is refused by every decoder, with why.
func TestUnreadIsRefusedByAll(t *testing.T) {
	why := &compute.Error{
		Kind: compute.KindInvalid, Field: "record batch", Value: "offsets 5 to 9",
		Message: "unpacks to more than 32 MiB", Remedy: "send smaller batches",
	}
	rec := Record{Topic: "t", Partition: 2, Offset: 5, Value: []byte{}, Unread: why}
	for name, decode := range map[string]func(Record) error{
		"advice":   func(r Record) error { _, err := DecodeAdvice(r); return err },
		"build":    func(r Record) error { _, err := DecodeBuild(r); return err },
		"catalog":  func(r Record) error { _, err := DecodeCatalog(r); return err },
		"command":  func(r Record) error { _, err := DecodeCommand(r); return err },
		"console":  func(r Record) error { _, err := DecodeConsole(r); return err },
		"beacon":   func(r Record) error { _, err := DecodeBeacon(r); return err },
		"instance": func(r Record) error { _, err := DecodeInstance(r); return err },
		"queue":    func(r Record) error { _, err := DecodeQueue(r); return err },
		"rejected": func(r Record) error { _, err := DecodeRejected(r); return err },
		"report":   func(r Record) error { _, err := DecodeReport(r); return err },
		"audit":    func(r Record) error { _, err := DecodeAudit(r); return err },
		"token":    func(r Record) error { _, err := DecodeToken(r); return err },
		"request":  func(r Record) error { _, err := DecodeRequest(r); return err },
	} {
		err := decode(rec)
		if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(err.Error(), "unpacks to more than 32 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rec.IsTakeover() {
		t.Error("it is no takeover")
	}
}
