// SPDX-License-Identifier: Apache-2.0

// Package measure is the commands that measure and simulate: berth bench and berth sim. What they run is in
// pkg/lab; here are their flags, and how results are printed.
package measure
