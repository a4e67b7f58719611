// SPDX-License-Identifier: Apache-2.0

// Package qmp speaks QEMU's machine protocol: lines of JSON on a unix socket. A
// client is made for one or a few commands and closed, for QEMU serves one at a
// time.
package qmp

import (
	"encoding/json"
	"fmt"
)

// Event is something QEMU says by itself.
type Event struct {
	Name string
	Data json.RawMessage
}

// Error is QEMU's refusal of a command.
type Error struct {
	Command string
	Class   string // "GenericError"
	Desc    string
}

// Error is the refusal on one line.
func (e *Error) Error() string { return fmt.Sprintf("qmp %s: %s (%s)", e.Command, e.Desc, e.Class) }

// message is one line from QEMU: a greeting, an answer or an event.
type message struct {
	Greeting json.RawMessage `json:"QMP"`
	Return   json.RawMessage `json:"return"`
	Error    *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	ID    string          `json:"id"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

func decode(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("qmp: a line that is no JSON: %.80q", line)
	}
	if m.Greeting == nil && m.Return == nil && m.Error == nil && m.Event == "" {
		return m, fmt.Errorf("qmp: a line that is neither greeting, answer nor event: %.80q", line)
	}
	return m, nil
}

type request struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
	ID        string `json:"id"`
}

func encode(command string, arguments any, id string) ([]byte, error) {
	b, err := json.Marshal(request{command, arguments, id})
	return append(b, '\n'), err
}
