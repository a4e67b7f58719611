// SPDX-License-Identifier: Apache-2.0

// Package followtest holds, for tests, every follower there is, made on a
// broker's address, and a writer of instances that commits and aborts as the
// conductor does.
package followtest
