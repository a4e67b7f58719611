// SPDX-License-Identifier: Apache-2.0

package sealed

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
)

// key is one for tests, of one byte all over.
func key(b byte) hostkey.Master { return hostkey.NewMaster([32]byte(bytes.Repeat([]byte{b}, 32))) }

const id = "0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a"

var owner = Owner{"web-shop", id}

// TestWhatIsSealedStaysReadable after an upgrade, too. It was made by another program, from RFC 5869 and the layout in
// keys.go.
func TestWhatIsSealedStaysReadable(t *testing.T) {
	const text = "01e9963d78000102030405060708090a0be7a79ea8a696afb527c111908be88d98c59df20ab4e60632c808c852d0ba"
	s, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	data, err := New("berth.", key(1)).Open(owner, compute.Sealed(s))
	if err != nil || string(data) != "#cloud-config\n" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestSealed: what was sealed opens for its instance, and for nothing else, whatever is changed of it.
func TestSealed(t *testing.T) {
	ours := New("berth.", key(1))
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "data")
		s, err := ours.Seal(owner, data)
		if err != nil || len(s) != len(data)+Overhead {
			t.Fatalf("%d bytes of %d, %v", len(s), len(data), err)
		}
		if got, err := ours.Open(owner, s); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%x opens as %x, %v", data, got, err)
		}
		if again, err := ours.Seal(owner, data); err != nil || again[headBytes:] == s[headBytes:] {
			t.Fatalf("sealed twice it is the same: %x, %v", again, err)
		}
		changed := []byte(s)
		if n := rapid.IntRange(0, len(s)).Draw(t, "at"); n < len(s) {
			changed[n] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		} else if rapid.Bool().Draw(t, "cut") {
			changed = changed[:len(s)-1]
		} else {
			changed = append(changed, 0)
		}
		if got, err := ours.Open(owner, compute.Sealed(changed)); err == nil {
			t.Fatalf("changed it opens as %x", got)
		}
	})
}

// TestNobodyElseOpens: neither another instance nor another project or cell, also where names run into each other.
func TestNobodyElseOpens(t *testing.T) {
	ours := New("berth.", key(1))
	s, err := ours.Seal(owner, []byte("a secret"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keys *Keys
		of   Owner
		kind compute.Kind
	}{
		"another instance": {ours, Owner{"web-shop", "1b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a"}, compute.KindInvalid},
		"another project":  {ours, Owner{"web", id}, compute.KindInvalid},
		"another cell":     {New("test.", key(1)), owner, compute.KindInvalid},
		"moved names":      {New("berth.\x00web", key(1)), Owner{"shop", id}, compute.KindInvalid},
		"another key":      {New("berth.", key(2)), owner, compute.KindUnavailable},
		"no key":           {nil, owner, compute.KindUnavailable},
	} {
		data, err := c.keys.Open(c.of, s)
		if data != nil || compute.KindOf(err) != c.kind {
			t.Errorf("%s: %q, %v", name, data, err)
			continue
		}
		if !strings.Contains(err.Error(), "key e9963d78") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		if wrong := c.keys.Check(s); (wrong == nil) != (c.kind == compute.KindInvalid) {
			t.Errorf("%s: before it is opened: %v", name, wrong)
		}
	}
}

// TestRotation: the newest key seals, older ones go on opening, and one that was taken out does not.
func TestRotation(t *testing.T) {
	before, both, after := New("", key(1)), New("", key(1), key(2)), New("", key(2))
	old, err := before.Seal(owner, []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	young, err := both.Seal(owner, []byte("new"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keys *Keys
		s    compute.Sealed
		want string
	}{
		{before, old, "old"}, {both, old, "old"}, {after, old, ""},
		{before, young, ""}, {both, young, "new"}, {after, young, "new"},
	} {
		got, err := c.keys.Open(owner, c.s)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%v: %q, want %q: %v", c.keys, got, c.want, err)
		}
	}
	if got := fmt.Sprint(both.IDs(), after.IDs(), (*Keys)(nil).IDs()); got != "[e9963d78 ecefee5e] [ecefee5e] []" {
		t.Error(got)
	}
}

func TestNoDataIsNotSealed(t *testing.T) {
	ours := New("", key(1))
	s, err := ours.Seal(owner, nil)
	if s != "" || err != nil {
		t.Errorf("%x, %v", s, err)
	}
	if data, err := (*Keys)(nil).Open(owner, ""); data != nil || err != nil {
		t.Errorf("%x, %v", data, err)
	}
	if err := (*Keys)(nil).Check(""); err != nil {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	const secret = "0101010101010101010101010101010101010101010101010101010101010101"
	text := "# the first\n" + secret + "\n" + strings.Repeat("02", 32) + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := Load("user_data.keys", file, "berth.")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v %#v %+v", keys, keys, keys); strings.Contains(got, "0101") || strings.Contains(got, "1, 1") ||
		!strings.Contains(got, "e9963d78") {
		t.Error(got)
	}
	s, err := keys.Seal(owner, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New("berth.", key(2)).Open(owner, s); err != nil {
		t.Errorf("not the last line seals: %v", err)
	}
	if keys, err := Load("user_data.keys", "", ""); keys != nil || err != nil {
		t.Errorf("without a file: %v, %v", keys, err)
	}
	for name, bad := range map[string]string{"empty": "", "short": secret[1:], "twice": secret + "\n" + secret} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load("user_data.keys", file, "")
		if compute.KindOf(err) != compute.KindInvalid || !strings.Contains(err.Error(), `user_data.keys "`+file) ||
			strings.Contains(err.Error(), secret[1:]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load("user_data.keys", file, ""); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("what others may read: %v", err)
	}
}

// TestMostIsSealed: user data of the largest size is no larger, sealed, than readers take.
func TestMostIsSealed(t *testing.T) {
	s, err := New("", key(1)).Seal(owner, make([]byte, compute.MaxUserData))
	if err != nil || len(s) != compute.MaxSealed {
		t.Errorf("%d bytes, %v", len(s), err)
	}
}

// FuzzSealed: whatever somebody writes as sealed data, nothing comes of it that was not sealed for this instance.
func FuzzSealed(f *testing.F) {
	ours, theirs := New("berth.", key(1)), Owner{"web-shop", "1b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a"}
	s, err := ours.Seal(theirs, []byte("a secret"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(s))
	f.Add([]byte(s[:Overhead]))
	f.Add([]byte{version})
	f.Add(make([]byte, 2*Overhead))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := compute.Sealed(text)
		data, err := ours.Open(owner, s)
		if len(s) > 0 && (err == nil || data != nil) {
			t.Errorf("%x opens as %x", s, data)
		}
		if wrong := ours.Check(s); wrong != nil && err != nil && wrong.Error() != err.Error() {
			t.Errorf("%v, and then %v", wrong, err)
		}
	})
}

func BenchmarkSeal(b *testing.B) { bench(b, 4<<10) }

// BenchmarkSealMost is user data of the largest size.
func BenchmarkSealMost(b *testing.B) { bench(b, compute.MaxUserData) }

func bench(b *testing.B, n int) {
	ours, data := New("berth.", key(1)), make([]byte, n)
	for b.Loop() {
		s, err := ours.Seal(owner, data)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := ours.Open(owner, s); err != nil {
			b.Fatal(err)
		}
	}
}
