// SPDX-License-Identifier: Apache-2.0

// Package elect chooses one process out of several: the member of a consumer group that owns the one partition of a
// topic.
//
// At most one process is elected for long, and another within ElectionTimeout when one dies, at once when it stops
// (TestElectorOneAtATimeAndTheNextWhenItStops). The old one may believe itself elected for a moment longer: what an
// elected process does must be harmless when two do it. Errors of the group's coordinator pass
// (TestElectorPassesEveryError).
package elect
