// SPDX-License-Identifier: Apache-2.0

// Package bench measures a Berth from outside: it sends boots at given moments,
// watches the log for what becomes of them, counts in a simulated world what
// really ran, and says how long everything took.
//
// It knows the product only by the interface Product, the HTTP API and the
// topics. docs/BENCH.md says what each number means.
//
// It has more files than other packages: a run, its floor, its processes and its observers write
// into one ledger and one result, and packages of their own would need half of their fields exported.
package bench
