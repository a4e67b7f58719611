// SPDX-License-Identifier: Apache-2.0

package hostkey

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/secretfile"
	"github.com/berth-project/berth/pkg/wire"
)

// master is one for tests, of one byte all over.
func master(b byte) Master { return NewMaster([secretBytes]byte(bytes.Repeat([]byte{b}, secretBytes))) }

func code(r *compute.Reason) string {
	if r == nil {
		return ""
	}
	return string(r.Code)
}

// bytesOf draws some bytes.
func bytesOf(t *rapid.T, what string) []byte {
	return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, what)
}

// record draws a record as an agent might send one.
func record(t *rapid.T) wire.Record {
	rec := wire.Record{
		Topic: rapid.SampledFrom([]string{"berth.reports", "berth.hosts"}).Draw(t, "topic"),
		Key:   bytesOf(t, "key"), Value: bytesOf(t, "value"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "headers") {
		rec.Headers = append(rec.Headers, wire.Header{Key: string(bytesOf(t, "header")), Value: bytesOf(t, "header value")})
	}
	return rec
}

// alter changes one byte or moves one over the border between two fields; false: there is nothing
// to change.
func alter(t *rapid.T, rec wire.Record) (wire.Record, bool) {
	flip := func(b []byte) ([]byte, bool) {
		if len(b) == 0 {
			return []byte{1}, true
		}
		b = slices.Clone(b)
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		return b, true
	}
	rec.Headers = slices.Clone(rec.Headers)
	i := rapid.IntRange(0, len(rec.Headers)-1).Draw(t, "which") // one is the MAC
	ok := true
	switch rapid.IntRange(0, 8).Draw(t, "what") {
	case 0:
		rec.Topic = map[string]string{"berth.reports": "berth.hosts", "berth.hosts": "other.hosts"}[rec.Topic]
	case 1:
		rec.Key, ok = flip(rec.Key)
	case 2:
		rec.Value, ok = flip(rec.Value)
	case 3:
		rec.Headers[i].Value, ok = flip(rec.Headers[i].Value)
	case 4:
		name, _ := flip([]byte(rec.Headers[i].Key))
		rec.Headers[i].Key = string(name)
	case 5:
		rec.Headers = slices.Delete(rec.Headers, i, i+1)
	case 6:
		rec.Headers = append(rec.Headers, wire.Header{Key: "more", Value: []byte{1}})
	case 7: // a byte goes from the key to the value
		if ok = len(rec.Key) > 0; ok {
			n := len(rec.Key) - 1
			rec.Value = append([]byte{rec.Key[n]}, rec.Value...)
			rec.Key = rec.Key[:n]
		}
	case 8: // a byte goes from the name of a header to its value
		if h := &rec.Headers[i]; len(h.Key) > 0 {
			n := len(h.Key) - 1
			h.Key, h.Value = h.Key[:n], append([]byte{h.Key[n]}, h.Value...)
		} else {
			ok = false
		}
	}
	return rec, ok
}

// TestNothingCanBeAltered: whatever is changed of a signed record, it does not count.
func TestNothingCanBeAltered(t *testing.T) {
	m := master(1)
	v := NewVerifier(TrustKeys, []Master{master(2), m})
	s := NewSigner(m.Derive("host-01"))
	counter := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		rec := s.Sign(record(t))
		counter++
		if proved, reason := v.Check(rec, "host-01"); reason != nil || !proved.Signed || proved.Counter != counter {
			t.Fatalf("what was signed: %v, %v", proved, reason)
		}
		if _, reason := v.Check(rec, "host-02"); code(reason) != "Forged" {
			t.Fatalf("as another host's: %v", reason)
		}
		if rec, ok := alter(t, rec); ok {
			if _, reason := v.Check(rec, "host-01"); reason == nil {
				t.Fatalf("altered, it counts: %v", rec)
			}
		}
	})
}

func TestWhoIsBelieved(t *testing.T) {
	ours, theirs := master(1), master(2)
	plain := wire.Record{Topic: "berth.reports", Key: []byte("p"), Value: []byte("v")}
	broken := plain
	broken.Headers = []wire.Header{{Key: wire.HeaderMAC, Value: []byte{2, 3}}}
	other := NewSigner(ours.Derive("b")).Sign(plain)
	for name, c := range map[string]struct {
		rec       wire.Record
		all, keys string
	}{
		"signed":         {NewSigner(ours.Derive("a")).Sign(plain), "", ""},
		"unsigned":       {plain, "", "Unsigned"},
		"no such header": {broken, "Forged", "Forged"},
		"another host's": {other, "Forged", "Forged"},
		"unknown master": {NewSigner(theirs.Derive("a")).Sign(plain), "", "Unsigned"},
	} {
		for trust, want := range map[Trust]string{TrustAll: c.all, TrustKeys: c.keys} {
			v := NewVerifier(trust, []Master{ours})
			proved, reason := v.Check(c.rec, "a")
			if code(reason) != want {
				t.Errorf("%s, trust %s: %v, want %q", name, trust, reason, want)
			}
			if signed := name == "signed"; proved.Signed != signed {
				t.Errorf("%s, trust %s: counts as signed: %t", name, trust, proved.Signed)
			}
		}
	}
	if _, reason := (*Verifier)(nil).Check(broken, "a"); reason != nil {
		t.Errorf("without a verifier: %v", reason)
	}
}

// TestKeysNeverChange: what was given to agents is right after an upgrade, too. The line was
// worked out by another program, from RFC 5869.
func TestKeysNeverChange(t *testing.T) {
	const want = "host-01 e9963d78 bea2dd9234a2ec102690b58910717c91b891284324353aa0e2bb695dc935b5ab"
	if got := master(1).Derive("host-01").Line(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// said is one record as a reader sees it: which process, and its counter.
type said struct {
	voice   int
	counter uint64
}

// TestHeardIsTheModel: each process's records count once and in order, whatever comes between.
func TestHeardIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Heard
		last := map[int]uint64{}
		for _, x := range rapid.SliceOf(rapid.Custom(func(t *rapid.T) said {
			return said{rapid.IntRange(0, 3).Draw(t, "voice"), rapid.Uint64Range(1, 6).Draw(t, "counter")}
		})).Draw(t, "records") {
			by := compute.Voice{Journal: "j", Started: time.Unix(int64(x.voice), 0)}
			reason := h.Observe("h", by, Proved{Signed: true, Counter: x.counter}, time.Time{})
			if want := x.counter > last[x.voice]; (reason == nil) != want {
				t.Fatalf("%+v after %d: %v", x, last[x.voice], reason)
			}
			last[x.voice] = max(last[x.voice], x.counter)
		}
	})
}

func TestUnsignedAreNoReplays(t *testing.T) {
	var h Heard
	for range 2 {
		if reason := h.Observe("h", compute.Voice{}, Proved{}, time.Now()); reason != nil {
			t.Error(reason)
		}
	}
	if reason := h.Stale("h", compute.Voice{}, Proved{}, time.Now()); reason != nil {
		t.Error(reason)
	}
}

// TestWhatIsLateIsNoReplay: a record counts that was signed before a beacon and came up to Late
// after it, wherever the moments lie; one that comes much later does not.
func TestWhatIsLateIsNoReplay(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(d) }
	rapid.Check(t, func(t *rapid.T) {
		var h Heard
		by := compute.Voice{Journal: "j"}
		// A beacon every so often; the n-th has the counter 10 n.
		every := time.Duration(rapid.IntRange(1, 400).Draw(t, "apart")) * time.Second
		beacons := rapid.IntRange(1, 100).Draw(t, "beacons")
		for n := range beacons {
			h.Observe("h", by, Proved{true, uint64(10 * (n + 1))}, at(time.Duration(n)*every))
		}
		signed := rapid.IntRange(0, beacons-1).Draw(t, "signed just before") // this beacon
		late := time.Duration(rapid.IntRange(0, 3600).Draw(t, "late")) * time.Second
		reason := h.Stale("h", by, Proved{true, uint64(10*(signed+1) - 5)}, at(time.Duration(signed)*every+late))
		if late <= Late && reason != nil {
			t.Fatalf("%s late, it does not count: %v", late, reason)
		}
		// Long ago, of a process that goes on: the marks are at most twice Late and a beacon old.
		heard := time.Duration(beacons-1) * every
		old := time.Duration(signed)*every + late
		if reason == nil && old > heard && old > time.Duration(signed)*every+4*(Late+every) && beacons-signed > 1 &&
			heard-time.Duration(signed)*every > 3*(Late+every) {
			t.Fatalf("%s late, it counts", late)
		}
	})
}

func TestSecretsAreNotPrinted(t *testing.T) {
	m := NewMaster([secretBytes]byte([]byte("0123456789abcdefghijklmnopqrstuv")))
	k := m.Derive("h")
	secret := strings.Fields(k.Line())[2]
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q"} {
		for _, x := range []any{m, &m, k, &k, struct{ K Key }{k}, []Master{m}} {
			text := fmt.Sprintf(verb, x)
			for _, no := range []string{
				secret, "0123456789abc", "303132333435", "48, 49, 50", "0x30, 0x31", fmt.Sprint(k.secret[:8]),
			} {
				if strings.Contains(text, strings.Trim(no, "[]")) {
					t.Errorf("%s of %T: %s", verb, x, text)
				}
			}
		}
	}
}

type kept struct{ recs []wire.Record }

func (k *kept) Send(_ context.Context, recs ...wire.Record) error {
	k.recs = append(k.recs, recs...)
	return nil
}

func (k *kept) SendEach(ctx context.Context, recs []wire.Record, told func(i int, err error)) {
	err := k.Send(ctx, recs...)
	for i := range recs {
		told(i, err)
	}
}

// TestSentAgainIsSignedAgain: so what is late of the first try is the one that does not count.
func TestSentAgainIsSignedAgain(t *testing.T) {
	m, to := master(1), &kept{}
	s := Signed(to, m.Derive("h"))
	recs := []wire.Record{{Topic: "t", Value: []byte("a")}, {Topic: "t", Value: []byte("b")}}
	if err := s.Send(t.Context(), recs...); err != nil {
		t.Fatal(err)
	}
	s.SendEach(t.Context(), recs, func(i int, err error) {
		if err != nil {
			t.Errorf("record %d: %v", i, err)
		}
	})
	v := NewVerifier(TrustKeys, []Master{m})
	for i, rec := range to.recs {
		if proved, reason := v.Check(rec, "h"); reason != nil || proved.Counter != uint64(i+1) {
			t.Errorf("record %d: %+v, %v", i, proved, reason)
		}
	}
	if len(recs[0].Headers) > 0 || len(to.recs) != 4 {
		t.Errorf("%d were sent; the caller's has now %v", len(to.recs), recs[0].Headers)
	}
}

func write(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFilesOfMasters(t *testing.T) {
	a, b := strings.Repeat("0a", 32), strings.Repeat("0b", 32)
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want int
		err  string
	}{
		"two":             {"# old\n" + a + "\n\n  " + b + "\r\n", 0o600, 2, ""},
		"others may read": {a, 0o644, 0, "chmod 600"},
		"short":           {a + "\n" + b[1:], 0o600, 0, "file:2"},
		"nothing":         {"# none yet\n", 0o400, 0, "openssl rand -hex 32"},
		"twice":           {a + "\n" + a, 0o600, 0, "leave one of the two"},
		"zeros":           {strings.Repeat("0", 64), 0o600, 0, "file:1"},
	} {
		all, err := LoadMasters("hosts.masters", write(t, c.mode, c.text))
		if len(all) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
		if err != nil && (strings.Contains(err.Error(), "0a0a") || strings.Contains(err.Error(), "0b0b")) {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"2026-02": b, "2026-01": a, ".old": "rubbish"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	all, err := LoadMasters("hosts.masters", dir)
	if err != nil || len(all) != 2 || all[1] != master(0x0b) {
		t.Errorf("a folder: %v, %v", all, err)
	}
}

func TestFilesOfKeys(t *testing.T) {
	old, is := master(1).Derive("a"), master(2).Derive("a")
	text := old.Line() + "\n" + master(2).Derive("b").Line() + "\n" + is.Line() + "\n"
	if k, err := LoadKey("host_key_file", write(t, 0o600, text), "a"); err != nil || k != is {
		t.Errorf("%v, %v", k, err)
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		err  string
	}{
		"another host's":  {master(1).Derive("b").Line(), 0o600, "no key of host a: berth host enroll a"},
		"others may read": {is.Line(), 0o604, "chmod 600"},
		"cut":             {is.Line()[:40], 0o600, "file:1"},
		"no host":         {"A! 01020304 " + strings.Repeat("0a", 32), 0o600, "file:1"},
	} {
		_, err := LoadKey("host_key_file", write(t, c.mode, c.text), "a")
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := LoadKey("host_key_file", "/does/not/exist", "a"); err == nil {
		t.Error("a missing file is a key")
	}
}

// FuzzSeal: nothing in the header does harm, and what is read is what is written.
func FuzzSeal(f *testing.F) {
	f.Add([]byte{})
	f.Add(seal{counter: 7}.encode())
	v := NewVerifier(TrustKeys, []Master{master(1)})
	id := master(1).ID()
	f.Fuzz(func(t *testing.T, header []byte) {
		if s, err := decodeSeal(header); err == nil && !bytes.Equal(s.encode(), header) {
			t.Errorf("%x is read as %x", header, s.encode())
		}
		// also as if of a known master
		known := slices.Clone(header)
		if len(known) > 5 {
			copy(known[1:], id[:])
		}
		for _, h := range [][]byte{header, known} {
			rec := wire.Record{Headers: []wire.Header{{Key: wire.HeaderMAC, Value: h}}}
			if _, reason := v.Check(rec, "h"); reason == nil {
				t.Errorf("%x is taken for a MAC", h)
			}
		}
	})
}

func FuzzFiles(f *testing.F) {
	f.Add([]byte(master(1).Derive("h").Line()))
	f.Add([]byte("# x\n" + strings.Repeat("0a", 32)))
	f.Add([]byte("h1@01020304"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = secretfile.Parse("f", "f", masterRemedy, text, parseMaster)
		keys, _ := secretfile.Parse("f", "f", keyRemedy, text, parseKey)
		for _, k := range keys {
			again, err := secretfile.Parse("f", "f", keyRemedy, []byte(k.Line()), parseKey)
			if err != nil || again[0] != k {
				t.Errorf("%v is read as %v, %v", k, again, err)
			}
		}
		if w, err := ParseWithdrawn("f", []string{string(text)}, isHost); err == nil {
			if name, _, one := strings.Cut(string(text), "@"); isHost(name) != nil || !one && !w.Has(name, MasterID{1}) {
				t.Errorf("%q is read as %v", text, w)
			}
		}
	})
}
