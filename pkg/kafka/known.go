// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Known is what brokers last said of the cell's topics and of each other, shared by the clients of a process: a
// client that starts takes the answer that another got a moment ago, instead of asking too. It saves questions and
// decides nothing: a reader that meets an error asks brokers, as does one with a topic that is not in here. A nil
// Known knows nothing. It is safe for concurrent use.
type Known struct {
	mu       sync.Mutex
	expected []string
	brokers  map[int32]string // host:port
	topics   map[string]told
	alive    []int32 // those of the last answer
	answered time.Time
}

// told is an answer about one topic.
type told struct {
	topic   kmsg.MetadataResponseTopic
	brokers []kmsg.MetadataResponseBroker
	at      time.Time // when it was asked for
}

const (
	// KnownFor is how long an answer is good enough to begin with: a reader asks
	// anew whether a broker still leads as often anyway.
	KnownFor = 30 * time.Second
	// ReachedFor is how long brokers count as reachable after they answered.
	ReachedFor = 5 * time.Second
)

// NewKnown is for the clients of one process and one cell.
func NewKnown() *Known { return &Known{brokers: map[int32]string{}, topics: map[string]told{}} }

// Expect names topics that readers of this process will ask about soon. Brokers are
// asked about them together with the cell's own topics.
func (k *Known) Expect(topics ...string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, t := range topics {
		if !slices.Contains(k.expected, t) {
			k.expected = append(k.expected, t)
		}
	}
}

func (k *Known) Expects() []string {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.expected)
}

// Learn takes an answer that was asked for at some time. A topic that has an error is
// forgotten.
func (k *Known) Learn(m *kmsg.MetadataResponse, asked time.Time) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range m.Brokers {
		k.brokers[b.NodeID] = addressOf(b)
	}
	if asked.After(k.answered) {
		k.answered, k.alive = asked, nil
		for _, b := range m.Brokers {
			k.alive = append(k.alive, b.NodeID)
		}
	}
	for _, t := range m.Topics {
		switch {
		case t.Topic == nil:
		case t.ErrorCode != 0:
			delete(k.topics, *t.Topic)
		case !asked.Before(k.topics[*t.Topic].at):
			k.topics[*t.Topic] = told{t, m.Brokers, asked}
		}
	}
}

// About is the last answer about a topic, as if it had been asked for alone; nil if
// there is none that was asked for since.
func (k *Known) About(topic string, since time.Time) (_ *kmsg.MetadataResponse, asked time.Time) {
	if k == nil {
		return nil, time.Time{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	t, ok := k.topics[topic]
	if !ok || t.at.Before(since) {
		return nil, time.Time{}
	}
	m := kmsg.NewPtrMetadataResponse()
	m.Brokers, m.Topics = t.brokers, []kmsg.MetadataResponseTopic{t.topic}
	return m, t.at
}

// address is where a broker listens, empty if no answer has said so.
func (k *Known) address(broker int32) string {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.brokers[broker]
}

// Listening are the brokers that are alive by the last answer, in order; none if that
// was asked for before.
func (k *Known) Listening(since time.Time) []int32 {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answered.Before(since) {
		return nil
	}
	return slices.Sorted(slices.Values(k.alive))
}

func addressOf(b kmsg.MetadataResponseBroker) string {
	return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
}
