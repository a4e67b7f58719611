// SPDX-License-Identifier: Apache-2.0

// Package fake is a hypervisor with records for machines. They live in a World, outside the agent that drives them,
// and survive it as real machines do. The World writes down every launch, stop and destroy with its time, so that a
// test can tell from outside whether anything ran twice.
package fake
