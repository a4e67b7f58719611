// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/pace"
)

// silentBrokers watches for brokers that owe a client answers and say nothing. When the others no longer count such a
// broker among the living, its connections are closed, and kgo asks for the leaders. A frozen broker's connections
// stay open, and a producer would wait for its answer for twenty seconds and more; a killed one's are closed by its
// machine.
type silentBrokers struct {
	ends context.CancelFunc
	ctx  context.Context

	mu       sync.Mutex
	client   *kgo.Client
	brokers  map[int32]*brokerAnswers
	checking bool
	asked    int // how often others were asked since nobody owed anything for long
}

// brokerAnswers is a broker as far as a client is connected to it.
type brokerAnswers struct {
	conns []net.Conn
	open  int       // requests without an answer
	since time.Time // it has said nothing since then though it was asked; zero: it owes nothing
}

func watchSilence() *silentBrokers {
	s := &silentBrokers{brokers: map[int32]*brokerAnswers{}}
	s.ctx, s.ends = context.WithCancel(context.Background())
	return s
}

// OnNewClient takes note of the client that these connections are of.
func (s *silentBrokers) OnNewClient(cl *kgo.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = cl
}

// OnClientClosed ends what is being asked.
func (s *silentBrokers) OnClientClosed(*kgo.Client) { s.ends() }

// OnBrokerConnect counts a connection in. Those to a broker without a known number carry only the question which
// brokers there are.
func (s *silentBrokers) OnBrokerConnect(to kgo.BrokerMetadata, _ time.Duration, c net.Conn, err error) {
	if err != nil || to.NodeID < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.brokers[to.NodeID]
	if d == nil {
		d = &brokerAnswers{}
		s.brokers[to.NodeID] = d
	}
	d.conns = append(d.conns, c)
}

// OnBrokerDisconnect counts it out, with what it was to bring.
func (s *silentBrokers) OnBrokerDisconnect(to kgo.BrokerMetadata, c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.brokers[to.NodeID]
	if d == nil {
		return
	}
	d.conns = slices.DeleteFunc(d.conns, func(x net.Conn) bool { return x == c })
	d.open, d.since = 0, time.Time{}
	if len(d.conns) == 0 {
		delete(s.brokers, to.NodeID)
	}
}

// OnBrokerWrite notes that an answer is due.
func (s *silentBrokers) OnBrokerWrite(to kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	s.note(to, key, err, func(d *brokerAnswers) {
		d.open++
		if d.since.IsZero() {
			d.since = time.Now()
		}
		s.watch()
	})
}

// OnBrokerRead notes that the broker lives.
func (s *silentBrokers) OnBrokerRead(to kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	s.note(to, key, err, func(d *brokerAnswers) {
		d.open, d.since = max(0, d.open-1), time.Time{}
		if d.open > 0 {
			d.since = time.Now()
		}
	})
}

// note changes what is known of a broker that a request went to, or an answer
// came from, unless its answers say nothing about it.
func (s *silentBrokers) note(to kgo.BrokerMetadata, key int16, err error, change func(*brokerAnswers)) {
	if err != nil || polls(key) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.brokers[to.NodeID]; d != nil {
		change(d)
	}
}

// polls says that a request's answer may take its time. Readers and pullers watch theirs themselves.
func polls(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.Fetch, kmsg.ShareFetch, kmsg.ShareAcknowledge, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.ApiVersions:
		return true
	}
	return false
}

// watch looks at the silent brokers after a while, again and again until there are
// none. The caller holds the lock.
func (s *silentBrokers) watch() {
	if s.checking || s.ctx.Err() != nil {
		return
	}
	s.checking = true
	time.AfterFunc(pace.Patience+pace.Overdue(s.asked), s.check)
}

func (s *silentBrokers) check() {
	suspects, client := s.suspects(time.Now())
	s.mu.Lock()
	if s.asked++; len(suspects) == 0 {
		s.asked = 0
	}
	s.mu.Unlock()
	if len(suspects) > 0 {
		alive := living(s.ctx, client)
		for _, id := range suspects {
			if alive != nil && !slices.Contains(alive, id) {
				s.drop(id)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checking = false
	for _, d := range s.brokers {
		if !d.since.IsZero() {
			s.watch()
			return
		}
	}
}

// suspects are the brokers that have been silent too long.
func (s *silentBrokers) suspects(now time.Time) (ids []int32, client *kgo.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, d := range s.brokers {
		if !d.since.IsZero() && now.Sub(d.since) >= pace.Patience {
			ids = append(ids, id)
		}
	}
	return ids, s.client
}

// drop closes what leads to a broker. Its answers never come; each request that waits for one ends with the
// connection.
func (s *silentBrokers) drop(id int32) {
	s.mu.Lock()
	var conns []net.Conn
	if d := s.brokers[id]; d != nil && !d.since.IsZero() {
		conns = slices.Clone(d.conns)
	}
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // it is of no use
	}
}

// living asks several brokers, for one of them may be the silent one, which are
// alive, and takes the first answer; nil: there was none. A broker that is alone
// cannot tell on itself.
func living(ctx context.Context, client *kgo.Client) []int32 {
	const most = 3
	several := min(most, len(client.DiscoveredBrokers()))
	if several < 2 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pace.AskTimeout)
	defer cancel()
	answers := make(chan []int32, most)
	for range several { // the client takes brokers in turn
		go func() {
			req := kmsg.NewPtrMetadataRequest()
			req.Topics = []kmsg.MetadataRequestTopic{} // none, where nil is all
			resp, err := req.RequestWith(ctx, Prompt(client))
			if err != nil {
				answers <- nil
				return
			}
			ids := []int32{}
			for _, b := range resp.Brokers {
				ids = append(ids, b.NodeID)
			}
			answers <- ids
		}()
	}
	for range several {
		if alive := <-answers; len(alive) > 0 {
			return alive
		}
	}
	return nil
}
