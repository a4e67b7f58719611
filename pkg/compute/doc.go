// SPDX-License-Identifier: Apache-2.0

// Package compute holds the words of Berth: every identifier, state and record
// that two parts of the system say to each other has its type here, once.
//
// It imports nothing but the standard library, so that every other package can
// import it. The records are what travels (package wire turns them into bytes)
// and what is kept; the rules about them live in the cores that decide.
//
// Units: memory is in MiB (class MEMORY_MB), disk in GiB (DISK_GB), VCPU counts
// virtual processors. Times are UTC, durations time.Duration.
package compute
