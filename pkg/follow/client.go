// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/wire"
)

// Client is what an adapter makes of a Kafka client: three questions to
// brokers. Each call asks once; the follower asks again. Calls end with their
// context. It is safe for concurrent use.
type Client interface {
	// Leaders says which brokers lead the partitions of a topic now. Where it can, it
	// asks another broker each time: one that is cut off from the others does not know.
	// It never makes a topic; one that is missing is wire.ErrNoTopic.
	Leaders(ctx context.Context, topic string) (Leaders, error)
	// Oldest is the first offset that each of these partitions of one broker
	// still has.
	Oldest(ctx context.Context, broker int32, topic string, partitions []int32) (map[int32]int64, error)
	// Fetch asks one broker for records from these offsets on, by partition, with
	// isolation read_committed. It waits at most room.Wait for something new. A
	// partition that is not in the answer is asked for again. After an error to a question
	// about several partitions each is asked for alone, and after one to a question about
	// one partition, if it took long, with less room: the answer may be too much.
	Fetch(ctx context.Context, broker int32, topic string, from map[int32]int64, room Room) ([]Part, error)
	// Close gives back what the adapter made, not what it was given.
	Close() error
}

// Room is what an answer to Fetch may take.
type Room struct {
	Wait  time.Duration // for something new
	Bytes int32         // of each partition; a first record batch that is larger comes whole
}

// Leaders are the brokers that lead a topic's partitions.
type Leaders struct {
	ID [16]byte        // of this incarnation of the topic; zero where the client does not say
	Of map[int32]int32 // broker by partition; -1: nobody now
	// Epoch is the leader epoch by partition: a broker that says a lower one has not heard of
	// the leader of a higher. Partitions of which the client does not say it are left out.
	Epoch map[int32]int32
}

// Part is what a broker answered about one partition.
type Part struct {
	Partition int32
	Code      int16 // Kafka's error code; 0: none, and only then the rest means something
	Err       error // what the broker sent cannot be read; nil: it can, and only then the rest means something
	Highest   int64 // the high watermark: the offset of the next record
	Stable    int64 // the last stable offset: below it every transaction is decided
	Aborted   []Aborted
	Spans     []Span // in order; a client may leave out those without records
	Empty     bool   // the broker sent no batch at all; false where the client does not say
}

// Span is a run of records as a producer wrote it: a record batch.
type Span struct {
	First, Last   int64 // offsets; Last is -1 where the client does not say
	Producer      int64
	Transactional bool
	Marker        bool // the end of a transaction, and no records
	Abort         bool // Marker: it was aborted
	Records       []wire.Record
}

// Aborted is where the records of an aborted transaction begin; its marker is
// where they end.
type Aborted struct {
	Producer int64
	First    int64
}

// Kafka's error codes that the follower acts on; each client has its own type
// for them, and all have the same numbers.
const (
	offsetOutOfRange        = 1
	unknownTopicOrPartition = 3
	topicAuthorization      = 29
	clusterAuthorization    = 31
	saslAuthentication      = 58
	unknownTopicID          = 100
)

// FetchBytes is what one answer to Fetch may bring, of all partitions. It must
// come within 15 s, with franz-go 10 s. partitionBytes is its part of one partition at first, above
// the largest record batch, so that an answer has all of one and the beginning
// of the next.
const (
	FetchBytes     = 16 << 20
	partitionBytes = 4 << 20
)

// Aborts reads the key of a marker: whether it ends its transaction by undoing
// it. (The version of the marker and its type, two bytes each; 0 is abort.)
func Aborts(key []byte) bool { return len(key) >= 4 && key[2] == 0 && key[3] == 0 }
