// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/compute"
)

// The first part of the catalog's keys.
const (
	flavorPrefix     = "flavor/"
	capabilityPrefix = "capability/"
	quotaPrefix      = "quota/"
	groupPrefix      = "group/"
)

// KeyFlavor is the key of a flavor in the catalog.
func KeyFlavor(f compute.FlavorName) []byte { return []byte(flavorPrefix + string(f)) }

// KeyCapability is the key of an axis in the catalog.
func KeyCapability(a compute.AxisName) []byte { return []byte(capabilityPrefix + string(a)) }

// KeyQuota is the key of a project's quota in the catalog.
func KeyQuota(p compute.Project) []byte { return []byte(quotaPrefix + string(p)) }

// KeyGroup is the key of a project's group in the catalog.
func KeyGroup(p compute.Project, g compute.GroupName) []byte {
	return []byte(groupPrefix + string(p) + "/" + string(g))
}

// KeyInstance is the key of an instance; its partition is Partition of the
// project, not of this key.
func KeyInstance(p compute.Project, id compute.InstanceID) []byte {
	return []byte(string(p) + "/" + string(id))
}

// ParseInstanceKey reads what KeyInstance wrote.
func ParseInstanceKey(key []byte) (compute.Project, compute.InstanceID, error) {
	project, id, found := strings.Cut(string(key), "/")
	if !found {
		return "", "", compute.Invalid("key", cut(string(key), maxShown),
			"an instance's key is its project, a slash and its id")
	}
	p, i := compute.Project(project), compute.InstanceID(id)
	if err := p.Check(); err != nil {
		return "", "", err
	}
	if err := i.Check(); err != nil {
		return "", "", err
	}
	return p, i, nil
}

// takeoverKey is no instance's: it has no slash.
const takeoverKey = "takeover"

// Takeover is what a conductor writes to a partition of instances first when it
// takes it over: a record of no instance, which says where the writing of all
// earlier owners has ended. Readers of instances pass over it.
func Takeover(by string) Record {
	r := Tombstone([]byte(takeoverKey))
	r.Headers = append(r.Headers, Header{Key: HeaderTakeover, Value: []byte(cmp.Or(by, "unnamed"))})
	return r
}

// IsTakeover says whether a record of instances is one that Takeover made.
func (r Record) IsTakeover() bool {
	return r.Value == nil && string(r.Key) == takeoverKey && r.Header(HeaderTakeover) != nil
}

// KeyHost is the key of a host's beacon, and of what is written to every
// partition for a host.
func KeyHost(h compute.HostID) []byte { return []byte(h) }

// KeyQueue is the key of a queue in the queue list.
func KeyQueue(q compute.QueueName) []byte { return []byte(q) }

// Tombstone removes the key from its compacted topic.
func Tombstone(key []byte) Record {
	return Record{Key: key, Headers: []Header{{Key: HeaderSchema, Value: schemaValue(compute.FirstSchema)}}}
}

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

// keySpace is Berth's name space of UUIDs (version 4, drawn once). It never
// changes: with another one, a key that is repeated would be another machine.
const keySpace = "8a2d2b0e-5c0b-4a43-9f0c-6f0f5f3c6f1d"

// KeyedInstance is the id of the instance that a project asked for under a key
// of its own choice: the same for the same project and key, in every process
// and at any time. It is UUIDv5(UUIDv5(name space of Berth, project), key).
func KeyedInstance(p compute.Project, key string) compute.InstanceID {
	project := uuid.NewSHA1(uuid.MustParse(keySpace), []byte(p))
	return compute.InstanceID(uuid.NewSHA1(project, []byte(key)).String())
}
