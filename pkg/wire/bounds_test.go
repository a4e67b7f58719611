// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/berth-project/berth/pkg/compute"
)

// What a hypervisor says may be of any length and no UTF-8: it is cut and
// repaired, never refused.
func TestMessagesAreCut(t *testing.T) {
	p := sampleReport(compute.ReportFailed)
	p.Message = "\xff" + strings.Repeat("ä", MaxMessage)
	got, err := DecodeReport(EncodeReport(p))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Message); n > MaxMessage || n < MaxMessage-utf8.UTFMax {
		t.Errorf("%d bytes came, wanted nearly %d", n, MaxMessage)
	}
	if !utf8.ValidString(got.Message) || !strings.HasPrefix(got.Message, "\uFFFDää") ||
		!strings.HasSuffix(got.Message, "ä") {
		t.Errorf("not repaired: %q … %q", got.Message[:8], got.Message[len(got.Message)-4:])
	}
}

// No word may stop an encoder.
func TestTextThatIsNone(t *testing.T) {
	const bad = "\xff\xfe"
	i := sampleInstanceRecord()
	i.Boot.Name, i.Boot.Metadata, i.Claim, i.Required = bad, map[string]string{bad: bad}, bad, []compute.Trait{bad}
	i.Reason.Detail = bad
	if _, err := DecodeInstance(EncodeInstance(i)); err != nil {
		t.Error(err)
	}
	b := sampleBeacon()
	b.Reason, b.Inventory.Traits = bad, []compute.Trait{bad}
	if _, err := DecodeBeacon(EncodeBeacon(b)); err != nil {
		t.Error(err)
	}
}

// A rejected record of any size can be written down, its key included.
func TestRejectedIsCut(t *testing.T) {
	rec := EncodeRejected(compute.Rejected{
		Key: bytes.Repeat([]byte("k"), 1<<20), Value: bytes.Repeat([]byte("v"), 1<<20),
		Reason: compute.Reason{Code: compute.Malformed, Detail: strings.Repeat("d", 1<<20)},
	})
	if size := len(rec.Key) + len(rec.Value); size > 80<<10 {
		t.Errorf("%d bytes", size)
	}
	got, err := DecodeRejected(rec)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Key) != MaxRejectedKey || len(got.Value) != compute.MaxRejectedValue {
		t.Errorf("kept %d bytes of the key, %d of the value", len(got.Key), len(got.Value))
	}
}

// The largest request that is taken makes an instance that can be written.
func TestLargestInstance(t *testing.T) {
	const batch = 1 << 20
	q := sampleRequest(compute.OpBoot)
	q.Boot.UserData, q.Boot.Sealed = "", compute.Sealed(make([]byte, compute.MaxSealed))
	q.Boot.Metadata = map[string]string{"k": strings.Repeat("m", compute.MaxMetadataSize-1)}
	q.Boot.Avoid = nil
	for range compute.MaxAvoid {
		q.Boot.Avoid = append(q.Boot.Avoid, compute.HostID(strings.Repeat("h", 64)))
	}
	got, err := DecodeRequest(EncodeRequest(q))
	if err != nil {
		t.Fatal(err)
	}
	i := sampleInstanceRecord()
	i.Boot, i.Failures = *got.Boot, nil
	for n := range compute.Attempt(compute.MaxAttempts) {
		i.Failures = append(i.Failures, compute.Failure{
			Host: "host-17", Attempt: n + 1, Message: strings.Repeat("e", 1<<20),
		})
	}
	if size := len(EncodeInstance(i).Value); size > batch/2 {
		t.Errorf("%d bytes, of which a batch holds %d", size, batch)
	}
}

func TestTimes(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	q := sampleRequest(compute.OpDelete)
	q.At = at(0).In(zone)
	got, err := DecodeRequest(EncodeRequest(q))
	if err != nil || !got.At.Equal(q.At) || got.At.Location() != time.UTC {
		t.Errorf("%v, %v: wanted %v in UTC", got.At, err, q.At)
	}
	q.At = time.Time{}
	rec := EncodeRequest(q)
	if got, err = DecodeRequest(rec); err != nil || !got.At.IsZero() {
		t.Errorf("%v, %v: wanted no time", got.At, err)
	}
	rec.Time = at(5).In(zone)
	if got, err = DecodeRequest(rec); err != nil || !got.At.Equal(at(5)) || got.At.Location() != time.UTC {
		t.Errorf("%v, %v: wanted the record's time", got.At, err)
	}
	// Year 12000: no reader takes it, so it is not sent.
	q.At = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
	if got, err = DecodeRequest(EncodeRequest(q)); err != nil || !got.At.IsZero() {
		t.Errorf("%v, %v: wanted no time", got.At, err)
	}
}
