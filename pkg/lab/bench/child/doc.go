// SPDX-License-Identifier: Apache-2.0

// Package child runs a part in a process of its own, and asks it over pipes what
// it has counted.
//
// Both ends write JSON, a value a line. The parent writes the order, which says
// what the child is to do, and later questions. The child writes that it is ready,
// answers, and a last word once its part has ended.
//
//	parent ── order, ask, ask, end of file ──▶ child
//	       ◀── ready, answer, answer, last ───
//
// A child ends when its input does: it does not outlive a parent that was killed.
package child
