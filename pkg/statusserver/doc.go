// SPDX-License-Identifier: Apache-2.0

// Package statusserver is the status server of a daemon, from its first moment: it listens
// before there is anything to serve, says that the process lives and what it
// waits for, shows its metrics, and hands everything else to the daemon's own
// handler once there is one. All time-outs of the HTTP server are here.
package statusserver
