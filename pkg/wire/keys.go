// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// The first part of the catalog's keys.
const (
	flavorPrefix     = "flavor/"
	capabilityPrefix = "capability/"
	quotaPrefix      = "quota/"
)

// KeyFlavor is the key of a flavor in the catalog.
func KeyFlavor(f compute.FlavorName) []byte { return []byte(flavorPrefix + string(f)) }

// KeyCapability is the key of an axis in the catalog.
func KeyCapability(a compute.AxisName) []byte { return []byte(capabilityPrefix + string(a)) }

// KeyQuota is the key of a project's quota in the catalog.
func KeyQuota(p compute.Project) []byte { return []byte(quotaPrefix + string(p)) }

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
