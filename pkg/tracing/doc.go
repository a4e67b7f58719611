// SPDX-License-Identifier: Apache-2.0

// Package tracing tells a collector how long each step of a boot took, as spans of one trace.
//
// The context of a boot is the W3C traceparent that its records carry. The first process of Berth that sees the boot
// writes it, and all others pass it on unchanged: whoever knows of a step tells a span below it, once the step is over.
// No process has to wait for another, or to keep a span open.
package tracing
