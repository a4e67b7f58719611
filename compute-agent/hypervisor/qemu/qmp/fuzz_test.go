// SPDX-License-Identifier: Apache-2.0

package qmp

import (
	"encoding/json"
	"testing"
)

// FuzzDecode reads lines that are not QEMU's: what is taken is one of the three
// things a line may be.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		greeting, `{"return":{},"id":"1"}`, `{"return":[],"id":2}`, `{"error":{"class":"c","desc":"d"}}`,
		`{"event":"STOP","data":null}`, "null", "{}",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := decode(line)
		if err == nil &&
			(!json.Valid(line) || m.Greeting == nil && m.Return == nil && m.Error == nil && m.Event == "") {
			t.Errorf("%q is read as %+v", line, m)
		}
	})
}
