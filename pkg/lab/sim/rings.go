// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
	"github.com/berth-project/berth/pkg/wire"
)

// rings are what goes wrong with rings now, on their way through the broker.
type rings struct {
	mu  sync.Mutex
	now []*ringing
	ids map[[16]byte]string // topics by id: newer requests do not say the name
}

// ringing is one thing that is wrong with rings.
type ringing struct {
	schedule.Fault
	came func() // it takes place
	once sync.Once
	down atomic.Bool // dead: the host was killed
}

func (x *ringing) hit() { x.once.Do(x.came) }

// about says whether it is about a host's stream.
func (x *ringing) about(topic string) bool {
	return x.Who == "hosts" || topic == wire.Topics{Prefix: prefix}.Host(compute.HostID(x.Who))
}

// ring has something go wrong with rings for as long as the fault says.
func (w *play) ring(f schedule.Fault) {
	switch f.Key {
	case schedule.RingManagers:
		w.apart(f)
	case schedule.RingWrong:
		w.ringWrongly(f)
	default:
		x := &ringing{Fault: f, came: func() { w.rec.CountFault(f) }}
		w.learnTopics()
		w.rings.mu.Lock()
		w.rings.now = append(w.rings.now, x)
		w.rings.mu.Unlock()
		w.lasts(f.For, x.down.Load)
		w.after(f.For.Duration(), func() { w.rings.end(x) })
	}
}

func (r *rings) end(x *ringing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, y := range r.now {
		if x == y {
			r.now = append(r.now[:i:i], r.now[i+1:]...)
			return
		}
	}
}

// learnTopics asks the broker which topics there are.
func (w *play) learnTopics() {
	resp, err := w.metadata()
	if err != nil {
		return // the broker is away, and so are rings
	}
	w.rings.mu.Lock()
	defer w.rings.mu.Unlock()
	w.rings.ids = map[[16]byte]string{}
	for _, t := range resp.Topics {
		if t.Topic != nil {
			w.rings.ids[t.TopicID] = *t.Topic
		}
	}
}

// produced sees what is written to the broker, and changes rings on their way. It
// runs in the broker's own goroutine, so what it starts goes on by itself.
func (w *play) produced(req kmsg.Request) {
	w.rings.mu.Lock()
	defer w.rings.mu.Unlock()
	if len(w.rings.now) == 0 {
		return
	}
	topics := wire.Topics{Prefix: prefix}
	for _, t := range req.(*kmsg.ProduceRequest).Topics {
		name, known := w.rings.ids[t.TopicID]
		if !known {
			name = t.Topic
		}
		host, is := topics.HostOf(name)
		if !is && name != topics.Hosts() {
			continue
		}
		for i := range t.Partitions {
			p := &t.Partitions[i]
			recs := decoded(name, p.Records)
			if !is {
				w.beacons(recs)
			} else if looks := looksIn(recs); len(looks) > 0 {
				w.passing(name, host, looks, recs, &p.Records)
			}
		}
	}
}

// beacons kills the hosts that are to die as soon as their beacon is there.
func (w *play) beacons(recs []*kgo.Record) {
	for _, rec := range recs {
		for _, x := range w.rings.now {
			p := w.procs[string(rec.Key)]
			if x.Key != schedule.RingDead || string(rec.Key) != x.Who || p == nil || x.down.Swap(true) {
				continue
			}
			l := p.current()
			w.after(0, func() {
				w.rec.AddNote(p.name, "is killed behind its beacon")
				p.down(l, "", x.By.Duration(), "is started")
			})
		}
	}
}

// passing has rings go wrong that are on their way to a host.
func (w *play) passing(topic string, host compute.HostID, looks []compute.Command, recs []*kgo.Record, batch *[]byte) {
	for _, x := range w.rings.now {
		if !x.about(topic) {
			continue
		}
		switch x.Key {
		case schedule.RingLost:
			*batch = swallowed(*batch, recs)
			x.hit()
		case schedule.RingLate:
			*batch = swallowed(*batch, recs)
			w.again(topic, looks, x.By.Duration())
			x.hit()
		case schedule.RingDoubled:
			w.again(topic, looks, x.By.Duration())
			x.hit()
		case schedule.RingDead:
			if p := w.procs[string(host)]; p != nil && x.down.Load() && p.current() == nil {
				x.hit()
			}
		}
	}
}

// again sends rings, later. What is sent so is not changed on its way: it would come
// back for ever.
func (w *play) again(topic string, looks []compute.Command, d time.Duration) {
	recs := make([]wire.Record, len(looks))
	for i, c := range looks {
		c.At = ours(c.At)
		recs[i] = wire.EncodeCommand(c).To(topic, 0)
	}
	w.after(d, func() {
		ctx, cancel := context.WithTimeout(w.ours.Life, askTime)
		defer cancel()
		_ = w.clients.producer.Send(ctx, recs...) // one that the broker does not take is lost
	})
}

// ours marks the time of a ring that the simulation sends.
func ours(t time.Time) time.Time { return t.Truncate(time.Microsecond).Add(time.Nanosecond) }

// decoded are the records of a batch that is on its way to the broker.
func decoded(topic string, batch []byte) []*kgo.Record {
	var part kmsg.FetchResponseTopicPartition
	part.RecordBatches = batch
	opts := kgo.ProcessFetchPartitionOpts{Topic: topic}
	read, _ := kgo.ProcessFetchPartition(opts, &part, kgo.DefaultDecompressor(), nil)
	return read.Records
}

// looksIn are the commands of a batch, if all of them are rings of a queue manager.
func looksIn(recs []*kgo.Record) (looks []compute.Command) {
	for _, rec := range recs {
		c, err := wire.DecodeCommand(wire.Record{Topic: rec.Topic, Key: rec.Key, Value: rec.Value})
		if err != nil || c.Op != compute.CommandLook || c.At.Nanosecond()%1000 == 1 {
			return nil
		}
		looks = append(looks, c)
	}
	return looks
}

// batchHeader is how long the head of a batch is, before its records.
const batchHeader = 61

// swallowed is a batch of which no reader gets a record: each lies, by its own word,
// far before the batch, where a reader has been already. The broker counts it all the
// same, so that its producer hears nothing and its numbers go on.
func swallowed(batch []byte, recs []*kgo.Record) []byte {
	out := append([]byte(nil), batch[:batchHeader]...)
	for _, rec := range recs {
		r := kmsg.Record{OffsetDelta: -1 << 30, Key: rec.Key, Value: rec.Value}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // of a length of 0, which takes a byte
		out = r.AppendTo(out)
	}
	const notPacked, checked = 0x07, 21
	out[22] &^= notPacked
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[checked:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// apart keeps the queue manager that works from its group. It goes on writing until
// it notices, and the other is elected meanwhile.
func (w *play) apart(f schedule.Fault) {
	p := w.writing()
	if p == nil {
		return
	}
	l := p.current()
	w.rec.AddNote(p.name, "does not reach its group")
	l.Link.Group.Close()
	w.lasts(f.For, nil)
	began := time.Now()
	w.after(f.For.Duration(), l.Link.Group.Reopen)
	w.laid.lay(f, func() bool { return l.Link.Wrote.Load() > began.UnixNano() && w.another(p, began) })
}

// writing is the queue manager that wrote last: advice comes every few seconds.
func (w *play) writing() (last *process) {
	latest := int64(0)
	for _, p := range w.order {
		if l := p.current(); l != nil && strings.HasPrefix(p.name, "queues-") && l.Link.Wrote.Load() > latest {
			last, latest = p, l.Link.Wrote.Load()
		}
	}
	return last
}

// another says whether another queue manager has written since.
func (w *play) another(not *process, since time.Time) bool {
	for _, p := range w.order {
		l := p.current()
		if l != nil && p != not && strings.HasPrefix(p.name, "queues-") && l.Link.Wrote.Load() > since.UnixNano() {
			return true
		}
	}
	return false
}

// ringWrongly rings every host although it is no queue manager: for queues that are not there, that
// nothing is in, and that do not fit the host.
func (w *play) ringWrongly(f schedule.Fault) {
	random := rand.New(rand.NewPCG(w.Seed, 9))
	booted, queues := w.Booted(), append(w.World.Queues(w.World.Flavors), "m1.nowhere", "m9.gone.gpu-none")
	var recs []wire.Record
	for _, h := range w.World.Hosts {
		for range f.Nth {
			look := compute.Look{Queue: queues[random.IntN(len(queues))]}
			if len(booted) > 0 && random.IntN(3) == 0 {
				look.Queue = booted[random.IntN(len(booted))] // where work may come
			}
			if random.IntN(3) == 0 {
				look.Hold = time.Duration(random.IntN(60)) * time.Second
			}
			c := compute.Command{Op: compute.CommandLook, Look: &look, At: ours(time.Now())}
			recs = append(recs, wire.EncodeCommand(c).To(wire.Topics{Prefix: prefix}.Host(h.ID), 0))
		}
	}
	w.lasts(f.For, nil)
	ctx, cancel := context.WithTimeout(w.ours.Life, askTime)
	defer cancel()
	if err := w.clients.producer.Send(ctx, recs...); err == nil {
		w.rec.CountFault(f)
	}
}
