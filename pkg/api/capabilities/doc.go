// SPDX-License-Identifier: Apache-2.0

// Package capabilities makes the document that says what is valid in a request: flavors, choices, limits, states and
// reasons. Its limits are the constants that the checks use. It is the same bytes for as long as its content is the
// same, so that its entity tag changes only with that.
package capabilities
