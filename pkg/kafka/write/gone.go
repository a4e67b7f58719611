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

// clientFor is the client that writes to a topic; own says that it has nothing else to write to. The
// caller gives it a record, and says so (given).
func (p *Producer) clientFor(topic string) (client *kgo.Client, own bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	its, forgotten := p.own[topic]
	if forgotten && its == nil && p.ctx.Err() == nil {
		its, _ = p.connect() // the settings were good enough once
		p.own[topic] = its
	}
	if its == nil {
		p.giving[topic]++
		return p.client.Load(), false
	}
	return its, true
}

// given says that a client of clientFor was given a record.
func (p *Producer) given(topic string, own bool) {
	if own {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.giving[topic]--; p.giving[topic] == 0 {
		delete(p.giving, topic)
		p.gave.Broadcast()
	}
}

// disown has what is given for a topic from now on written by another client than before, if anything may have been
// written to it: before that there are no sequence numbers.
func (p *Producer) disown(topic string) {
	p.mu.Lock()
	its := p.own[topic]
	if p.wrote[topic] {
		for p.own[topic] = nil; p.giving[topic] > 0; {
			p.gave.Wait() // what was given before is in its client then
		}
	}
	p.mu.Unlock()
	if its != nil {
		its.Close()
	}
}

// drop ends a client that has a topic to itself and is of no more use.
func (p *Producer) drop(topic string, client *kgo.Client) {
	p.mu.Lock()
	if p.own[topic] == client {
		p.own[topic] = nil
	}
	p.mu.Unlock()
	client.Close()
}

// closeIdle ends the clients that have a topic to themselves to which nobody writes. The cell's own topics keep theirs.
func (p *Producer) closeIdle() {
	var idle []*kgo.Client
	p.mu.Lock()
	for topic, its := range p.own {
		if u := p.uses[topic]; its != nil && u != nil && u.idle(keepOwn) {
			idle, p.own[topic] = append(idle, its), nil
		}
	}
	p.mu.Unlock()
	for _, its := range idle {
		its.Close()
	}
}

// owned are the clients that have topics to themselves.
func (p *Producer) owned() (all []*kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, its := range p.own {
		if its != nil {
			all = append(all, its)
		}
	}
	return all
}
