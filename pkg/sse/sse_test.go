// SPDX-License-Identifier: Apache-2.0

package sse

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	all := []Event{
		{Retry: time.Second}, {ID: "3:1"}, {ID: "3:2", Name: "change", Data: []byte(`{"a":"b: c"}`)},
		{Name: "end", Data: []byte("two\nlines")}, {Data: []byte{}},
	}
	var b bytes.Buffer
	for _, e := range all {
		if err := Comment(&b, "still here"); err != nil {
			t.Fatal(err)
		}
		if err := e.Write(&b); err != nil {
			t.Fatal(err)
		}
	}
	b.WriteString("id: cut off\ndata: x\n")
	r := NewReader(&b, 1000)
	for _, want := range all {
		got, err := r.Next()
		if err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%v: %s", err, cmp.Diff(want, got))
		}
	}
	if e, err := r.Next(); err != io.EOF {
		t.Errorf("%+v %v after the end", e, err)
	}
}

func TestLongLinesAreRefused(t *testing.T) {
	r := NewReader(strings.NewReader("data: "+strings.Repeat("x", 5000)+"\n\n"), 4096)
	if e, err := r.Next(); err == nil || err == io.EOF {
		t.Errorf("%+v %v", e, err)
	}
}

// FuzzReader: whatever a server sends, what is read of it can be written and read again.
func FuzzReader(f *testing.F) {
	f.Add([]byte("retry: 1\nid: 3:1\nevent: change\ndata: {}\n\n"))
	f.Add([]byte(":\r\n\r\nid\ndata\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(bytes.NewReader(stream), 1<<16)
		for {
			e, err := r.Next()
			if err != nil {
				return
			}
			var b bytes.Buffer
			if err := e.Write(&b); err != nil {
				t.Fatal(err)
			}
			if again, err := NewReader(&b, 1<<17).Next(); err == nil && cmp.Diff(e, again) != "" {
				t.Error(cmp.Diff(e, again))
			}
		}
	})
}
