// SPDX-License-Identifier: Apache-2.0

//go:build !race

package celltest

import "testing"

// raced says that the race detector watches: everything takes many times as long.
const raced = false

// alone is for the race detector's sake.
func alone(*testing.T) {}
