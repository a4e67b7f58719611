// SPDX-License-Identifier: Apache-2.0

package publishkey

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/secretfile"
	"github.com/berth-project/berth/pkg/wire"
)

// master is one for tests, of one byte all over.
func master(b byte) hostkey.Master { return hostkey.NewMaster([32]byte(bytes.Repeat([]byte{b}, 32))) }

func code(r *compute.Reason) string {
	if r == nil {
		return ""
	}
	return string(r.Code)
}

// TestKeysNeverChange: what was given to publishers is right after an upgrade, too, and so is what a program without a
// Berth package signs. Both were worked out by another program, from RFC 5869 and docs/PUBLISHING.md.
func TestKeysNeverChange(t *testing.T) {
	key := Derive(master(1), "web-ci", "web-shop,web-test")
	const line = "web-ci web-shop,web-test e9963d78 c674d7dc71ecc25d930b11d8c45ef53f5730b93711cf8cd2fb17cae8b59cb58a"
	if got := key.Line(); got != line {
		t.Errorf("%s, want %s", got, line)
	}
	rec := key.Sign(wire.Record{
		Topic: "berth.requests", Key: []byte("web-shop"), Value: []byte("{}"),
		Headers: []wire.Header{{Key: wire.HeaderContentType, Value: []byte(wire.ContentJSON)}},
	})
	const header = "1 web-ci web-shop,web-test e9963d78 a73471748a0b0006d11c26cc23d61dad967303cc6c9cfff4ba09fe1fe4e89868"
	if got := string(rec.Header(wire.HeaderPublisher)); got != header {
		t.Errorf("%s, want %s", got, header)
	}
}

// record draws a request as somebody might write one.
func record(t *rapid.T) wire.Record {
	some := func(what string) []byte { return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, what) }
	return wire.Record{
		Topic: rapid.SampledFrom([]string{"berth.requests", "other.requests"}).Draw(t, "topic"),
		Key:   some("key"), Value: some("value"),
		Headers: []wire.Header{
			{Key: wire.HeaderSchema, Value: some("schema")}, {Key: wire.HeaderContentType, Value: some("type")},
		},
	}
}

// alter changes one byte or moves one over the border between two fields; false: there is nothing to change.
func alter(t *rapid.T, rec wire.Record) (wire.Record, bool) {
	rec.Headers = slices.Clone(rec.Headers)
	fields := []*[]byte{&rec.Key, &rec.Headers[0].Value, &rec.Headers[1].Value, &rec.Value, &rec.Headers[2].Value}
	i := rapid.IntRange(0, len(fields)).Draw(t, "which")
	if i == len(fields) {
		rec.Topic = map[string]string{"berth.requests": "other.requests", "other.requests": "berth.requests"}[rec.Topic]
		return rec, true
	}
	was := *fields[i]
	if len(was) == 0 {
		return rec, false
	}
	if last := len(was) - 1; i < 3 && rapid.Bool().Draw(t, "moved") {
		*fields[i], *fields[i+1] = was[:last], append([]byte{was[last]}, *fields[i+1]...)
		return rec, true
	}
	now := slices.Clone(was)
	now[rapid.IntRange(0, len(now)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	*fields[i] = now
	return rec, true
}

// TestNothingCanBeAltered: whatever is changed of a signed request, its header included, it does not count.
func TestNothingCanBeAltered(t *testing.T) {
	v := NewVerifier(hostkey.TrustKeys, []hostkey.Master{master(2), master(1)})
	rapid.Check(t, func(t *rapid.T) {
		projects := rapid.SampledFrom([]Projects{"a", "a,b", All}).Draw(t, "projects")
		rec := Derive(master(1), "ci", projects).Sign(record(t))
		if reason := v.Check(rec, "a"); reason != nil {
			t.Fatalf("what was signed: %v", reason)
		}
		if rec, ok := alter(t, rec); ok && v.Check(rec, "a") == nil {
			t.Fatalf("altered, it counts: %v", rec)
		}
	})
}

func TestWhoMayWrite(t *testing.T) {
	ours, theirs := master(1), master(2)
	plain := wire.Record{Topic: "berth.requests", Key: []byte("a"), Value: []byte("v")}
	with := func(header string) wire.Record {
		rec := plain
		rec.Headers = []wire.Header{{Key: wire.HeaderPublisher, Value: []byte(header)}}
		return rec
	}
	signed := func(m hostkey.Master, p Projects) wire.Record { return Derive(m, "ci", p).Sign(plain) }
	wider := strings.Replace(string(signed(ours, "b").Header(wire.HeaderPublisher)), "ci b ", "ci * ", 1)
	for name, c := range map[string]struct {
		rec     wire.Record
		project compute.Project
		want    string
	}{
		"signed":                        {signed(ours, "a"), "a", ""},
		"of several":                    {signed(ours, "a,b"), "b", ""},
		"of all":                        {signed(ours, All), "b", ""},
		"unsigned":                      {plain, "a", "Unsigned"},
		"unknown master":                {signed(theirs, "a"), "a", "Unsigned"},
		"another project":               {signed(ours, "a,b"), "c", "ForeignProject"},
		"a part of a name":              {signed(ours, "ab,cd"), "a", "ForeignProject"},
		"about a host":                  {signed(ours, "a"), "", "ForeignProject"},
		"about a host, of all":          {signed(ours, All), "", ""},
		"says that it is for more":      {with(wider), "a", "Forged"},
		"empty":                         {with(""), "a", "Forged"},
		"no MAC":                        {with("1 ci a e9963d78 "), "a", "Forged"},
		"of a later version":            {with("2 ci a e9963d78 00"), "a", "Forged"},
		"projects out of order":         {with("1 ci b,a e9963d78 00"), "a", "Forged"},
		"no name":                       {with("1  a e9963d78 00"), "a", "Forged"},
		"a master of one digit too few": {with("1 ci a e9963d7 00"), "a", "Forged"},
	} {
		for _, trust := range []hostkey.Trust{hostkey.TrustAll, hostkey.TrustKeys} {
			v := NewVerifier(trust, []hostkey.Master{ours})
			for range 2 { // the second time what was right is known
				if reason := v.Check(c.rec, c.project); code(reason) != c.want {
					t.Errorf("%s: %v, want %q", name, reason, c.want)
				}
			}
			if v.Refuses() != (trust == hostkey.TrustKeys) {
				t.Errorf("trust %s refuses: %t", trust, v.Refuses())
			}
		}
	}
}

// TestWithdrawnKeysDoNotCount: another name's do, and another key under a newer master.
func TestWithdrawnKeysDoNotCount(t *testing.T) {
	old, is := master(1), master(2)
	w, err := hostkey.ParseWithdrawn("f", []string{"ci", "web@" + old.ID().String()}, func(name string) error {
		return compute.PublisherName(name).Check()
	})
	if err != nil {
		t.Fatal(err)
	}
	v := NewVerifier(hostkey.TrustKeys, []hostkey.Master{old, is}).Without(w)
	for _, c := range []struct {
		master hostkey.Master
		name   compute.PublisherName
		want   string
	}{{old, "ci", "Forged"}, {is, "ci", "Forged"}, {old, "web", "Forged"}, {is, "web", ""}, {old, "ci-2", ""}} {
		reason := v.Check(Derive(c.master, c.name, "a").Sign(wire.Record{Topic: "t"}), "a")
		if code(reason) != c.want || reason != nil && !strings.Contains(reason.Detail, "publish.withdrawn") {
			t.Errorf("%s under %s: %v", c.name, c.master, reason)
		}
	}
}

// TestStrangersFillNothing: only what was signed by a master is remembered.
func TestStrangersFillNothing(t *testing.T) {
	v := NewVerifier(hostkey.TrustKeys, []hostkey.Master{master(1)})
	for i := range 100 {
		key := Derive(master(1), compute.PublisherName(fmt.Sprint("x", i)), All)
		key.secret[0] ^= 1
		if code(v.Check(key.Sign(wire.Record{Topic: "t"}), "a")) != "Forged" {
			t.Fatal("forged, and taken")
		}
	}
	if len(v.known) > 0 {
		t.Errorf("%d are remembered", len(v.known))
	}
}

func TestProjects(t *testing.T) {
	for text, want := range map[string]Projects{"b,a,b": "a,b", "*": All, "a": "a"} {
		if got, err := ParseProjects(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a,", "a,*", "A", "a b", strings.Repeat("p,", 20) + strings.Repeat("q", 65)} {
		if got, err := ParseProjects(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
	var long []string
	for i := range 200 {
		long = append(long, fmt.Sprint("project-", i))
	}
	if _, err := ParseProjects(strings.Join(long, ",")); err == nil || !strings.Contains(err.Error(), "several publishers") {
		t.Errorf("a list that is too long: %v", err)
	}
}

// TestSecretsAreNotPrinted, however a key is printed but by Line.
func TestSecretsAreNotPrinted(t *testing.T) {
	k := Derive(master(1), "ci", "a")
	secret := strings.Fields(k.Line())[3]
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, x := range []any{k, &k, struct{ K Key }{k}} {
			text := fmt.Sprintf(verb, x)
			numbers := strings.Trim(fmt.Sprint(k.secret[:4]), "[]")
			if strings.Contains(text, secret[:12]) || strings.Contains(text, numbers) {
				t.Errorf("%s of %T: %s", verb, x, text)
			}
		}
	}
}

type kept struct{ recs []wire.Record }

func (k *kept) Send(_ context.Context, recs ...wire.Record) error {
	k.recs = append(k.recs, recs...)
	return nil
}

func (k *kept) Append(ctx context.Context, rec wire.Record) (int64, error) {
	return 7, k.Send(ctx, rec)
}

// TestRequestsAloneAreSigned, whichever way they are sent, and the caller's records stay as they are.
func TestRequestsAloneAreSigned(t *testing.T) {
	const requests = "berth.requests"
	to := &kept{}
	s := Signed(to, requests, Derive(master(1), "api", All))
	recs := []wire.Record{{Topic: requests, Partition: 1}, {Topic: "berth.hosts"}, {Topic: requests}}
	if err := s.Send(t.Context(), recs...); err != nil {
		t.Fatal(err)
	}
	if at, err := s.Append(t.Context(), recs[0]); at != 7 || err != nil {
		t.Fatal(at, err)
	}
	v := NewVerifier(hostkey.TrustKeys, []hostkey.Master{master(1)})
	for i, want := range []string{"", "Unsigned", "", ""} {
		if reason := v.Check(to.recs[i], ""); code(reason) != want {
			t.Errorf("record %d: %v, want %q", i, reason, want)
		}
	}
	if to.recs[0].Partition != 1 || len(recs[0].Headers) > 0 {
		t.Errorf("%+v was made of %+v", to.recs[0], recs[0])
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

func TestFilesOfKeys(t *testing.T) {
	old, is := Derive(master(1), "ci", "a"), Derive(master(2), "ci", "a,b")
	text := "# of CI\n" + old.Line() + "\n\n" + is.Line() + "\n"
	if k, err := Load("publish_key_file", write(t, 0o600, text)); err != nil || k != is {
		t.Errorf("%v, %v", k, err)
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		err  string
	}{
		"others may read":     {is.Line(), 0o604, "chmod 600"},
		"cut":                 {is.Line()[:40], 0o600, "file:1"},
		"no secret":           {"ci a 01020304 " + strings.Repeat("0", 64), 0o600, "file:1"},
		"projects as typed":   {"ci b,a 01020304 " + strings.Repeat("0a", 32), 0o600, "file:1"},
		"a host's key":        {master(1).Derive("h").Line(), 0o600, "file:1"},
		"nothing in the file": {"# none yet\n", 0o600, "berth publisher enroll"},
	} {
		_, err := Load("publish_key_file", write(t, c.mode, c.text))
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "0a0a") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	if _, err := Load("publish_key_file", "/does/not/exist"); err == nil {
		t.Error("a missing file is a key")
	}
}

// FuzzHeader: nothing in the header does harm, and nothing but what was signed is taken.
func FuzzHeader(f *testing.F) {
	f.Add("")
	f.Add(string(Derive(master(1), "ci", "a").Sign(wire.Record{Topic: "t"}).Header(wire.HeaderPublisher)))
	f.Add("1 ci * e9963d78 00")
	v := NewVerifier(hostkey.TrustKeys, []hostkey.Master{master(1)})
	f.Fuzz(func(t *testing.T, header string) {
		rec := wire.Record{Topic: "other", Headers: []wire.Header{{Key: wire.HeaderPublisher, Value: []byte(header)}}}
		if v.Check(rec, "a") == nil {
			t.Errorf("%q is taken for a MAC", header)
		}
		if p, err := ParseProjects(header); err == nil {
			if again, err := ParseProjects(string(p)); err != nil || again != p {
				t.Errorf("%s is read as %s, %v", p, again, err)
			}
		}
	})
}

func FuzzFiles(f *testing.F) {
	f.Add([]byte(Derive(master(1), "ci", "a,b").Line()))
	f.Add([]byte("# x\n*"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, _ := secretfile.Parse("f", "f", keyRemedy, text, parseLine)
		for _, k := range keys {
			again, err := secretfile.Parse("f", "f", keyRemedy, []byte(k.Line()), parseLine)
			if err != nil || again[0] != k {
				t.Errorf("%v is read as %v, %v", k, again, err)
			}
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	rec := wire.Record{Topic: "berth.requests", Key: []byte("p"), Value: make([]byte, 300)}
	rec = Derive(master(1), "api", All).Sign(rec)
	v := NewVerifier(hostkey.TrustKeys, []hostkey.Master{master(1)})
	for b.Loop() {
		if reason := v.Check(rec, "p"); reason != nil {
			b.Fatal(reason)
		}
	}
}
