// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"

	"github.com/berth-project/berth/compute-agent/hypervisor/fake"
	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

func TestCheckGranted(t *testing.T) {
	launch := func(change func(*Launch)) func(*Recording) { return func(r *Recording) { change(&r.Launches[0]) } }
	sees(t, checkGranted, map[string]func(*Recording){
		"host-1 launches attempt 1 claim c2 without a grant": launch(func(l *Launch) { l.Claim = "c2" }),
		"host-1 launches attempt 2 claim c1 without a grant": launch(func(l *Launch) { l.Attempt = 2 }),
		"host-2 launches attempt 1 claim c1 without a grant": launch(func(l *Launch) { l.Host = "host-2" }),
		"without a grant in the log":                         launch(func(l *Launch) { l.Instance = "vm-2" }),
		"right: in the moment of its grant":                  launch(func(l *Launch) { l.At = moment(3) }),
		"host-1 launches attempt 1 claim c1 without a":       launch(func(l *Launch) { l.At = moment(2.9) }),
		"right: the conductor's clock is ahead": func(r *Recording) {
			r.Launches[0].At = moment(2.9)
			r.Schedule.World.Clocks = []schedule.Clock{{Drift: 0.1}}
		},
		"host-1 launches attempt 1 claim c1 without a grant": func(r *Recording) { // in the log it only waits
			r.Log = r.Log[:1]
		},
	})
}

// What is admitted is within the limit, and a refusal says what the project uses at that place of the log.
func TestCheckQuota(t *testing.T) {
	// limit has red have one of which every conductor has heard before it decides about vm-1.
	limit := func(class compute.ResourceClass, n int64) func(*Recording) {
		return func(r *Recording) {
			l := schedule.Load{Op: schedule.LoadQuota, Project: "red", Limits: compute.Resources{class: n}}
			r.Asks = append(r.Asks, Ask{Load: l, Began: moment(-20), Answered: moment(-20), OK: true})
		}
	}
	// refused has vm-2 be refused, as it says because red uses so many instances.
	refused := func(at schedule.Seconds, used int64) func(*Recording) {
		return func(r *Recording) {
			i := compute.Instance{ID: "vm-2", Project: "red", State: compute.StateError}
			i.Boot.Name = "vm-2"
			i.Reason = &compute.Reason{Code: compute.QuotaExceeded, Resource: compute.Instances, Used: used}
			r.refused(at, i)
		}
	}
	sees(t, checkQuota, map[string]func(*Recording){
		"right: the limit allows it":                        limit(compute.Instances, 1),
		"vm-1 was admitted: red uses 1 INSTANCES and may":   limit(compute.Instances, 0),
		"vm-1 was admitted: red uses 1 VCPU and may have 0": limit(compute.VCPU, 0),
		"right: it is another project's limit": func(r *Recording) {
			limit(compute.VCPU, 0)(r)
			r.Asks[1].Project = "blue"
		},
		"right: red uses one":                                refused(20, 1),
		"vm-2 was refused since red used 2 INSTANCES; it us": refused(20, 2),
		"vm-2 was refused since red used 1 INSTANCES; it used 0": func(r *Recording) {
			becomes(r, 10, compute.StateDeleted)
			refused(20, 1)(r)
		},
	})
}

func TestCheckQuotaView(t *testing.T) {
	uses := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
	shows := func(n int64) func(*Recording) { // while what the log says goes from 4 to 2
		return func(r *Recording) { r.Quotas = []QuotaSeen{{"red", uses(n), uses(4), uses(2)}} }
	}
	sees(t, checkQuotaView, map[string]func(*Recording){
		"right: as it was before":                           shows(4),
		"right: as it is then":                              shows(2),
		"the API says that red uses 3 VCPU; the log says 2": shows(3),
	})
}

func TestCheckRoom(t *testing.T) {
	holds := func(h compute.HostID, n int64) func(*Recording) {
		return func(r *Recording) { r.Worst[h] = schedule.Flavor("", n).Resources }
	}
	sees(t, checkRoom, map[string]func(*Recording){
		"right: a host is full":            holds("host-1", 4),
		"I4: host-1 held DISK_GB=50 MEMOR": holds("host-1", 5),
		"I4: host-2 held DISK_GB=50 MEMOR": holds("host-2", 5),
		"I4: host-1 held VCPU=5 and has":   func(r *Recording) { r.Worst["host-1"] = compute.Resources{compute.VCPU: 5} },
	})
}

func TestCheckPlaces(t *testing.T) {
	starting := func(change func(*compute.Instance)) func(*Recording) {
		return func(r *Recording) { change(&r.Log[1].Instance) }
	}
	gpu := []compute.Trait{"gpu"}
	// has gives host-1 the trait as well.
	has := func(spoil func(*Recording)) func(*Recording) {
		return func(r *Recording) { spoil(r); r.Schedule.World.Hosts[0].Traits = gpu }
	}
	required := starting(func(i *compute.Instance) { i.Required = gpu })
	forbidden := starting(func(i *compute.Instance) { i.Forbidden = gpu })
	sees(t, checkPlaces, map[string]func(*Recording){
		"vm-1 avoids host-1 and is there": starting(func(i *compute.Instance) {
			i.Boot.Avoid = []compute.HostID{"host-1"}
		}),
		"vm-1 is for host-2 alone and is on host-1":           starting(func(i *compute.Instance) { i.Boot.Host = "host-2" }),
		"right: it is for its host":                           starting(func(i *compute.Instance) { i.Boot.Host = "host-1" }),
		"vm-1 does not fit host-1: it wants [gpu], not []":    required,
		"vm-1 does not fit host-1: it wants [], not [gpu]":    has(forbidden),
		"right: its host has what it wants":                   has(required),
		"right: its host does not have what it does not want": forbidden,
		"right: what only waits is nowhere":                   func(r *Recording) { r.Log[0].Instance.Required = gpu },
		"right: the world does not say what such a host has": starting(func(i *compute.Instance) {
			i.Host, i.Required = "host-1-clone", gpu
		}),
	})
}

func TestCheckQueues(t *testing.T) {
	// ends has vm-1 end for this while it waits; these queues were there at some time.
	ends := func(why compute.ReasonCode, queues ...compute.QueueName) func(*Recording) {
		return func(r *Recording) {
			r.endsAt(10, compute.Reason{Code: why})
			for _, q := range queues {
				r.Gone[q] = true
			}
		}
	}
	sees(t, checkQueues, map[string]func(*Recording){
		"vm-1 waited in m1.small, which was deleted": ends(compute.QueueClosedReason, "m1.small"),
		"right: it ended otherwise":                  ends(compute.DeadlineExceeded, "m1.small"),
		"right: its queue was never made":            ends(compute.QueueClosedReason, "m1.large"),
		"right: it came back to a queue that is gone": func(r *Recording) {
			ends(compute.QueueClosedReason, "m1.small")(r)
			r.Log[0].Instance.Attempt = 2
		},
		"right: it waited nowhere": func(r *Recording) {
			ends(compute.QueueClosedReason, "m1.small")(r)
			r.Log = r.Log[1:]
		},
	})
}

func TestCheckLeft(t *testing.T) {
	// stuck has something be left to do when patience ends. All was settled, and then, unless it is 0, deleted.
	stuck := func(settled, empty schedule.Seconds) func(*Recording) {
		return func(r *Recording) {
			r.Stuck, r.Settled = []string{"vm-1 is deleting"}, moment(settled)
			if empty > 0 {
				r.Empty = moment(empty)
			}
		}
	}
	journals := func(r *Recording) {
		r.Left["host-1"] = map[compute.InstanceID]journal.Entry{madeID: {Attempt: 2, Stage: journal.StageEnding}}
	}
	sees(t, checkLeft, map[string]func(*Recording){
		"20m0s after all was deleted: vm-1 is deleting": stuck(120, 0),
		"right: nothing is stuck":                       stuck(120, 200),
		"right: it was never settled, and nothing was to be deleted": func(r *Recording) {
			stuck(120, 0)(r)
			r.Settled = time.Time{}
		},
		"the journal of host-1 still has attempt 2, ending": func(r *Recording) { stuck(120, 200)(r); journals(r) },
	})
}

func TestCheckReboots(t *testing.T) {
	// reboots has a client give vm-1 a power command so often, and its host reboot it so often.
	reboots := func(power string, asked, done int) func(*Recording) {
		return func(r *Recording) {
			for n := range asked {
				r.asks(schedule.Seconds(10+n), schedule.Load{Op: schedule.LoadPower, Power: power}, nil)
			}
			for n := range done {
				e := fake.Event{At: moment(schedule.Seconds(20 + n)), Kind: fake.Rebooted, Host: "host-1", Instance: madeID}
				r.Machines = append(r.Machines, e)
			}
		}
	}
	sees(t, checkReboots, map[string]func(*Recording){
		"right: each once":         reboots("reboot", 2, 2),
		"right: one is never done": reboots("reboot", 2, 1),
		"host-1 reboots 0b6e7a52-3c57-5b2e-9f5e-1c1f6a3f0a01 once more than": reboots("reboot", 1, 2),
		"once more than was asked for":                                       reboots("stop", 1, 1),
		"host-1 reboots 0b6e7a52": func(r *Recording) { // that was asked for another
			reboots("reboot", 1, 1)(r)
			r.Asks[1].ID = "vm-2"
		},
	})
}
