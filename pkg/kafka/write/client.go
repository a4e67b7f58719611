// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/service"
)

// A client that was once refused a producer id fails whatever it is given from
// then on, also when Kafka would give it one by now. So the producer takes another.

// replaceEvery is how soon a client is replaced after the one before it, and how
// soon it is nudged; longer each time, as long as nothing is written.
const replaceEvery = time.Second

// replacePause is how long to wait before the n-th time in vain, from 0: 1, 2, 4,
// 8 s, a part of it by chance.
func replacePause(n int) time.Duration { return service.Jitter(replaceEvery << min(n, 3)) }

// replace takes a new client if the one that refused something is of no more use, then calls told, with whether to
// try again. Many are refused at once, and hear of it one by one: a record that is refused after the client was
// replaced is tried again at once. It cannot be closed from within its own callback.
func (p *Producer) replace(refused *kgo.Client, told func(again bool)) {
	p.mu.Lock()
	if p.client.Load() != refused {
		p.mu.Unlock()
		told(true)
		return
	}
	defer p.mu.Unlock()
	running := len(p.replacing) > 0
	p.replacing = append(p.replacing, told)
	if running {
		return
	}
	p.running.Go(func() {
		again := p.swap(refused)
		p.mu.Lock()
		waiting := p.replacing
		p.replacing = nil
		p.mu.Unlock()
		for _, told := range waiting {
			told(again)
		}
	})
}

// swap puts a new client in the place of one that was refused a producer id for good, and says whether to try again.
// A process that is not allowed to have one is told so at once; the rest passes, perhaps.
func (p *Producer) swap(old *kgo.Client) (again bool) {
	_, _, err := old.ProducerID(p.ctx) // one that has none yet asks for it
	if !isRefusal(err) {
		return false
	}
	left := time.Until(p.notBefore)
	if kafka.IsForbidden(err) && left > 0 || pace.Sleep(p.ctx, left) != nil {
		return false
	}
	client, err2 := p.connect()
	if err2 != nil {
		return false // the settings were good enough once
	}
	p.mu.Lock()
	closed := p.ctx.Err() != nil
	if !closed {
		if p.proven.Load() == old {
			p.vain = 0
		}
		p.notBefore = time.Now().Add(replacePause(p.vain))
		p.vain++
		p.client.Store(client)
		p.nudge(client)
	}
	p.mu.Unlock()
	if closed {
		client.Close()
		return false
	}
	old.Close() // what still lies in it fails, and is given to the new one
	return !kafka.IsForbidden(err)
}

// nudge has a client look again at what it was given, until it has written something. A record that comes while kgo
// fails others for the want of a producer id lies there until the client asks for the leaders the next time: five
// minutes, where nothing else moves it.
func (p *Producer) nudge(client *kgo.Client) {
	p.running.Go(func() {
		mute := func() bool { return p.client.Load() == client && p.proven.Load() != client }
		for n := 0; pace.Sleep(p.ctx, replacePause(n)) == nil && mute(); {
			if client.BufferedProduceRecords() > 0 {
				client.ForceMetadataRefresh()
				n++
			}
		}
	})
}

// isRefusal says that an error is a broker's, and one that the client does not
// try again after.
func isRefusal(err error) bool {
	var code *kerr.Error
	return errors.As(err, &code) && !code.Retriable
}
