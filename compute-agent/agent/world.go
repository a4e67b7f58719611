package agent

import (
	"context"

	"github.com/berth-project/berth/compute-agent/journal"
	"github.com/berth-project/berth/pkg/wire"
)

// Reporter writes records that must not be lost.
type Reporter interface {
	// Send returns when Kafka has all of them, or the first error; then any of
	// them may be there or not.
	Send(ctx context.Context, recs ...wire.Record) error
}

// Journal is what this host has taken. The agent is its only writer.
type Journal interface {
	Read() (journal.State, error)
	// Write is durable when it returns. After an error the agent ends.
	Write(journal.Change) error
	// Room says why there is no room for what will be written; nil: there is. It is
	// asked while Write may be under way.
	Room() error
}
