// SPDX-License-Identifier: Apache-2.0

// Package fetch keeps the fetches of a host: which queues it asks for work, in which share sessions, and what came of
// it.
//
// It promises that whatever all open fetches bring at once has room on the host, beside what is there and what
// is for this host alone; that each session has one fetch at a time; and that work it holds, because it can never run
// here and nobody else takes it, is given back. It knows queues, advice and rings, and nothing of tasks, the
// journal or the hypervisor: what the host has to offer it is told at each look (Supply).
package fetch
