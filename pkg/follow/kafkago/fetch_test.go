// SPDX-License-Identifier: Apache-2.0

package kafkago

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/berth-project/berth/pkg/follow"
)

// far answers as a transport does: with the leaders that it knows, and with the records of the one that leads.
type far struct {
	leaders []int32          // of partitions 0, 1, …
	epoch   int32            // of all
	fails   bool             // instead of an answer which brokers lead
	ended   bool             // its connections were closed, and no question was asked since
	during  func()           // if not nil: what happens while it is asked for records
	turn    map[int32]int32  // which broker leads once records were asked for
	bad     map[int32]bool   // partitions of which an answer cannot be read
	asked   []map[int32]bool // for records
}

func (f *far) RoundTrip(_ context.Context, _ net.Addr, req kafka.Request) (kafka.Response, error) {
	f.ended = false
	switch req := req.(type) {
	case *metadata.Request:
		if f.fails {
			return nil, errors.New("no such topic")
		}
		t := metadata.ResponseTopic{Name: req.TopicNames[0]}
		for p, leader := range f.leaders {
			t.Partitions = append(t.Partitions, metadata.ResponsePartition{
				PartitionIndex: int32(p), LeaderID: leader, LeaderEpoch: f.epoch,
			})
		}
		return &metadata.Response{Topics: []metadata.ResponseTopic{t}}, nil
	case *fetch.Request:
		return f.fetch(req), nil
	}
	return nil, errors.New("not known")
}

func (f *far) CloseIdleConnections() { f.ended = true }

func (f *far) fetch(req *fetch.Request) *fetch.Response {
	t, asked := fetch.ResponseTopic{Topic: req.Topics[0].Topic}, map[int32]bool{}
	for _, p := range req.Topics[0].Partitions {
		asked[p.Partition] = true
		var batch protocol.RecordReader = &protocol.RecordBatch{
			BaseOffset: p.FetchOffset, Records: protocol.NewRecordReader(protocol.Record{Offset: p.FetchOffset}),
		}
		if f.bad[p.Partition] {
			batch = protocol.NewRecordReader() // of no batch that is known
		}
		t.Partitions = append(t.Partitions, fetch.ResponsePartition{
			Partition: p.Partition, HighWatermark: 9, LastStableOffset: 9,
			RecordSet: protocol.RecordSet{Records: &protocol.RecordStream{Records: []protocol.RecordReader{batch}}},
		})
	}
	for p, leader := range f.turn {
		f.leaders[p] = leader
	}
	f.asked = append(f.asked, asked)
	if f.during != nil {
		f.during()
	}
	return &fetch.Response{Topics: []fetch.ResponseTopic{t}}
}

// fetched is what a question to broker 1 brings.
func (f *far) fetched(t *testing.T, from map[int32]int64) map[int32]follow.Part {
	t.Helper()
	a := &adapter{addr: kafka.TCP("broker:9092"), via: f}
	parts, err := a.Fetch(t.Context(), 1, "instances", from, follow.Room{Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	by := map[int32]follow.Part{}
	for _, p := range parts {
		by[p.Partition] = p
	}
	if len(by) != len(from) || len(parts) != len(from) {
		t.Errorf("%d answers about %d of %d partitions", len(parts), len(by), len(from))
	}
	return by
}

// kafka-go asks the leader that it knows, whichever is meant. What another answers is not handed over: the follower
// must look first whether its log is the one that was read.
func TestAnotherLeads(t *testing.T) {
	for name, f := range map[string]*far{
		"before":    {leaders: []int32{2, 1}},
		"meanwhile": {leaders: []int32{1, 1}, turn: map[int32]int32{0: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			parts := f.fetched(t, map[int32]int64{0: 5, 1: 7})
			if parts[0].Code != 6 || len(parts[0].Spans) > 0 {
				t.Errorf("of another leader: %+v", parts[0])
			}
			if parts[1].Code != 0 || len(parts[1].Spans) != 1 {
				t.Errorf("of the one that was meant: %+v", parts[1])
			}
		})
	}
	f := &far{leaders: []int32{2, 2}}
	if parts := f.fetched(t, map[int32]int64{0: 5, 1: 7}); parts[0].Code != 6 || parts[1].Code != 6 || len(f.asked) > 0 {
		t.Errorf("of two others: %+v, having asked for %v", parts, f.asked)
	}
}

// What cannot be read of one partition says nothing about another.
func TestOnePartIsBad(t *testing.T) {
	f := &far{leaders: []int32{1, 1, 1}, bad: map[int32]bool{0: true, 1: true}}
	parts := f.fetched(t, map[int32]int64{0: 5, 1: 6, 2: 7})
	if parts[0].Err == nil || parts[1].Err == nil || parts[2].Err != nil || len(parts[2].Spans) != 1 {
		t.Errorf("%+v", parts)
	}
}

// A transport asks the broker that it has a connection to for as long as that lives. Another one that has heard of a
// newer leader takes its place, and no other does.
func TestABrokerThatIsCutOff(t *testing.T) {
	first, older := &far{leaders: []int32{1, 1}, epoch: 5}, &far{leaders: []int32{3, 3}, epoch: 4}
	newer := &far{leaders: []int32{1, 2}, epoch: 6}
	for _, other := range []*far{older, newer} {
		a := &adapter{addr: kafka.TCP("broker:9092"), own: first, fresh: func() transport { return other }}
		l, err := a.Leaders(t.Context(), "instances")
		taken := other == newer
		if err != nil || l.Epoch[1] != max(first.epoch, other.epoch) || other.ended == taken || first.ended != taken {
			t.Errorf("epoch %d: %+v, %v; ended: %v, the first %v", other.epoch, l, err, other.ended, first.ended)
		}
		if used, _ := a.used(); (used == other) != taken {
			t.Errorf("epoch %d: used for questions: %v", other.epoch, used)
		}
	}
}

// One that cannot say which brokers lead is replaced by one that can, or says so.
func TestABrokerThatKnowsNothing(t *testing.T) {
	knows := &far{leaders: []int32{1, 2}, epoch: 6}
	for _, other := range []*far{{fails: true}, knows} {
		a := &adapter{addr: kafka.TCP("broker:9092"), own: &far{fails: true}, fresh: func() transport { return other }}
		if l, err := a.Leaders(t.Context(), "instances"); (err == nil) != (other == knows) || err == nil && l.Of[1] != 2 {
			t.Errorf("the other fails: %v; %+v, %v", other.fails, l, err)
		}
	}
}

// A transport whose place is taken while it is asked something has no connection after that.
func TestATransportIsReplacedWhileItIsUsed(t *testing.T) {
	first, newer := &far{leaders: []int32{1}, epoch: 5}, &far{leaders: []int32{2}, epoch: 6}
	a := &adapter{addr: kafka.TCP("broker:9092"), own: first, fresh: func() transport { return newer }}
	first.during = func() {
		if _, err := a.Leaders(t.Context(), "instances"); err != nil || !first.ended {
			t.Errorf("replaced: %v, ended: %v", err, first.ended)
		}
	}
	if _, err := a.Fetch(t.Context(), 1, "instances", map[int32]int64{0: 5}, follow.Room{}); err != nil || !first.ended {
		t.Errorf("after the answer: %v, ended: %v", err, first.ended)
	}
	if used, _ := a.used(); used != newer || newer.ended {
		t.Errorf("used: %v, ended: %v", used, newer.ended)
	}
}
