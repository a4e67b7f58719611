// SPDX-License-Identifier: Apache-2.0

package conductor

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/wire"
)

// What lies in the wrong partition is refused with what its producer has to change: the key, or how it chooses a
// partition by it.
func TestWrongPartitionSaysWhatToChange(t *testing.T) {
	turn := &turn{Conductor: &Conductor{cfg: Config{Partitions: 16}}}
	right := wire.Partition("web", 16)
	for _, c := range []struct {
		key       string
		partition int32
		says      string
	}{
		{"web", right, ""}, {"", right, ""}, {"", right + 1, "set the key to the project"},
		{"db", right + 1, "set the key to the project"}, {"web", right + 1, "partitioner=murmur2_random"},
	} {
		rec := wire.Record{Key: []byte(c.key), Partition: c.partition % 16}
		reason := turn.belongs("web", rec, false)
		if reason == nil != (c.says == "") || reason != nil && !strings.Contains(reason.Detail, c.says) {
			t.Errorf("key %q in partition %d: %v", c.key, c.partition, reason)
		}
		if turn.belongs("web", rec, true) != nil {
			t.Errorf("what is for every partition is refused in %d", c.partition)
		}
	}
}
