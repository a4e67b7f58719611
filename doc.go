// SPDX-License-Identifier: Apache-2.0

// Package berth is the root of the project. It holds no code but the rules
// that the rest obeys: read rules_test.go first.
package berth
