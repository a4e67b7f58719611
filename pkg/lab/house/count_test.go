// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// TestCount counts a small tree of which all is known.
func TestCount(t *testing.T) {
	root := fstest.MapFS{
		path.Join("docs", "A.md"):              {Data: []byte("# A page\n\nof six words\n")},
		path.Join("docs", "decisions", "1.md"): {Data: []byte("not counted")},
		".hidden/x.go":                         {Data: []byte("package x\n")},
		"few/testdata/x.go":                    {Data: []byte("no Go")},
		"few/few.go": {
			Data: []byte(
				"package few\n\n// T is for the one who waits.\ntype T struct{}\n\n" +
					"func (t *T) A() {}\n\nfunc (T) B() {}\n",
			),
		},
		"few/few_test.go": {
			Data: []byte("package few\n\n// Whoever " + strings.Repeat("x", 120) + "\nvar x = 1\n"),
		},
		"few/generated.pb.go": {Data: []byte("package few // who\n")},
		"long/long.go": {
			Data: []byte("package long\n\nfunc long() {\n" + strings.Repeat("\tlong()\n", 60) + "}\n"),
		},
		"docs/notes.txt": {Data: []byte("not counted")},
	}
	for n := range mostFiles + 1 {
		root[fmt.Sprintf("many/f%02d.go", n)] = &fstest.MapFile{Data: []byte("package many\n")}
	}
	rows, err := count(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1: many 26", "long, 64", "few T, 2", "3, 62, 1", "1 of 102 (1.0 %), 131", "2", "6"}
	for n, r := range rows {
		if r.counted != want[n] {
			t.Errorf("%s: %s, wanted %s", r.what, r.counted, want[n])
		}
	}
}
