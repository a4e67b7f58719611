// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// The samples are what the golden files hold: every kind of record, with every
// field set somewhere. Add new ones; a changed one no longer proves that what
// was written yesterday is read today.

const (
	sampleProject  compute.Project    = "web-shop"
	sampleInstance compute.InstanceID = "0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4a"
	sampleTrace    compute.Trace      = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

func at(seconds int) time.Time {
	return time.Date(2026, 11, 21, 7, 0, seconds, 123456789, time.UTC)
}

func sampleBoot() compute.Boot {
	return compute.Boot{
		Name:         "web-1",
		Flavor:       "m1.small",
		With:         compute.Choices{"gpu": "a100", "disk": "ssd"},
		Image:        "debian-13",
		Metadata:     map[string]string{"role": "web", "tier": "größer"},
		UserData:     "#cloud-config\n\x00\xff",
		Attempts:     5,
		Deadline:     10*time.Minute + 7,
		OnNoCapacity: compute.FailAtOnce,
		Avoid:        []compute.HostID{"host-17", "host-18"},
	}
}

func sampleRequest(op compute.RequestOp) compute.Request {
	q := compute.Request{
		Project: sampleProject, Instance: sampleInstance, Op: op, Command: "cmd-81", At: at(0), Trace: sampleTrace,
	}
	switch op {
	case compute.OpBoot:
		boot := sampleBoot()
		q.Boot = &boot
	case compute.OpStop, compute.OpReboot:
		q.Hard = true
	case compute.OpChange:
		name := "web-2"
		q.Change = &compute.Change{Name: &name, Set: map[string]string{"team": "a"}, Remove: []string{"role", "größe"}}
	case compute.OpFence, compute.OpForget, compute.OpConfirm:
		q.Project, q.Instance, q.Host = "", "", "host-17"
	}
	return q
}

func sampleReport(op compute.ReportOp) compute.Report {
	return compute.Report{
		Op: op, Host: "host-17", Project: sampleProject, Instance: sampleInstance, Attempt: 2, Claim: "claim-9",
		Class: compute.FailureTimeout, Power: compute.PowerRunning, Message: "qemu: exit status 1",
		Command: "cmd-81", Version: 7, Journal: "journal-3", At: at(1), Trace: sampleTrace,
	}
}

func sampleHostCounts() compute.HostCounts {
	return compute.HostCounts{NeverFits: 1, Silent: 2, Disabled: 3, Draining: 4, Quarantined: 5, Full: 6, Eligible: 7}
}

func sampleReason() *compute.Reason {
	return &compute.Reason{
		Code: compute.QuotaExceeded, Resource: compute.MemoryMB, Limit: 4096, Used: 3072, Asked: 2048,
		Host: "host-17", Attempt: 2, Class: compute.FailureHost, Position: 11, Depth: 12, Oldest: at(2),
		Hosts: sampleHostCounts(), Detail: "the project web-shop may have 4096 MiB",
	}
}

func sampleResources() compute.Resources {
	return compute.Resources{compute.VCPU: 2, compute.MemoryMB: 4096, compute.DiskGB: 20, "CUSTOM_GPU_A100": 1}
}

func sampleInstanceRecord() compute.Instance {
	boot := sampleBoot()
	boot.Host, boot.Avoid = "host-17", []compute.HostID{"host-18"}
	return compute.Instance{
		ID: sampleInstance, Project: sampleProject, Version: 9, State: compute.StateActive, Reason: sampleReason(),
		Boot: boot, Queue: "m1.small.disk-ssd.gpu-a100", Resources: sampleResources(),
		Required: []compute.Trait{"CPU_AVX2"}, Forbidden: []compute.Trait{"CUSTOM_OLD"},
		Attempt: 2, Host: "host-17", Claim: "claim-9",
		Failures: []compute.Failure{
			{Host: "host-16", Attempt: 1, Class: compute.FailureUnknownHere, Message: "unknown claim", At: at(3)},
		},
		Power: compute.PowerPaused,
		Command: &compute.PowerCommand{
			Op: compute.OpReboot, Command: "cmd-81", Hard: true, Version: 8, At: at(4),
		},
		Delete: true, Confirm: true, PublishAt: at(5),
		AcceptedAt: at(6), QueuedAt: at(7), Deadline: at(8), StartingAt: at(9), ActiveAt: at(10), EndedAt: at(11),
		ChangedAt: at(12),
		Trace:     sampleTrace,
	}
}

func sampleRejected() compute.Rejected {
	return compute.Rejected{
		Topic: "berth.requests", Partition: 3, Offset: 1 << 40, Key: []byte("web-shop"), Value: []byte("{\xff"),
		Reason: *sampleReason(), At: at(13),
	}
}

func sampleBuild() compute.Build {
	return compute.Build{
		Instance: sampleInstance, Project: sampleProject, Name: "web-1", Attempt: 2,
		Queue:     "m1.small.disk-ssd.gpu-a100",
		Resources: sampleResources(), Required: []compute.Trait{"CPU_AVX2", "CPU_SHA"},
		Forbidden: []compute.Trait{"CUSTOM_OLD"},
		Image:     "debian-13", Metadata: map[string]string{"role": "web", "tier": "1"},
		UserData: []byte("#cloud-config\n"),
		Avoid:    []compute.HostID{"host-18"}, Failed: []compute.HostID{"host-16"},
		Deadline: at(14), At: at(15), Trace: sampleTrace,
	}
}

// sampleCommand has everything that any command has.
func sampleCommand(op compute.CommandOp) compute.Command {
	build := sampleBuild()
	return compute.Command{
		Op: op, Project: sampleProject, Instance: sampleInstance, Attempt: 2, Claim: "claim-9",
		Reason: sampleReason(), Build: &build,
		Power: &compute.PowerCommand{Op: compute.OpStop, Command: "cmd-82", Hard: true, Version: 8, At: at(16)},
		Desired: &compute.HostDesired{
			State: compute.HostDraining, Reason: "new kernel", Version: 1795244400000, Deadline: at(17),
		},
		At: at(18), Trace: sampleTrace,
	}
}

func sampleBeacon() compute.Beacon {
	return compute.Beacon{
		Host: "host-17", Journal: "journal-3", Started: at(19), State: compute.HostQuarantined,
		Reason:      "3 failed starts in a row",
		DesiredSeen: 1795244400000,
		Inventory: compute.Inventory{
			Totals: sampleResources(), Reserved: compute.Resources{compute.MemoryMB: 512},
			Traits: []compute.Trait{"CPU_AVX2", "CUSTOM_RACK_9"}, Unmanaged: compute.Resources{compute.VCPU: 1},
			Largest: compute.Resources{compute.VCPU: 8},
		},
		Free:    compute.Resources{compute.VCPU: -1, compute.MemoryMB: 0},
		Largest: compute.Resources{compute.MemoryMB: 0}, Machines: 3, Building: 1,
		Waiting: []compute.QueueName{"m1.small", "m1.small.gpu-a100"}, At: at(20), Deadline: at(17),
	}
}

// mistrustSample is of a host on which images have failed.
func mistrustSample() sample {
	b := sampleBeacon()
	b.Mistrusts = []string{"", "debian-13"}
	return sample{"beacon-mistrusts", EncodeBeacon(b), b, of(DecodeBeacon)}
}

func sampleQueue() compute.Queue {
	return compute.Queue{
		Name: "m1.small.disk-ssd.gpu-a100", Flavor: "m1.small", Choices: compute.Choices{"gpu": "a100", "disk": "ssd"},
		Resources: sampleResources(), Required: []compute.Trait{"CPU_AVX2"}, Forbidden: []compute.Trait{"CUSTOM_OLD"},
		State: compute.QueueClosed, Group: "berth.agents-0", TopicID: "6f1d2c3b4a0b9cf4a23f0e4c5e9a550f",
		Error: "topic cannot be deleted",
	}
}

func sampleAdvice() compute.Advice {
	return compute.Advice{At: at(21), Full: true, About: []compute.QueueAdvice{
		{Queue: "m1.small", Eligible: 7, Waiters: 21, Depth: 12, Oldest: at(22), Hosts: sampleHostCounts()},
		{Queue: "m1.large"},
	}}
}

func sampleFlavor() compute.Flavor {
	return compute.Flavor{
		Name: "m1.small", Resources: sampleResources(), Required: []compute.Trait{"CPU_AVX2"},
		Forbidden: []compute.Trait{"CUSTOM_OLD"}, Capabilities: []compute.AxisName{"disk", "gpu"},
	}
}

func sampleCapability() compute.Capability {
	return compute.Capability{Axis: "gpu", Values: []compute.CapabilityValue{
		{Value: "a100", Requires: []compute.Trait{"CUSTOM_NVLINK"}, Consumes: compute.Resources{"CUSTOM_GPU_A100": 1}},
		{Value: "h100"},
	}}
}

func sampleQuota() compute.Quota {
	return compute.Quota{
		Project: compute.DefaultQuota, Limits: compute.Resources{compute.Instances: 10, compute.VCPU: 0},
	}
}

func sampleToken() compute.Token {
	return compute.Token{
		ID: "abcdefghij234567", Hash: sha256.Sum256([]byte("secret")), Name: "ci-bot", Role: compute.RoleMember,
		Project: sampleProject, CreatedAt: at(29), CreatedBy: "token:root", ExpiresAt: at(30),
	}
}

func sampleAudit() compute.AuditEntry {
	return compute.AuditEntry{
		At: at(31), Node: "api-1", Request: "deploy-42", Who: "token:ci-bot", WhoID: "abcdefghij234567", How: "token",
		Operation: "delete-instance", Project: sampleProject, Target: "instance/" + string(sampleInstance),
		Remote: "192.0.2.7", Status: 409, Kind: "conflict", LeftOut: 3,
	}
}

// sample is one golden file: what encoding gives, and what decoding must give
// back.
type sample struct {
	name   string
	rec    Record
	want   any
	decode func(Record) (any, error)
}

// of makes a decoder answer any.
func of[W any](f func(Record) (W, error)) func(Record) (any, error) {
	return func(rec Record) (any, error) { return f(rec) }
}

func samples() []sample {
	list := []sample{
		{"instance", EncodeInstance(sampleInstanceRecord()), sampleInstanceRecord(), of(DecodeInstance)},
		{"rejected", EncodeRejected(sampleRejected()), sampleRejected(), of(DecodeRejected)},
		{"build", EncodeBuild(sampleBuild()), sampleBuild(), of(DecodeBuild)},
		{"beacon", EncodeBeacon(sampleBeacon()), sampleBeacon(), of(DecodeBeacon)},
		{"queue", EncodeQueue(sampleQueue()), sampleQueue(), of(DecodeQueue)},
		{"advice", EncodeAdvice(sampleAdvice()), sampleAdvice(), of(DecodeAdvice)},
	}
	flavor, capability, quota := sampleFlavor(), sampleCapability(), sampleQuota()
	list = append(list,
		sample{
			"catalog-flavor", EncodeFlavor(flavor), CatalogEntry{FlavorName: flavor.Name, Flavor: &flavor},
			of(DecodeCatalog),
		},
		sample{
			"catalog-capability", EncodeCapability(capability),
			CatalogEntry{Axis: capability.Axis, Capability: &capability}, of(DecodeCatalog),
		},
		sample{
			"catalog-quota", EncodeQuota(quota), CatalogEntry{Project: quota.Project, Quota: &quota},
			of(DecodeCatalog),
		},
		sample{
			"catalog-removed", Tombstone(KeyFlavor("m1.small")),
			CatalogEntry{FlavorName: "m1.small", Removed: true}, of(DecodeCatalog),
		},
	)
	for op := compute.OpBoot; op <= compute.OpChange; op++ {
		q := sampleRequest(op)
		list = append(list, sample{"request-" + op.String(), EncodeRequest(q), q, of(DecodeRequest)})
	}
	for op := compute.ReportClaim; op <= compute.ReportPinned; op++ {
		p := sampleReport(op)
		list = append(list, sample{"report-" + op.String(), EncodeReport(p), p, of(DecodeReport)})
	}
	for op := compute.CommandGrant; op <= compute.CommandFenced; op++ {
		c := sampleCommand(op)
		list = append(list, sample{"command-" + op.String(), EncodeCommand(c), c, of(DecodeCommand)})
	}
	fenced := sampleInstanceRecord()
	fenced.Fence = 43
	claim := sampleReport(compute.ReportClaim)
	claim.Fence = 43
	list = append(list,
		sample{"instance-fence", EncodeInstance(fenced), fenced, of(DecodeInstance)},
		sample{"report-claim-fence", EncodeReport(claim), claim, of(DecodeReport)},
	)
	for _, op := range []compute.RequestOp{compute.OpFence, compute.OpForget} {
		q := sampleRequest(op)
		q.Fence = 43
		list = append(list, sample{"request-" + op.String() + "-epoch", EncodeRequest(q), q, of(DecodeRequest)})
	}
	list = append(append(append(list, machineSamples()...), sealedSamples()...), mistrustSample())
	return slices.Concat(
		list, labelSamples(), groupSamples(), setSamples(), prioritySamples(), preemptSamples(), reservedSamples(),
	)
}

// prioritySamples are of what came with classes of priority.
func prioritySamples() []sample {
	high := compute.RulesOf("", compute.Set{}, compute.PriorityHigh)
	request, inst, command := sampleRequest(compute.OpBoot), sampleInstanceRecord(), sampleCommand(compute.CommandLook)
	request.Boot.Rules, inst.Boot.Rules = high, high
	member := inst
	member.Boot.Rules = compute.RulesOf("web", compute.Set{}, compute.PriorityLow)
	set := sampleRequest(compute.OpBootSet)
	set.Set = []compute.SetBoot{
		{Instance: set.Instance, Boot: compute.Boot{Flavor: "m1.small"}},
		{Instance: sampleRequest(compute.OpBoot).Instance, Boot: *request.Boot},
	}
	set.Set[1].Instance = "5f0c6f0e-3c41-4a53-9d0b-0f6c1b7a2d19"
	command.Look = &compute.Look{Queue: "m1.small.priority-high", Oldest: at(29)}
	refused := sampleInstanceRecord()
	refused.State, refused.Host = compute.StateError, ""
	refused.Reason = &compute.Reason{
		Code: compute.QuotaExceeded, Resource: compute.VCPU, Part: compute.QuotaOf(compute.PriorityHigh), Limit: 4, Used: 3, Asked: 2,
	}
	quota := compute.Quota{Project: "web-shop", Limits: compute.Resources{compute.VCPU: 9}, Classes: compute.ClassLimits{
		compute.PriorityHigh: {compute.VCPU: 4}, compute.PriorityNormal: {compute.Instances: 0},
	}}
	weighed := compute.Quota{Project: "web-shop", Limits: compute.Resources{}, Weight: 3}
	tier := compute.Queue{
		Name: "m1.small", Flavor: "m1.small", Resources: compute.Resources{compute.VCPU: 1},
	}.Tier(compute.PriorityLow)
	return []sample{
		{"request-boot-ranked", EncodeRequest(request), request, of(DecodeRequest)},
		{"request-boot-set-ranked", EncodeRequest(set), set, of(DecodeRequest)},
		{"instance-ranked", EncodeInstance(inst), inst, of(DecodeInstance)},
		{"instance-member-ranked", EncodeInstance(member), member, of(DecodeInstance)},
		{"command-look-oldest", EncodeCommand(command), command, of(DecodeCommand)},
		{"instance-over-limit-of-class", EncodeInstance(refused), refused, of(DecodeInstance)},
		{"catalog-quota-classes", EncodeQuota(quota), CatalogEntry{Project: "web-shop", Quota: &quota}, of(DecodeCatalog)},
		{"catalog-quota-weight", EncodeQuota(weighed), CatalogEntry{Project: "web-shop", Quota: &weighed}, of(DecodeCatalog)},
		{"queue-tier", EncodeQueue(tier), tier, of(DecodeQueue)},
	}
}

// preemptSamples are of what came with machines that may be taken away.
func preemptSamples() []sample {
	may := func(b *compute.Boot, then compute.Afterwards, grace time.Duration) {
		b.Preempt(compute.Preemptible{Then: then, Grace: grace})
	}
	request, inst, build := sampleRequest(compute.OpBoot), sampleInstanceRecord(), sampleBuild()
	may(request.Boot, compute.ThenDelete, 0)
	may(&inst.Boot, compute.ThenRequeue, time.Minute)
	noticed, made := inst, sampleInstanceRecord()
	noticed.GiveNotice(&compute.Notice{
		At: at(30), Until: at(31), Host: "host-17", Queue: "m1.large.priority-high", Class: compute.PriorityHigh, Going: true,
		Over: at(32), Taken: true, Times: 3,
	})
	made.SetMadeRoom(2)
	build.Preemptible, build.TimesTaken = true, 3
	confirm, look, beacon := sampleCommand(compute.CommandConfirm), sampleCommand(compute.CommandLook), sampleBeacon()
	confirm.Queue, confirm.Preemptible, confirm.Noticed, confirm.TimesTaken = "m1.small.priority-low", true, true, 3
	look.Look = &compute.Look{Queue: "m1.large", Save: time.Minute, Preempt: true}
	beacon.Preempts, beacon.Preemptible = true, compute.Resources{compute.VCPU: 2}
	beacon.Taking = map[compute.QueueName]uint32{"m1.large": 3}
	beacon.Age = 90 * time.Second
	beacon.Saving = &compute.Saving{Queue: "m1.large", Needs: sampleResources(), Preempt: true}
	wants, claim := sampleReport(compute.ReportPreempt), sampleReport(compute.ReportClaim)
	wants.Queue, claim.MadeRoom = "m1.large", 2
	return []sample{
		{"request-boot-preemptible", EncodeRequest(request), request, of(DecodeRequest)},
		{"instance-preemptible", EncodeInstance(inst), inst, of(DecodeInstance)},
		{"instance-notice-preemptible", EncodeInstance(noticed), noticed, of(DecodeInstance)},
		{"instance-made-room", EncodeInstance(made), made, of(DecodeInstance)},
		{"build-may-be-taken-away", EncodeBuild(build), build, of(DecodeBuild)},
		{"command-confirm-may-be-taken-away", EncodeCommand(confirm), confirm, of(DecodeCommand)},
		{"command-look-preempt", EncodeCommand(look), look, of(DecodeCommand)},
		{"beacon-preempts", EncodeBeacon(beacon), beacon, of(DecodeBeacon)},
		{"report-preempt", EncodeReport(wants), wants, of(DecodeReport)},
		{"report-claim-made-room", EncodeReport(claim), claim, of(DecodeReport)},
	}
}

// reservedSamples are of what came with reservations.
func reservedSamples() []sample {
	const placeholder = "5f0c6f0e-3c41-4a53-9d0b-0f6c1b7a2d19"
	request, boot := sampleRequest(compute.OpReserve), sampleRequest(compute.OpBoot)
	request.Instance = placeholder
	request.Reserve = &compute.Reserve{
		Name: "nightly", From: at(30), Until: at(30).Add(time.Hour),
		Boot:      compute.Boot{Flavor: "m1.small", With: compute.Choices{"disk": "ssd"}},
		Instances: []compute.InstanceID{placeholder, boot.Instance},
	}
	boot.Boot.Host, boot.Boot.Avoid = "", nil
	boot.Boot.Reserving("nightly")
	held, taker := sampleInstanceRecord(), sampleInstanceRecord()
	held.Boot.AsPlaceholder(compute.Placeholder{Of: "nightly", Size: 2, From: at(30), Until: at(40), Taker: boot.Instance, Kept: true})
	in := compute.InPlaceholder{ID: placeholder, Attempt: 2}
	taker.Boot.Host, taker.Boot.Avoid = "", nil
	taker.Boot.Reserving("nightly")
	taker.Boot.Takes(in)
	build, taking, confirm := sampleBuild(), sampleBuild(), sampleCommand(compute.CommandConfirm)
	build.Placeholder, taking.In, confirm.In = true, in, in
	return []sample{
		{"request-reserve-reserved", EncodeRequest(request), request, of(DecodeRequest)},
		{"request-boot-reserved", EncodeRequest(boot), boot, of(DecodeRequest)},
		{"instance-placeholder-reserved", EncodeInstance(held), held, of(DecodeInstance)},
		{"instance-taker-reserved", EncodeInstance(taker), taker, of(DecodeInstance)},
		{"build-placeholder-reserved", EncodeBuild(build), build, of(DecodeBuild)},
		{"build-taker-reserved", EncodeBuild(taking), taking, of(DecodeBuild)},
		{"command-confirm-in", EncodeCommand(confirm), confirm, of(DecodeCommand)},
	}
}

// labelSamples are of what came with labels.
func labelSamples() []sample {
	changed, labelled := sampleInstanceRecord(), sampleBeacon()
	changed.BootedAs = changed.Boot.Fingerprint()
	labelled.Labels = map[string]string{"rack": "r7", "größe": ""}
	return []sample{
		{"instance-changed", EncodeInstance(changed), changed, of(DecodeInstance)},
		{"beacon-labels", EncodeBeacon(labelled), labelled, of(DecodeBeacon)},
	}
}

// sealedSamples are of what has sealed user data.
func sealedSamples() []sample {
	sealed := compute.Sealed("\x01keysnonce-of-12-data\xff")
	request, inst, build := sampleRequest(compute.OpBoot), sampleInstanceRecord(), sampleBuild()
	request.Boot.UserData, request.Boot.Sealed = "", sealed
	inst.Boot.UserData, inst.Boot.Sealed = "", sealed
	build.UserData, build.Sealed = nil, sealed
	command, opens := sampleCommand(compute.CommandBuild), sampleBeacon()
	command.Build = &build
	opens.Opens = []compute.KeyID{"e9963d78", "ecefee5e"}
	return []sample{
		{"request-boot-sealed", EncodeRequest(request), request, of(DecodeRequest)},
		{"instance-sealed", EncodeInstance(inst), inst, of(DecodeInstance)},
		{"build-sealed", EncodeBuild(build), build, of(DecodeBuild)},
		{"command-build-sealed", EncodeCommand(command), command, of(DecodeCommand)},
		{"beacon-opens", EncodeBeacon(opens), opens, of(DecodeBeacon)},
	}
}

// groupSamples are of members of groups.
func groupSamples() []sample {
	request, inst, build := sampleRequest(compute.OpBoot), sampleInstanceRecord(), sampleBuild()
	request.Boot.Rules, inst.Boot.Rules = compute.InGroup("web"), compute.InGroup("web")
	build.Group = &compute.BuildGroup{Name: "web", Most: 2, Until: at(27), Full: []compute.HostID{"host-17", "host-18"}}
	command := sampleCommand(compute.CommandBuild)
	waits := sampleBuild()
	waits.WaitUntil = at(28)
	command.Build = &waits
	apart := compute.Group{Project: "web-shop", Name: "web", Policy: compute.AntiAffinity, Most: 2, Over: "zone"}
	spread, even := inst, compute.Group{
		Project: "web-shop", Name: "web", Policy: compute.SpreadOnly, Spread: "zone", Skew: 1,
	}
	spread.Boot.Rules = &compute.PlacementRules{Group: "web", Spread: "gpu", Chosen: true}
	return []sample{
		{"instance-spread", EncodeInstance(spread), spread, of(DecodeInstance)},
		{
			"catalog-group-spread", EncodeGroup(even), CatalogEntry{Project: "web-shop", GroupName: "web", Group: &even},
			of(DecodeCatalog),
		},
		{"request-boot-group", EncodeRequest(request), request, of(DecodeRequest)},
		{"instance-group", EncodeInstance(inst), inst, of(DecodeInstance)},
		{"build-group", EncodeBuild(build), build, of(DecodeBuild)},
		{"command-build-waits", EncodeCommand(command), command, of(DecodeCommand)},
		{
			"catalog-group", EncodeGroup(apart), CatalogEntry{Project: "web-shop", GroupName: "web", Group: &apart},
			of(DecodeCatalog),
		},
	}
}

// setSamples are of instances that start all or not at all.
func setSamples() []sample {
	request, inst, build := sampleRequest(compute.OpBoot), sampleInstanceRecord(), sampleBuild()
	boot := *request.Boot
	request.Op, request.Boot = compute.OpBootSet, nil
	request.Set = []compute.SetBoot{
		{Instance: request.Instance, Boot: boot},
		{Instance: "0b9cf4a2-3f0e-4c5e-9a55-0f6f1d2c3b4b", Boot: compute.Boot{Flavor: "m1.large"}},
	}
	inst.Boot.InSet(compute.Set{ID: request.Instance, Size: 2, Granted: true})
	build.Hold = compute.SetHold
	waits, whole := inst, build
	waits.State, waits.Host, waits.Claim = compute.StateQueued, "", ""
	waits.Boot.InSet(compute.Set{ID: request.Instance, Size: 2, Whole: "m1.large"})
	second := build
	second.Instance, second.Queue = request.Set[1].Instance, "m1.large"
	whole.Queue, whole.Resources = "m1.xlarge", build.Resources.Plus(second.Resources)
	whole.Parts = []compute.Build{build, second}
	return []sample{
		{"instance-whole", EncodeInstance(waits), waits, of(DecodeInstance)},
		{"build-whole", EncodeBuild(whole), whole, of(DecodeBuild)},
		{"request-boot-set", EncodeRequest(request), request, of(DecodeRequest)},
		{"instance-set", EncodeInstance(inst), inst, of(DecodeInstance)},
		{"build-set", EncodeBuild(build), build, of(DecodeBuild)},
	}
}

// machineSamples are of what came with real machines.
func machineSamples() []sample {
	stopped := &compute.Reason{Code: compute.MachineKilled, Host: "host-17", Detail: "its process 42 is gone"}
	inst := sampleInstanceRecord()
	inst.Power, inst.Stopped = compute.PowerStopped, stopped
	inst.Answer = &compute.PowerAnswer{
		Op: compute.OpReboot, Command: "cmd-80", Failed: "it is stopped: start it instead", At: at(23),
	}
	inst.Boot.SSHKeys = []string{sampleKey}
	changed := sampleReport(compute.ReportChanged)
	changed.Power, changed.Stopped = compute.PowerStopped, stopped
	build := sampleBuild()
	build.SSHKeys = []string{sampleKey}
	ask := sampleCommand(compute.CommandConsole)
	ask.Console = &compute.ConsoleAsk{ID: "ask-5", Offset: -1000, Limit: 65536, Deadline: at(24)}
	look := compute.Command{Op: compute.CommandLook, Look: &compute.Look{Queue: "m1.small.gpu-a100"}, At: at(26)}
	hold := look
	hold.Look = &compute.Look{Queue: "m1.small.gpu-a100", Hold: 20 * time.Second}
	save, spend, saves := look, look, sampleBeacon()
	save.Look = &compute.Look{Queue: "m1.large", Save: 10 * time.Minute}
	spend.Look = &compute.Look{Queue: "m1.large", Spend: true}
	saves.Saves, saves.Saving = true, &compute.Saving{
		Queue: "m1.large", Needs: compute.Resources{compute.VCPU: 8}, Age: time.Minute, Left: 9 * time.Minute,
	}
	rung := sampleBeacon()
	rung.Rings = true
	rings := sampleAdvice()
	rings.Rings = true
	request := sampleRequest(compute.OpBoot)
	request.Boot.SSHKeys = []string{sampleKey}
	console := compute.Console{
		Ask: "ask-5", Host: "host-17", Project: sampleProject, Instance: sampleInstance, Offset: 1 << 40,
		Data: []byte("login: \xff"), End: 1<<40 + 8, At: at(25),
	}
	refused := console
	refused.Offset, refused.Data, refused.End, refused.Refusal, refused.Message = 0, nil, 0, compute.ConsoleFailed,
		"permission denied"
	had := sampleInstanceRecord()
	had.Journal = "journal-3"
	granted := sampleCommand(compute.CommandGrant)
	granted.Journal = "journal-3"
	confirmed := sampleCommand(compute.CommandConfirm)
	confirmed.Queue, confirmed.Group = "m1.small", "web"
	started := sampleReport(compute.ReportStarted)
	started.Started = at(27)
	twins := compute.Command{Op: compute.CommandTwins, At: at(28), Voices: []compute.Voice{
		{Journal: "journal-3", Started: at(27)}, {Journal: "journal-4", Started: at(28)},
	}}
	begun, alone := twins, twins
	begun.Op, begun.Voices = compute.CommandBegun, twins.Voices[1:]
	alone.Op, alone.Voices = compute.CommandAlone, twins.Voices[1:]
	knowing := sampleBeacon()
	knowing.Twins = true
	asking, leaving := sampleBeacon(), sampleBeacon()
	asking.Asks, asking.Beside = true, twins.Voices[0]
	leaving.Leaves = true
	warns := sampleBeacon()
	warns.Warnings = []string{"machines run as root; run the agent as another user", "no AppArmor"}
	packs := sampleBeacon()
	packs.Weigher = compute.Pack
	reading := sampleBeacon()
	reading.Reads = 2
	rebooted := had
	rebooted.Command = &compute.PowerCommand{
		Op: compute.OpReboot, Command: "cmd-83", Version: 8, At: at(4), Journal: "journal-3",
	}
	token := sampleToken()
	return []sample{
		{"token", EncodeToken(token), TokenEntry{ID: token.ID, Token: &token}, of(DecodeToken)},
		{"audit", EncodeAudit(sampleAudit()), sampleAudit(), of(DecodeAudit)},
		{"token-revoked", Tombstone(KeyToken(token.ID)), TokenEntry{ID: token.ID, Revoked: true}, of(DecodeToken)},
		{"beacon-warnings", EncodeBeacon(warns), warns, of(DecodeBeacon)},
		{"instance-journal", EncodeInstance(had), had, of(DecodeInstance)},
		{"instance-command-journal", EncodeInstance(rebooted), rebooted, of(DecodeInstance)},
		{"command-grant-journal", EncodeCommand(granted), granted, of(DecodeCommand)},
		{"command-confirm-told", EncodeCommand(confirmed), confirmed, of(DecodeCommand)},
		{"report-voice", EncodeReport(started), started, of(DecodeReport)},
		{"command-twins", EncodeCommand(twins), twins, of(DecodeCommand)},
		{"command-begun", EncodeCommand(begun), begun, of(DecodeCommand)},
		{"command-alone", EncodeCommand(alone), alone, of(DecodeCommand)},
		{"beacon-twins", EncodeBeacon(knowing), knowing, of(DecodeBeacon)},
		{"beacon-asks", EncodeBeacon(asking), asking, of(DecodeBeacon)},
		{"beacon-leaves", EncodeBeacon(leaving), leaving, of(DecodeBeacon)},
		{"beacon-weigher", EncodeBeacon(packs), packs, of(DecodeBeacon)},
		{"beacon-reads", EncodeBeacon(reading), reading, of(DecodeBeacon)},
		{"instance-stopped", EncodeInstance(inst), inst, of(DecodeInstance)},
		{"report-changed-stopped", EncodeReport(changed), changed, of(DecodeReport)},
		{"build-ssh-keys", EncodeBuild(build), build, of(DecodeBuild)},
		{"request-boot-ssh-keys", EncodeRequest(request), request, of(DecodeRequest)},
		{"command-console", EncodeCommand(ask), ask, of(DecodeCommand)},
		{"command-look", EncodeCommand(look), look, of(DecodeCommand)},
		{"command-look-hold", EncodeCommand(hold), hold, of(DecodeCommand)},
		{"advice-rings", EncodeAdvice(rings), rings, of(DecodeAdvice)},
		{"beacon-rings", EncodeBeacon(rung), rung, of(DecodeBeacon)},
		{"beacon-saving", EncodeBeacon(saves), saves, of(DecodeBeacon)},
		{"command-look-save", EncodeCommand(save), save, of(DecodeCommand)},
		{"command-look-spend", EncodeCommand(spend), spend, of(DecodeCommand)},
		{"console", EncodeConsole(console), console, of(DecodeConsole)},
		{"console-refused", EncodeConsole(refused), refused, of(DecodeConsole)},
	}
}

// sampleKey is a public key whose secret half nobody has.
const sampleKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f web@example"
