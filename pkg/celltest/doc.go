// SPDX-License-Identifier: Apache-2.0

// Package celltest tests whole cells: real parts of pkg/cell in this process, or
// processes of the berth program, on an embedded broker and on real Kafka, looked at
// from outside. It has more files than other packages since all of them stand on one
// rig (rig_test.go, process_test.go), which is worth nothing by itself.
package celltest
