// SPDX-License-Identifier: Apache-2.0

package kafka

const (
	// MaxRecordBytes is the largest batch that producers write: the largest request
	// with room to spare.
	MaxRecordBytes = 1 << 20
	// MaxTurnBytes is the largest batch that a turn writes to a partition of instances.
	MaxTurnBytes = 32 << 20
)
