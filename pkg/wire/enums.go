// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// table says which word of a closed list is which value of the schema, and
// back. Their numbers have nothing to do with each other. Where a word or a
// value is there twice, the first row wins.
type table[W ~uint8, S ~int32] []row[W, S]

type row[W ~uint8, S ~int32] struct {
	word  W
	value S
}

// out is the value of a word; the unspecified one for a word that never travels.
func (t table[W, S]) out(w W) S {
	for _, r := range t {
		if r.word == w {
			return r.value
		}
	}
	return 0
}

// in is the word of a value. One that is not in the table comes from a later
// schema, or stands for nothing: guessing would mislead.
func (t table[W, S]) in(r *reader, field string, s S) W {
	for _, row := range t {
		if row.value == s {
			return row.word
		}
	}
	remedy := "it is of a later schema: upgrade the readers of this topic before its writers"
	if s == 0 {
		remedy = "say which"
	}
	r.refuse(compute.Invalid(field, strconv.Itoa(int(s)), remedy))
	return 0
}

var noCapacities = table[compute.NoCapacity, pb.NoCapacity]{
	{compute.WaitForCapacity, pb.NoCapacity_NO_CAPACITY_WAIT},
	{compute.WaitForCapacity, pb.NoCapacity_NO_CAPACITY_UNSPECIFIED},
	{compute.FailAtOnce, pb.NoCapacity_NO_CAPACITY_FAIL},
}

// A request that does not say is normal.
var priorities = table[compute.Priority, pb.Priority]{
	{compute.PriorityNormal, pb.Priority_PRIORITY_UNSPECIFIED},
	{compute.PriorityNormal, pb.Priority_PRIORITY_NORMAL},
	{compute.PriorityLow, pb.Priority_PRIORITY_LOW},
	{compute.PriorityHigh, pb.Priority_PRIORITY_HIGH},
}

// A limit that does not say is for all classes.
var quotaParts = table[compute.QuotaPart, pb.Priority]{
	{compute.QuotaWhole, pb.Priority_PRIORITY_UNSPECIFIED},
	{compute.QuotaOf(compute.PriorityNormal), pb.Priority_PRIORITY_NORMAL},
	{compute.QuotaOf(compute.PriorityLow), pb.Priority_PRIORITY_LOW},
	{compute.QuotaOf(compute.PriorityHigh), pb.Priority_PRIORITY_HIGH},
}

var groupPolicies = table[compute.GroupPolicy, pb.GroupPolicy]{
	{compute.AntiAffinity, pb.GroupPolicy_GROUP_POLICY_ANTI_AFFINITY},
	{compute.Affinity, pb.GroupPolicy_GROUP_POLICY_AFFINITY},
	{compute.SoftAntiAffinity, pb.GroupPolicy_GROUP_POLICY_SOFT_ANTI_AFFINITY},
	{compute.SoftAffinity, pb.GroupPolicy_GROUP_POLICY_SOFT_AFFINITY},
	{compute.SpreadOnly, pb.GroupPolicy_GROUP_POLICY_NONE},
}

var failureClasses = table[compute.FailureClass, pb.FailureClass]{
	{compute.FailureUnknown, pb.FailureClass_FAILURE_CLASS_UNSPECIFIED},
	{compute.FailureHost, pb.FailureClass_FAILURE_CLASS_HOST},
	{compute.FailureTimeout, pb.FailureClass_FAILURE_CLASS_TIMEOUT},
	{compute.FailureRequest, pb.FailureClass_FAILURE_CLASS_REQUEST},
	{compute.FailureUnknownHere, pb.FailureClass_FAILURE_CLASS_UNKNOWN_CLAIM},
}

var reportOps = table[compute.ReportOp, pb.ReportOp]{
	{compute.ReportClaim, pb.ReportOp_REPORT_OP_CLAIM},
	{compute.ReportStarted, pb.ReportOp_REPORT_OP_STARTED},
	{compute.ReportFailed, pb.ReportOp_REPORT_OP_FAILED},
	{compute.ReportReturned, pb.ReportOp_REPORT_OP_RETURNED},
	{compute.ReportGone, pb.ReportOp_REPORT_OP_GONE},
	{compute.ReportChanged, pb.ReportOp_REPORT_OP_CHANGED},
	{compute.ReportHello, pb.ReportOp_REPORT_OP_HELLO},
	{compute.ReportPinned, pb.ReportOp_REPORT_OP_PINNED_UNAVAILABLE},
	{compute.ReportPreempt, pb.ReportOp_REPORT_OP_PREEMPT},
}

var commandOps = table[compute.CommandOp, pb.CommandOp]{
	{compute.CommandGrant, pb.CommandOp_COMMAND_OP_GRANT},
	{compute.CommandDeny, pb.CommandOp_COMMAND_OP_DENY},
	{compute.CommandConfirm, pb.CommandOp_COMMAND_OP_CONFIRM},
	{compute.CommandBuild, pb.CommandOp_COMMAND_OP_BUILD},
	{compute.CommandDelete, pb.CommandOp_COMMAND_OP_DELETE},
	{compute.CommandPower, pb.CommandOp_COMMAND_OP_POWER},
	{compute.CommandHost, pb.CommandOp_COMMAND_OP_HOST},
	{compute.CommandFenced, pb.CommandOp_COMMAND_OP_FENCED},
	{compute.CommandConsole, pb.CommandOp_COMMAND_OP_CONSOLE},
	{compute.CommandLook, pb.CommandOp_COMMAND_OP_LOOK},
	{compute.CommandTwins, pb.CommandOp_COMMAND_OP_TWINS},
	{compute.CommandBegun, pb.CommandOp_COMMAND_OP_BEGUN},
	{compute.CommandAlone, pb.CommandOp_COMMAND_OP_ALONE},
}

var consoleRefusals = table[compute.ConsoleRefusal, pb.ConsoleRefusal]{
	{compute.ConsoleRead, pb.ConsoleRefusal_CONSOLE_REFUSAL_UNSPECIFIED},
	{compute.ConsoleNotKept, pb.ConsoleRefusal_CONSOLE_REFUSAL_NOT_KEPT},
	{compute.ConsoleNotHere, pb.ConsoleRefusal_CONSOLE_REFUSAL_NOT_HERE},
	{compute.ConsoleFailed, pb.ConsoleRefusal_CONSOLE_REFUSAL_FAILED},
}

// StateAccepted and StateUnknown are shown only and never travel.
var states = table[compute.State, pb.State]{
	{compute.StateNone, pb.State_STATE_UNSPECIFIED},
	{compute.StateQueued, pb.State_STATE_QUEUED},
	{compute.StateStarting, pb.State_STATE_STARTING},
	{compute.StateActive, pb.State_STATE_ACTIVE},
	{compute.StateDeleting, pb.State_STATE_DELETING},
	{compute.StateDeleted, pb.State_STATE_DELETED},
	{compute.StateError, pb.State_STATE_ERROR},
}

var powerStates = table[compute.PowerState, pb.PowerState]{
	{compute.PowerUnknown, pb.PowerState_POWER_STATE_UNSPECIFIED},
	{compute.PowerRunning, pb.PowerState_POWER_STATE_RUNNING},
	{compute.PowerStopped, pb.PowerState_POWER_STATE_STOPPED},
	{compute.PowerPaused, pb.PowerState_POWER_STATE_PAUSED},
}

// Of a request's operations only three are about power.
var powerOps = table[compute.RequestOp, pb.PowerOp]{
	{compute.OpStop, pb.PowerOp_POWER_OP_STOP},
	{compute.OpStart, pb.PowerOp_POWER_OP_START},
	{compute.OpReboot, pb.PowerOp_POWER_OP_REBOOT},
}

// HostSilent is shown only and never travels.
var hostStates = table[compute.HostState, pb.HostState]{
	{compute.HostEnabled, pb.HostState_HOST_STATE_ENABLED},
	{compute.HostDisabled, pb.HostState_HOST_STATE_DISABLED},
	{compute.HostDraining, pb.HostState_HOST_STATE_DRAINING},
	{compute.HostQuarantined, pb.HostState_HOST_STATE_QUARANTINED},
}

// A host that does not say is of an older version, and spreads.
var weighers = table[compute.Weigher, pb.Weigher]{
	{compute.Spread, pb.Weigher_WEIGHER_UNSPECIFIED},
	{compute.Pack, pb.Weigher_WEIGHER_PACK},
}

var queueStates = table[compute.QueueState, pb.QueueState]{
	{compute.QueueOpen, pb.QueueState_QUEUE_STATE_OPEN},
	{compute.QueueClosed, pb.QueueState_QUEUE_STATE_CLOSED},
}
