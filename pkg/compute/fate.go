// SPDX-License-Identifier: Apache-2.0

package compute

// Fate is what becomes of an instance once its host is declared dead.
type Fate string

// The fates.
const (
	FateRebuilt Fate = "rebuilt" // built anew on another host
	FateWaits   Fate = "waits"   // queued until the host that it is pinned to comes back
	FateEnded   Fate = "ended"   // ends as error
	FateDeleted Fate = "deleted" // it was being deleted, or is with its set
)

// String is the fate in words.
func (f Fate) String() string {
	switch f {
	case FateRebuilt:
		return "built elsewhere"
	case FateWaits:
		return "waits for this host, which it is pinned to"
	case FateEnded:
		return "ended"
	case FateDeleted:
		return "deleted"
	}
	return string(f)
}

// FateOf is what an evacuate (OpFence) or a forget (OpForget) of its host makes of
// an instance, with the reason if it ends. buildable says whether its flavor is
// still offered or its queue still listed. The conductor acts by the same table,
// which its code has beside loseHost; a test compares the two.
func FateOf(i *Instance, op RequestOp, buildable bool) (Fate, ReasonCode) {
	pinned, forget := i.Boot.Host != "", op == OpForget
	switch {
	case i.State == StateDeleting:
		return FateDeleted, ""
	case i.State == StateActive && i.Notice() != nil && i.Boot.Preemptible().Then == ThenDelete:
		return FateDeleted, ""
	case i.State == StateActive && i.Notice() != nil && buildable:
		return FateRebuilt, ""
	case i.State == StateActive && (forget && !i.IsPlaceholder() || pinned || !buildable):
		return FateEnded, HostLost
	case forget && pinned:
		return FateEnded, PinnedHostUnavailable
	case pinned:
		return FateWaits, ""
	}
	return FateRebuilt, ""
}
