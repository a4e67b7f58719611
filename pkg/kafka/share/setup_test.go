// SPDX-License-Identifier: Apache-2.0

package share

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// queueIn makes queues of a group and answers refs to them.
func queueIn(t testing.TB, a *admin.Admin, group string, names ...compute.QueueName) []wire.QueueRef {
	t.Helper()
	ids, err := a.EnsureQueueTopics(brokertest.Patient(t), names, 1)
	if err != nil {
		t.Fatal(err)
	}
	var refs []wire.QueueRef
	for _, n := range names {
		refs = append(refs, wire.QueueRef{Name: n, Group: group, TopicID: ids[n]})
	}
	return refs
}

func progress(t testing.TB, a *admin.Admin, refs []wire.QueueRef) []admin.QueueProgress {
	t.Helper()
	ps, err := a.QueueProgress(brokertest.Patient(t), refs)
	if err != nil {
		t.Fatal(err)
	}
	return ps
}
