// SPDX-License-Identifier: Apache-2.0

// Package publishtest holds, for tests, every way to publish a request, made on
// a broker's address: the adapters of package publish with their clients, and
// plain JSON with no Berth package. A test that runs over All has tried what a
// user can have.
package publishtest
