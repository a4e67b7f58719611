// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/wire"
)

// kgo asks for the leaders of all topics that it ever wrote to, and for as long as one of them is missing it asks again
// as soon as it may: ten times a second (MetadataMinAge), for the rest of the process's life. Queues and hosts' streams
// go when nobody writes to them any more, so it is looked for those that are gone.
//
// A topic that is there must not be forgotten: what kgo knows of it are its sequence numbers, too. They would begin
// anew under the same producer id, and a broker that still has the first batches in mind takes the next ones for
// repetitions: it acknowledges them and writes nothing. But a broker that is cut off from the controller says of a new
// topic that there is none. So one that was forgotten is written to by a client of its own from then on, which has
// another producer id.

const (
	// lookEvery is how often topics are looked for that nobody has written to for as long.
	lookEvery = time.Minute
	// keepOwn is how long a client that has one topic to itself is kept where nobody writes to that.
	keepOwn = 10 * time.Minute
)

// use is how a topic is written to.
type use struct {
	under int // records under way
	last  time.Time
}

// mayGo says whether a topic is one that goes in the life of a cell.
func mayGo(t wire.Topics, topic string) bool {
	_, build := t.QueueOf(topic)
	_, host := t.HostOf(topic)
	return build || host
}

// begins notes that a record is under way. The first for a topic that may go begins the looks. p.mu is held.
func (p *Producer) begins(topic string) {
	if !mayGo(p.cfg.Topics, topic) {
		return
	}
	if p.uses == nil {
		p.uses = map[string]*use{}
		p.running.Go(p.lookForGone)
	}
	if p.uses[topic] == nil {
		p.uses[topic] = &use{}
	}
	p.uses[topic].under++
}

// ends notes that a record fared somehow. p.mu is held.
func (p *Producer) ends(topic string) {
	if u := p.uses[topic]; u != nil {
		u.under--
		u.last = time.Now()
	}
}

func (p *Producer) lookForGone() {
	for pace.Sleep(p.ctx, lookEvery) == nil {
		for _, topic := range p.missing(p.idle()) {
			p.forgetIdle(topic)
		}
		p.closeIdle()
	}
}

// idle are topics that nothing is under way to, nor was lately.
func (p *Producer) idle() (topics []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic, u := range p.uses {
		if u.idle(lookEvery) {
			topics = append(topics, topic)
		}
	}
	return topics
}

func (u *use) idle(long time.Duration) bool { return u.under == 0 && time.Since(u.last) >= long }

// missing are those of some topics that a broker says are not there; none if it does not answer: the next look will do.
func (p *Producer) missing(topics []string) (gone []string) {
	if len(topics) == 0 {
		return nil
	}
	req := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.tries)
	defer cancel()
	m, err := req.RequestWith(ctx, p.client.Load())
	if err != nil {
		return nil
	}
	for _, t := range m.Topics {
		if t.Topic != nil && t.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			gone = append(gone, *t.Topic)
		}
	}
	return gone
}

// forgetIdle forgets a topic unless somebody has written to it meanwhile.
func (p *Producer) forgetIdle(topic string) {
	p.mu.Lock()
	u := p.uses[topic]
	still := u != nil && u.idle(lookEvery)
	if still {
		delete(p.uses, topic)
	}
	p.mu.Unlock()
	if still {
		p.forget(topic, func() {})
	}
}

// clientFor is the client that writes to a topic.
func (p *Producer) clientFor(topic string) *kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, forgotten := p.own[topic]
	if !forgotten || p.ctx.Err() != nil {
		return p.client.Load()
	}
	if own == nil {
		var err error
		if own, err = p.connect(); err != nil {
			return p.client.Load() // the settings were good enough once
		}
		p.own[topic] = own
	}
	return own
}

// disown has the next record for a topic written by another client than before.
func (p *Producer) disown(topic string) {
	p.mu.Lock()
	own := p.own[topic]
	p.own[topic] = nil
	p.mu.Unlock()
	if own != nil {
		own.Close()
	}
}

// closeIdle ends the clients that have a topic to themselves to which nobody writes.
func (p *Producer) closeIdle() {
	var idle []*kgo.Client
	p.mu.Lock()
	for topic, own := range p.own {
		if u := p.uses[topic]; own != nil && (u == nil || u.idle(keepOwn)) {
			idle, p.own[topic] = append(idle, own), nil
		}
	}
	p.mu.Unlock()
	for _, own := range idle {
		own.Close()
	}
}

// has says whether a client has a topic to itself.
func (p *Producer) has(topic string, client *kgo.Client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own[topic] == client
}

// owned are the clients that have topics to themselves.
func (p *Producer) owned() (all []*kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, own := range p.own {
		if own != nil {
			all = append(all, own)
		}
	}
	return all
}
