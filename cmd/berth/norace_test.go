//go:build !race

package main

// raced says that the race detector watches: everything takes many times as long.
const raced = false
