// SPDX-License-Identifier: Apache-2.0

// Package hostkey says which host a record is of. Kafka does not tell readers who wrote
// a record, and every agent may write to reports and hosts; so what an agent writes carries a
// MAC (HMAC-SHA256) by a key of its host's own. Conductors and queue managers derive that key
// (HKDF-SHA256) from a master, which nobody else holds:
//
//	master ──HKDF, host──▶ key of the host ──HMAC──▶ header berth-mac
//	 conductors, queue       its agent alone          of each report
//	 managers alone                                   and beacon
//
// The MAC covers topic, key, value, all other headers and a counter that only rises as long as
// a process lives; its process (host, journal, beginning) is in the value. So
// nothing in a record can be altered, and what was said once counts once: Heard refuses a
// counter of the same process that is not above the last. What is left to a stranger that
// replays is in decision 0051.
package hostkey
