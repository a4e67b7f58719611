// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"

	"github.com/berth-project/berth/pkg/compute"
)

// Partition is where a project's records are: Kafka's own default for the
// key, so that any client that sets the key to the project finds it too.
func Partition(p compute.Project, partitions int32) int32 {
	return int32(uint32(murmur2([]byte(p)))&0x7fffffff) % partitions
}

// murmur2 is the hash of Kafka's default partitioner (seed 0x9747b28c).
func murmur2(b []byte) uint32 {
	const m, seed = 0x5bd1e995, 0x9747b28c
	h := seed ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

func itoa(n int) string { return strconv.Itoa(n) }
