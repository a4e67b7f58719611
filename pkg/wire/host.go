// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// EncodeBeacon makes the record of a beacon; its key is the host.
func EncodeBeacon(b compute.Beacon) Record {
	return seal(KeyHost(b.Host), &pb.Beacon{
		Host:        text(b.Host),
		Journal:     text(b.Journal),
		Started:     stamp(b.Started),
		State:       hostStates.out(b.State),
		Reason:      message(b.Reason),
		DesiredSeen: uint64(b.DesiredSeen),
		Inventory:   inventoryTo(b.Inventory),
		Free:        amounts(b.Free),
		Largest:     amounts(b.Largest),
		Machines:    b.Machines,
		Building:    b.Building,
		Waiting:     texts(b.Waiting),
		At:          stamp(b.At),
		Deadline:    stamp(b.Deadline),
		Rings:       b.Rings,
		Twins:       b.Twins,
		Warnings:    messages(b.Warnings),
		Reads:       uint32(b.Reads),
		Weigher:     weighers.out(b.Weigher),
		Asks:        b.Asks,
		Beside:      text(b.Beside.Journal),

		BesideStarted: stamp(b.Beside.Started),
		Leaves:        b.Leaves,
		Opens:         texts(b.Opens),
		Mistrusts:     texts(b.Mistrusts),
		Labels:        textMap(b.Labels),
		Saves:         b.Saves,
		Saving:        savingTo(b.Saving),
		Preempts:      b.Preempts,
		Preemptible:   amounts(b.Preemptible),
		Taking:        takingTo(b.Taking),
		Age:           span(b.Age),
	}, "")
}

// DecodeBeacon reads a beacon. At is the broker's time where that is known: the host's
// clock may be wrong.
func DecodeBeacon(rec Record) (compute.Beacon, error) {
	return decode("beacon", rec, &pb.Beacon{}, beaconFrom)
}

func beaconFrom(r *reader, m *pb.Beacon) compute.Beacon {
	b := compute.Beacon{
		Host:        compute.HostID(m.GetHost()),
		Journal:     compute.JournalID(m.GetJournal()),
		Started:     r.time("started", m.GetStarted()),
		State:       hostStates.in(r, "state", m.GetState()),
		Reason:      m.GetReason(),
		DesiredSeen: compute.Version(m.GetDesiredSeen()),
		Inventory:   inventoryFrom(m.GetInventory()),
		Free:        resources(m.GetFree()),
		Largest:     resources(m.GetLargest()),
		Machines:    m.GetMachines(),
		Building:    m.GetBuilding(),
		Waiting:     words[compute.QueueName](m.GetWaiting()),
		At:          r.said("at", m.GetAt()),
		Deadline:    r.time("deadline", m.GetDeadline()),
		Rings:       m.GetRings(),
		Twins:       m.GetTwins(),
		Warnings:    m.GetWarnings(),
		Reads:       compute.Schema(m.GetReads()),
		Weigher:     weighers.in(r, "weigher", m.GetWeigher()),
		Asks:        m.GetAsks(),
		Beside: compute.Voice{
			Journal: compute.JournalID(m.GetBeside()), Started: r.time("beside_started", m.GetBesideStarted()),
		},
		Leaves:    m.GetLeaves(),
		Opens:     words[compute.KeyID](m.GetOpens()),
		Mistrusts: m.GetMistrusts(),
		Labels:    wordMap[string, string](m.GetLabels()),
		Saves:     m.GetSaves(),
		Saving:    savingFrom(r, m.GetSaving()),
		Preempts:  m.GetPreempts(),

		Preemptible: resources(m.GetPreemptible()),
		Taking:      takingFrom(m.GetTaking()),
		Age:         r.duration("age", m.GetAge()),
	}
	r.check(compute.CheckHostLabels(b.Labels))
	for _, image := range b.Mistrusts {
		r.atMost("mistrusts", len(image), compute.MaxNameLength)
	}
	if n := len(b.Mistrusts); n > compute.MaxMistrusts {
		r.refuse(compute.Invalid("mistrusts", fmt.Sprintf("%d images", n),
			fmt.Sprintf("give at most %d", compute.MaxMistrusts)))
	}
	r.check(b.Host.Check())
	r.atMost("journal", len(b.Journal), MaxID)
	r.atMost("beside", len(b.Beside.Journal), MaxID)
	r.inventory(b.Inventory)
	r.amounts("free", b.Free, -compute.MaxAmount)
	r.amounts("largest", b.Largest, 0)
	r.amounts("preemptible", b.Preemptible, 0)
	if n := len(b.Taking); n > compute.MaxTaking {
		r.refuse(compute.Invalid("taking", fmt.Sprintf("%d queues", n), fmt.Sprintf("give at most %d", compute.MaxTaking)))
	}
	for q := range b.Taking {
		r.atMost("taking", len(q), maxQueueName)
	}
	r.key(KeyHost(b.Host))
	return b
}

func takingTo(in map[compute.QueueName]uint32) map[string]uint32 {
	out := make(map[string]uint32, len(in))
	for q, n := range in {
		out[text(q)] = n
	}
	return out
}

// takingFrom is nil if empty.
func takingFrom(in map[string]uint32) map[compute.QueueName]uint32 {
	if len(in) == 0 {
		return nil
	}
	out := make(map[compute.QueueName]uint32, len(in))
	for q, n := range in {
		out[compute.QueueName(q)] = n
	}
	return out
}

func savingTo(s *compute.Saving) *pb.Saving {
	if s == nil {
		return nil
	}
	return &pb.Saving{Queue: text(s.Queue), Needs: amounts(s.Needs), Age: span(s.Age), Left: span(s.Left),
		Preempt: s.Preempt}
}

func savingFrom(r *reader, m *pb.Saving) *compute.Saving {
	if m == nil {
		return nil
	}
	s := &compute.Saving{
		Queue: compute.QueueName(m.GetQueue()), Needs: resources(m.GetNeeds()),
		Age: r.duration("saving.age", m.GetAge()), Left: r.duration("saving.left", m.GetLeft()),
		Preempt: m.GetPreempt(),
	}
	r.atMost("saving.queue", len(s.Queue), maxQueueName)
	r.amounts("saving.needs", s.Needs, 0)
	return s
}

func inventoryTo(i compute.Inventory) *pb.Inventory {
	return &pb.Inventory{
		Totals:    amounts(i.Totals),
		Reserved:  amounts(i.Reserved),
		Traits:    texts(i.Traits),
		Unmanaged: amounts(i.Unmanaged),
		Largest:   amounts(i.Largest),
	}
}

func inventoryFrom(m *pb.Inventory) compute.Inventory {
	return compute.Inventory{
		Totals:    resources(m.GetTotals()),
		Reserved:  resources(m.GetReserved()),
		Traits:    words[compute.Trait](m.GetTraits()),
		Unmanaged: resources(m.GetUnmanaged()),
		Largest:   resources(m.GetLargest()),
	}
}

func hostDesiredTo(d *compute.HostDesired) *pb.HostDesired {
	if d == nil {
		return nil
	}
	return &pb.HostDesired{
		State:    hostStates.out(d.State),
		Reason:   message(d.Reason),
		Version:  uint64(d.Version),
		Deadline: stamp(d.Deadline),
	}
}

func hostDesiredFrom(r *reader, m *pb.HostDesired) *compute.HostDesired {
	if m == nil {
		return nil
	}
	return &compute.HostDesired{
		State:    hostStates.in(r, "desired.state", m.GetState()),
		Reason:   m.GetReason(),
		Version:  compute.Version(m.GetVersion()),
		Deadline: r.time("desired.deadline", m.GetDeadline()),
	}
}
