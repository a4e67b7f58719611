// SPDX-License-Identifier: Apache-2.0

package child

import "encoding/json"

// kind is what a child says.
type kind string

const (
	saysReady  kind = "ready"
	saysAnswer kind = "answer"
	saysLast   kind = "last"
)

// message is a line of a child.
type message struct {
	Kind kind `json:"kind"`
	// Question is the number of the question that is answered.
	Question int             `json:"question,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"`
	Error    string          `json:"error,omitempty"` // instead of the body
}

// question is a line of the parent after the order. All questions are the same.
type question struct {
	Number int `json:"question"`
}

// say makes a message of what a function answers.
func say(k kind, number int, ask func() (any, error)) message {
	m := message{Kind: k, Question: number}
	value, err := ask()
	if err == nil {
		m.Body, err = json.Marshal(value)
	}
	if err != nil {
		m.Error = err.Error()
	}
	return m
}
