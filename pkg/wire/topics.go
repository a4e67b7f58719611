// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"github.com/berth-project/berth/pkg/compute"
)

// DefaultPrefix is the cell's prefix when none is configured.
const DefaultPrefix = "berth."

// Topics names the topics of one cell. The zero value has no prefix.
type Topics struct{ Prefix string }

// Catalog holds flavors, capabilities and quotas; compacted, one partition.
func (t Topics) Catalog() string { return t.Prefix + "catalog" }

// Requests takes what users want; keyed by project.
func (t Topics) Requests() string { return t.Prefix + "requests" }

// Reports takes what agents say; keyed by project.
func (t Topics) Reports() string { return t.Prefix + "reports" }

// Instances holds the truth; compacted, partitioned as requests and reports.
func (t Topics) Instances() string { return t.Prefix + "instances" }

// Rejected holds what could not be read or made no sense.
func (t Topics) Rejected() string { return t.Prefix + "rejected" }

// Hosts holds the last beacon of every host; compacted.
func (t Topics) Hosts() string { return t.Prefix + "hosts" }

// Queues holds the queue list; compacted, one partition.
func (t Topics) Queues() string { return t.Prefix + "queues" }

// Advice holds what the queue manager tells; one partition, short retention.
func (t Topics) Advice() string { return t.Prefix + "advice" }

// Consoles holds what hosts answer about consoles; one partition, short retention.
func (t Topics) Consoles() string { return t.Prefix + "consoles" }

// Tokens holds what is kept of the tokens that call the API; compacted, one partition. API nodes alone
// read and write it, and a cell whose callers do not sign in does without.
func (t Topics) Tokens() string { return t.Prefix + "tokens" }

// Audit holds who changed what over the API, and what was refused; one partition, kept for 90 days unless its
// retention is set. API nodes alone write it, and a cell whose nodes keep no audit does without.
func (t Topics) Audit() string { return t.Prefix + "audit" }

// Own are the cell's own topics that every daemon asks about: all but those of queues and of hosts,
// and those of the tokens and of the audit.
func (t Topics) Own() []string {
	return []string{
		t.Requests(), t.Reports(), t.Rejected(), t.Instances(), t.Catalog(), t.Hosts(), t.Queues(), t.Advice(), t.Consoles(),
	}
}

// Build is the topic of one queue.
func (t Topics) Build(q compute.QueueName) string { return t.Prefix + "build." + string(q) }

// Host is the stream of commands to one host.
func (t Topics) Host(h compute.HostID) string { return t.Prefix + "host." + string(h) }

// QueueOf says which queue a topic belongs to.
func (t Topics) QueueOf(topic string) (compute.QueueName, bool) {
	q, ok := strings.CutPrefix(topic, t.Prefix+"build.")
	return compute.QueueName(q), ok && q != ""
}

// HostOf says which host's stream a topic is.
func (t Topics) HostOf(topic string) (compute.HostID, bool) {
	h, ok := strings.CutPrefix(topic, t.Prefix+"host.")
	return compute.HostID(h), ok && h != ""
}

// ConductorGroup is the consumer group of the conductors.
func (t Topics) ConductorGroup() string { return t.Prefix + "conductor" }

// ManagerGroup is the consumer group by which queue managers choose the active one.
func (t Topics) ManagerGroup() string { return t.Prefix + "queue-manager" }

// ShareGroup is the n-th share group; a group holds a limited number of queues.
func (t Topics) ShareGroup(n int) string { return t.ShareGroups() + itoa(n) }

// ShareGroups begins the names of all share groups.
func (t Topics) ShareGroups() string { return t.Prefix + "agents-" }
