// SPDX-License-Identifier: Apache-2.0

// Package clienttest makes the clients that tests of other packages use beside their own,
// each closed when its test ends.
package clienttest
