// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// What is kept of a console is its end, at the offsets it was printed at, however
// it grows, however often it is cut, and however often virtlogd begins anew.
func TestKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		ok := func(err error) {
			if err != nil {
				rt.Fatal(err)
			}
		}
		ok(err)
		l := Log{Dir: dir, Keep: 64}
		now := filepath.Join(dir, File)
		var all []byte
		for i := range rapid.IntRange(1, 20).Draw(rt, "steps") {
			text := []byte(
				fmt.Sprintf("%d:%s", i, bytes.Repeat([]byte("x"), rapid.IntRange(0, 100).Draw(rt, "length"))),
			)
			all = append(all, text...)
			for len(text) > 0 {
				n := rapid.IntRange(1, len(text)).Draw(rt, "written")
				f, err := os.OpenFile(now, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				ok(err)
				f.Write(text[:n])
				f.Close()
				if text = text[n:]; rapid.Bool().Draw(rt, "turned") {
					_ = os.Rename(now+".0", now+".1")
					ok(os.Rename(now, now+".0"))
				}
				// virtlogd would throw it away: nobody looked in time
				if _, full := os.Stat(now + ".1"); full == nil {
					ok(l.Trim())
				}
			}
			ok(l.Trim())
			offset := int64(rapid.IntRange(-150, len(all)+5).Draw(rt, "offset"))
			part, err := l.Read(offset, rapid.IntRange(0, 70).Draw(rt, "limit"))
			ok(err)
			if part.End != int64(len(all)) || !bytes.HasPrefix(all[part.Offset:], part.Data) {
				rt.Fatalf("after %d bytes, from %d: %+v", len(all), offset, part)
			}
			kept := int64(0)
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				info, _ := e.Info()
				kept += info.Size()
			}
			if kept > 64 || kept < int64(min(len(all), 32)) {
				rt.Fatalf("%d bytes are kept of %d", kept, len(all))
			}
		}
	})
}
