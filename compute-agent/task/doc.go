// SPDX-License-Identifier: Apache-2.0

// Package task is one instance's life on one host, as a state machine: events in, actions out. It decides and does
// nothing; the agent's loop carries the actions out in order and brings back what became of them as events.
package task
