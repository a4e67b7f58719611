// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"testing"
)

// FuzzValue reads what may lie in the file: it must not panic, and what it reads
// it writes so that it is read again.
func FuzzValue(f *testing.F) {
	f.Add([]byte(`{"v":1,"x":{"instance":"i","attempt":1,"claim":"c","resources":{"VCPU":1},` +
		`"stage":"taken","end":{"how":"gone"}}}`))
	f.Add([]byte(`{"v":2,"x":{}}`))
	f.Add([]byte(`{"v":1,"x":7}`))
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		var (
			entry    Entry
			given    Given
			host     Host
			position int64
		)
		for _, x := range []any{&given, &host, &position} {
			_ = read("key", value, x) // an error is an answer
		}
		if read("key", value, &entry) != nil {
			return
		}
		body, err := json.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(versioned{V: version, X: body})
		if err != nil {
			t.Fatal(err)
		}
		var second Entry
		if err := read(
			"key", again, &second,
		); err != nil || second.Instance != entry.Instance || second.Stage != entry.Stage {
			t.Fatalf("%+v is read as %+v, %v", entry, second, err)
		}
	})
}
