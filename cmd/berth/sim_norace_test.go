//go:build !race

package main

import "testing"

// racedSim says that the race detector watches: everything takes many times as long.
const racedSim = false

// aloneSim is for the race detector's sake.
func aloneSim(*testing.T) {}
