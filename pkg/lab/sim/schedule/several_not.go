// SPDX-License-Identifier: Apache-2.0

//go:build !synctests

package schedule

// Several says that worlds of several brokers are played as such: not without the build
// tag synctests. They have one broker then, and what goes wrong between them does not.
const Several = false
