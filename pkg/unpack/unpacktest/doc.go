// SPDX-License-Identifier: Apache-2.0

// Package unpacktest makes record batches that nobody should send: those that
// unpack to far more than was sent, and those that are not what they say.
package unpacktest
