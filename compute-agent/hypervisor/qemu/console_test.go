package qemu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// What is kept of a console is its end, at the offsets it was printed at, however
// it grows and however often it is cut.
func TestConsoleKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		d := &Driver{o: Options{Dir: dir, ConsoleBytes: 64}}
		if err := d.create(record{Machine: machineOf(spec(""))}); err != nil {
			rt.Fatal(err)
		}
		var all []byte
		for i := range rapid.IntRange(1, 20).Draw(rt, "steps") {
			text := []byte(fmt.Sprintf("%d:%s", i, bytes.Repeat([]byte("x"), rapid.IntRange(0, 100).Draw(rt, "length"))))
			all = append(all, text...)
			f, err := os.OpenFile(filepath.Join(d.dir(one), consoleFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				rt.Fatal(err)
			}
			f.Write(text)
			f.Close()
			if err := d.trim(one); err != nil {
				rt.Fatal(err)
			}
			offset := int64(rapid.IntRange(-150, len(all)+5).Draw(rt, "offset"))
			part, err := d.Console(t.Context(), one, offset, rapid.IntRange(0, 70).Draw(rt, "limit"))
			if err != nil {
				rt.Fatal(err)
			}
			if part.End != int64(len(all)) || !bytes.HasPrefix(all[part.Offset:], part.Data) {
				rt.Fatalf("after %d bytes, from %d: %+v", len(all), offset, part)
			}
			kept := int64(0)
			entries, _ := os.ReadDir(d.dir(one))
			for _, e := range entries {
				if e.Name() != recordFile {
					info, _ := e.Info()
					kept += info.Size()
				}
			}
			if kept > 64 || kept < int64(min(len(all), 32)) {
				rt.Fatalf("%d bytes are kept of %d", kept, len(all))
			}
		}
	})
}
