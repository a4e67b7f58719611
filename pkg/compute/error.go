// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Kind is why something was refused, in the few ways a caller can act on. The
// list is closed and survives the wire: exit codes and HTTP statuses follow it.
type Kind uint8

// The kinds. KindInternal is the zero value: an error nobody classified.
const (
	KindInternal        Kind = iota // a fault of ours
	KindInvalid                     // the input is wrong and will stay wrong
	KindNotFound                    // what was named does not exist
	KindConflict                    // it exists already, or is ambiguous, or in the wrong state
	KindQuota                       // the project may not have this
	KindNoCapacity                  // no host took it in time
	KindForbidden                   // the caller may not
	KindUnavailable                 // not now; trying again later may work
	KindTimeout                     // the answer did not come in time; the outcome is unknown
	KindUnauthenticated             // the caller is not known
)

var kindNames = [...]string{
	"internal", "invalid", "not-found", "conflict", "quota", "no-capacity", "forbidden", "unavailable",
	"timeout", "unauthenticated",
}

// String is the kind's name on the wire.
func (k Kind) String() string { return name(kindNames[:], k, "kind") }

// ParseKind reads what String wrote; an unknown name is KindInternal.
func ParseKind(s string) Kind {
	for i, n := range kindNames {
		if n == s {
			return Kind(i)
		}
	}
	return KindInternal
}

// Error is what Berth says when it refuses: for the person the field, the value
// and the remedy, for the operator the operation and the cause.
type Error struct {
	Op      string  // what was being done, outermost first: "flavor add"
	Kind    Kind    // how a caller can act on it
	Field   string  // which part of the input is wrong; empty if none is
	Value   string  // what it was
	Message string  // one sentence for the person, without a full stop
	Remedy  string  // what to do about it
	Reason  *Reason // the stable code with its numbers, where there is one
	Cause   error   // for the operator
}

// Error is the one line for logs and terminals.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	switch {
	case e.Message != "" && e.Field != "":
		fmt.Fprintf(&b, "%s %q: %s", e.Field, short(e.Value), e.Message)
	case e.Message != "":
		b.WriteString(e.Message)
	case e.Field != "":
		fmt.Fprintf(&b, "%s %q is not valid", e.Field, short(e.Value))
	case e.Reason.String() != "":
		b.WriteString(e.Reason.String())
	default:
		b.WriteString(e.Kind.String())
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	if e.Cause != nil {
		b.WriteString(": " + e.Cause.Error())
	}
	return b.String()
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// Invalid refuses a field: its name, its value and what to do instead.
func Invalid(field, value, remedy string) *Error {
	return &Error{Kind: KindInvalid, Field: field, Value: value, Remedy: remedy}
}

// Unreadable refuses a field that names a file which cannot be read, or has not what belongs in it.
func Unreadable(field, file string, cause error) *Error {
	return &Error{
		Kind: KindInvalid, Field: field, Value: file, Message: "cannot be used",
		Remedy: "give a file that this process may read", Cause: cause,
	}
}

// DiskFull says whether an error is that a disk, or a quota on it, has no room.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// NotFound says that what was named does not exist.
func NotFound(field, value, remedy string) *Error {
	return &Error{Kind: KindNotFound, Field: field, Value: value, Message: "does not exist", Remedy: remedy}
}

// Conflict says that the named thing is not in a state for this.
func Conflict(field, value, message, remedy string) *Error {
	return &Error{Kind: KindConflict, Field: field, Value: value, Message: message, Remedy: remedy}
}

// Unavailable says that this cannot be done now, and why.
func Unavailable(op string, cause error) *Error {
	return &Error{Op: op, Kind: KindUnavailable, Message: "cannot be done now", Remedy: "try again", Cause: cause}
}

// KindOf finds the kind of any error; KindInternal if nobody classified it.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

// short keeps a hostile value from filling a terminal or a log.
func short(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// name is the String method of every small enumeration here.
func name[T ~uint8](names []string, v T, what string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", what, v)
}
