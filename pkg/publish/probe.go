// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Probe finds out what a client's partitioner does, by asking it: whether it
// takes the partition that a record names, and if not, whether it takes Kafka's
// default for the key, as Berth does. ask answers where the partitioner would
// put a record with this key and this partition, of n; ok is false where it
// would take only those partitions that can be written to now, whose number
// changes. setting names the client's setting for the error.
func Probe(
	setting, remedy string, ask func(key []byte, partition, n int32) (at int32, ok bool),
) (chooses bool, err error) {
	byName, byKey := true, true
	for _, n := range []int32{2, 3, 7, 12, 16, 50} {
		for i := range int32(20) {
			p := compute.Project(fmt.Sprintf("project-%d", i))
			hash := wire.Partition(p, n)
			named := (hash + 1) % n
			at, ok := ask([]byte(p), named, n)
			byName = byName && ok && at == named
			byKey = byKey && ok && at == hash
		}
	}
	if byName || byKey {
		return byName, nil
	}
	return false, Unfit(setting, "another", remedy)
}
