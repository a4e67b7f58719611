// SPDX-License-Identifier: Apache-2.0

// Package readtest follows a topic in the tests of what writes there.
package readtest
