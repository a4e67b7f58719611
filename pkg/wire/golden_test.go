// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A golden file is one record as it was written: what stands there must be
// read for ever, by every later version.
func TestGolden(t *testing.T) {
	names := map[string]bool{}
	for _, s := range samples() {
		names[s.name+".golden"] = true
		t.Run(s.name, func(t *testing.T) {
			path := filepath.Join("testdata", "v1", s.name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(format(s.rec)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(file), format(s.rec)); diff != "" {
				t.Errorf("encoded differently from what is committed (-committed +now):\n%s", diff)
			}
			got, err := s.decode(parse(t, string(file)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s.want, got); diff != "" {
				t.Errorf("read differently from what was meant (-meant +read):\n%s", diff)
			}
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "v1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !names[f.Name()] {
			t.Errorf("no sample is called %s: keep one, or nobody knows whether the file can still be read", f.Name())
		}
	}
}

// format is a record as text: a line for the key, one for each header, then the
// value in hex.
func format(rec Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key %q\n", rec.Key)
	for _, h := range rec.Headers {
		fmt.Fprintf(&b, "header %s %q\n", h.Key, h.Value)
	}
	if rec.Value == nil {
		return b.String() + "no value\n"
	}
	b.WriteString("value\n")
	for value := rec.Value; len(value) > 0; {
		n := min(len(value), 32)
		b.WriteString(hex.EncodeToString(value[:n]) + "\n")
		value = value[n:]
	}
	return b.String()
}

// parse reads what format wrote.
func parse(t *testing.T, file string) Record {
	t.Helper()
	var rec Record
	unquote := func(s string) []byte {
		text, err := strconv.Unquote(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return []byte(text)
	}
	for line := range strings.Lines(file) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "key":
			rec.Key = unquote(rest)
		case "header":
			key, value, _ := strings.Cut(rest, " ")
			rec.Headers = append(rec.Headers, Header{Key: key, Value: unquote(value)})
		case "no":
		case "value":
			rec.Value = []byte{}
		default:
			value, err := hex.DecodeString(word)
			if err != nil {
				t.Fatal(err)
			}
			rec.Value = append(rec.Value, value...)
		}
	}
	return rec
}
