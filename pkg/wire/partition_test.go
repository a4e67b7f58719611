// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
)

// What org.apache.kafka.common.utils.Utils of kafka-clients 4.3.1 answers:
// murmur2(key), and toPositive of it modulo 16 and 7.
func TestPartitionIsKafkas(t *testing.T) {
	for _, v := range []struct {
		key  string
		hash int32
		of16 int32
		of7  int32
	}{
		{"", 275646681, 9, 2},
		{"a", -1563381124, 12, 5},
		{"ab", 316155434, 10, 0},
		{"abc", 479470107, 11, 4},
		{"p", 1421142146, 2, 4},
		{"21", -973932308, 12, 3},
		{"foobar", -790332482, 14, 0},
		{"web-shop", 346435911, 7, 3},
		{"_default", 660260030, 14, 3},
		{"a-little-bit-long-string", -985981536, 0, 1},
		{"a-little-bit-longer-string", -1486304829, 3, 0},
		{"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 13, 3},
		{"größe", 588164084, 4, 4},
	} {
		if got := int32(murmur2([]byte(v.key))); got != v.hash {
			t.Errorf("murmur2(%q) = %d, Kafka says %d", v.key, got, v.hash)
		}
		if got := Partition(compute.Project(v.key), 16); got != v.of16 {
			t.Errorf("Partition(%q, 16) = %d, Kafka says %d", v.key, got, v.of16)
		}
		if got := Partition(compute.Project(v.key), 7); got != v.of7 {
			t.Errorf("Partition(%q, 7) = %d, Kafka says %d", v.key, got, v.of7)
		}
	}
}
