// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"fmt"
	"time"
)

// MaxConsole is the most bytes of a console that one answer carries.
const MaxConsole = 64 << 10

// AskID names one question about a console. The asker makes it.
type AskID string

// ConsoleAsk asks a host for a part of what a machine printed on its serial
// console. It is answered once, or not at all.
type ConsoleAsk struct {
	ID       AskID
	Offset   int64     // of the first byte, of all the machine ever printed; negative: from the end
	Limit    uint32    // bytes, 1 to MaxConsole
	Deadline time.Time // nobody waits any longer: after that it is not answered
}

// Check refuses an ask that nobody could answer.
func (a ConsoleAsk) Check() error {
	switch {
	case a.ID == "":
		return Invalid("console.id", "", "give one, so that the answer is recognised")
	case a.Limit < 1 || a.Limit > MaxConsole:
		return Invalid("limit", fmt.Sprint(a.Limit), fmt.Sprintf("give a number of bytes from 1 to %d", MaxConsole))
	case a.Deadline.IsZero():
		return Invalid("console.deadline", "", "say until when somebody waits")
	}
	return nil
}

// Console is a record of the consoles topic: a host's answer to a ConsoleAsk.
type Console struct {
	Ask      AskID
	Host     HostID
	Project  Project
	Instance InstanceID
	Offset   int64 // of Data's first byte
	Data     []byte
	End      int64 // how much was ever printed
	Refusal  ConsoleRefusal
	Message  string // with a Refusal: for the operator
	At       time.Time
}

// ConsoleRefusal is why a console cannot be read.
type ConsoleRefusal uint8

// The refusals.
const (
	ConsoleRead    ConsoleRefusal = iota // there is none
	ConsoleNotKept                       // the host's hypervisor keeps no consoles
	ConsoleNotHere                       // the host does not have the machine
	ConsoleFailed                        // the hypervisor failed
)

var consoleRefusalNames = [...]string{"none", "not-kept", "not-here", "failed"}

// String is the refusal's name in logs.
func (r ConsoleRefusal) String() string { return name(consoleRefusalNames[:], r, "console refusal") }
