// SPDX-License-Identifier: Apache-2.0

package compute

import "time"

// Request is a record of the requests topic: somebody wants something done
// with one instance, or with all that is on one host.
type Request struct {
	Project  Project
	Instance InstanceID
	Op       RequestOp
	Boot     *Boot     // OpBoot only
	Set      []SetBoot // OpBootSet only
	Change   *Change   // OpChange only
	Reserve  *Reserve  // OpReserve only
	Command  CommandID // OpReboot: done at most once; others may leave it empty
	Hard     bool      // OpStop, OpReboot: without asking the guest
	Host     HostID    // where Op is OfHost
	// Fence is of OpFence and OpForget: what was claimed under it, or under a
	// later one, is not touched. 0: all that the host has, whenever claimed.
	Fence FenceEpoch
	At    time.Time // when the API node accepted it; zero: the record's time
	Trace Trace
}

// RequestOp is what a request asks for.
type RequestOp uint8

// The operations. OpFence and OpForget are the operator's word that a host is
// dead for certain.
const (
	OpNone RequestOp = iota
	OpBoot
	OpDelete
	OpStop
	OpStart
	OpReboot
	OpFence   // host is fenced: build elsewhere what it had (evacuate)
	OpForget  // host is gone for good: end what it had
	OpConfirm // ask the host about everything it should have
	OpChange  // give the instance another name, or other metadata
	OpBootSet // boot several instances, all or none; Instance is the first of them
	OpReserve // hold room for boots to come; Instance is the first placeholder
)

var requestOpNames = [...]string{"none", "boot", "delete", "stop", "start", "reboot", "fence",
	"forget", "confirm", "change",
	"boot-set", "reserve",
}

// String is the operation's name in logs.
func (o RequestOp) String() string { return name(requestOpNames[:], o, "operation") }

// OfHost says whether it is about a host: then it is written to every partition,
// without a project.
func (o RequestOp) OfHost() bool { return o == OpFence || o == OpForget || o == OpConfirm }

// Check refuses a request that can never be right.
func (r Request) Check() error {
	switch r.Op {
	case OpFence, OpForget, OpConfirm:
		return r.Host.Check()
	case OpBoot:
		if r.Boot == nil {
			return Invalid("boot", "", "a boot request carries what to boot")
		}
		if err := r.Boot.Check(); err != nil {
			return err
		}
	case OpBootSet:
		if err := r.checkSet(); err != nil {
			return err
		}
		if r.Instance != r.Set[0].Instance {
			return Invalid("instance", string(r.Instance), "give the instance of the first boot of the set")
		}
	case OpReserve:
		if err := r.checkReserve(); err != nil {
			return err
		}
	case OpChange:
		if r.Change == nil {
			return Invalid("change", "", "a change says what is to change")
		}
		if err := r.Change.Check(); err != nil {
			return err
		}
	case OpDelete, OpStop, OpStart, OpReboot:
	default:
		return Invalid("operation", r.Op.String(),
			"give one of boot, boot-set, reserve, delete, stop, start, reboot, change, fence, forget, confirm")
	}
	if err := r.Project.Check(); err != nil {
		return err
	}
	return r.Instance.Check()
}

func (r Request) checkReserve() error {
	if r.Reserve == nil {
		return Invalid("reserve", "", "a reservation says what is to be held")
	}
	if err := r.Reserve.Check(); err != nil {
		return err
	}
	if r.Instance != r.Reserve.Instances[0] {
		return Invalid("instance", string(r.Instance), "give the instance of the first placeholder")
	}
	return nil
}
