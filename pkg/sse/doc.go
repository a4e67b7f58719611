// SPDX-License-Identifier: Apache-2.0

// Package sse reads and writes server-sent events: text/event-stream, as the HTML standard defines it.
//
// Both sides know blocks that have an id and nothing else. A browser takes such an id as its last one and tells its
// page of no event, so a server can move the place on at which a listener will resume without telling it anything.
// Libraries do not tell their callers of such blocks.
package sse
