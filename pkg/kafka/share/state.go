// SPDX-License-Identifier: Apache-2.0

package share

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/wire"
)

// sessionState is one share session as its broker must see it: which member asks, which request comes next, which
// topics are listed, what is held. It decides what requests say and does nothing else.
//
//	        fetch answered              lost (any error)
//	new ───────────────────▶ open ─────────────────────────▶ new, incarnation+1
//	epoch 0: names all       epoch 1, 2, …: names what changed
type sessionState struct {
	group, member string

	incarnation uint64 // of this session, from 1: one more each time it is lost
	epoch       int32  // of the next request; 0 opens the session
	listed      map[topicUUID]bool
	held        map[delivery]bool     // acquired, and no more than renewed since
	acks        map[delivery]wire.Ack // to be sent
}

// topicUUID is the id of one incarnation of a topic, as on the wire.
type topicUUID [16]byte

// delivery is one record of a queue topic, which has one partition.
type delivery struct {
	topic  topicUUID
	offset int64
}

const (
	// finalEpoch ends a session.
	finalEpoch int32 = -1
	// fetchBytes is of one answer: the largest record from each of many queues.
	fetchBytes = 50 << 20
	// strict makes a broker acquire no more records than it is asked for.
	strict = 1
	// ackGap says that there is no record at an acquired offset.
	ackGap wire.Ack = 0
)

func newSessionState(group string) *sessionState {
	s := &sessionState{group: group}
	s.lose()
	return s
}

// lose begins a new session, which holds nothing, and answers how many acks
// are dropped with the old one.
func (s *sessionState) lose() int {
	dropped := len(s.acks)
	s.incarnation++
	s.epoch = 0
	s.listed, s.held, s.acks = map[topicUUID]bool{}, map[delivery]bool{}, map[delivery]wire.Ack{}
	return dropped
}

// answered counts a request that the broker took part in.
func (s *sessionState) answered() {
	if s.epoch == math.MaxInt32 {
		s.epoch = 0
	}
	s.epoch++
}

// acquire notes that a record is held.
func (s *sessionState) acquire(d delivery) { s.held[d] = true }

// ack notes what becomes of a held record. The last word counts until it is
// sent, but nothing follows an accept, release or reject. It answers false if
// the record is not held.
func (s *sessionState) ack(incarnation uint64, d delivery, how wire.Ack) bool {
	if incarnation != s.incarnation || !s.held[d] {
		return false
	}
	s.acks[d] = how
	if how != wire.AckRenew {
		delete(s.held, d)
	}
	return true
}

// renewing says whether a renewal waits: it cannot go with a fetch.
func (s *sessionState) renewing() bool {
	for _, how := range s.acks {
		if how == wire.AckRenew {
			return true
		}
	}
	return false
}

// fetch makes the request that fetches one record from these topics, and takes
// the acks that wait with it. Its answer must be told to fetched. It must not
// be called while a renewal waits.
func (s *sessionState) fetch(topics []topicUUID, wait time.Duration) (*kmsg.ShareFetchRequest, sentAcks) {
	req := kmsg.NewPtrShareFetchRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &s.group, &s.member, s.epoch
	req.MaxWaitMillis = int32(wait.Milliseconds())
	req.MinBytes, req.MaxBytes = 1, fetchBytes
	req.MaxRecords, req.BatchSize, req.ShareAcquireMode = 1, 1, strict

	want := setOf(topics)
	acks := s.takeAcks()
	for _, t := range sorted(want, acks, s.listed) {
		if want[t] && !s.listed[t] || len(acks[t]) > 0 {
			rp := kmsg.NewShareFetchRequestTopicPartition()
			rp.AcknowledgementBatches = fetchBatches(acks[t])
			rt := kmsg.NewShareFetchRequestTopic()
			rt.TopicID, rt.Partitions = t, []kmsg.ShareFetchRequestTopicPartition{rp}
			req.Topics = append(req.Topics, rt)
		}
		if !want[t] {
			// A topic that is named for its acks alone is listed by that: the
			// broker adds first, then forgets.
			rf := kmsg.NewShareFetchRequestForgottenTopicsData()
			rf.TopicID, rf.Partitions = t, []int32{0}
			req.ForgottenTopicsData = append(req.ForgottenTopicsData, rf)
		}
	}
	return req, count(acks)
}

// fetched tells that a fetch of these topics was answered.
func (s *sessionState) fetched(topics []topicUUID) {
	s.listed = setOf(topics)
	s.answered()
}

// acknowledge makes the request that sends the acks that wait, nil if there
// are none. Its answer must be told to answered.
func (s *sessionState) acknowledge() (*kmsg.ShareAcknowledgeRequest, sentAcks) {
	if len(s.acks) == 0 {
		return nil, nil
	}
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID, req.MemberID, req.ShareSessionEpoch = &s.group, &s.member, s.epoch
	req.IsRenewAck = s.renewing()
	acks := s.takeAcks()
	for _, t := range sorted(nil, acks, nil) {
		rp := kmsg.NewShareAcknowledgeRequestTopicPartition()
		rp.AcknowledgementBatches = acks[t]
		rt := kmsg.NewShareAcknowledgeRequestTopic()
		rt.TopicID, rt.Partitions = t, []kmsg.ShareAcknowledgeRequestTopicPartition{rp}
		req.Topics = append(req.Topics, rt)
	}
	return req, count(acks)
}

// end makes the request that ends the session and releases what it holds, nil
// if it was never opened. The broker by itself releases only what comes from
// topics that are still listed.
func (s *sessionState) end() *kmsg.ShareAcknowledgeRequest {
	if s.epoch == 0 {
		return nil
	}
	for d := range s.held {
		s.acks[d] = wire.AckRelease
	}
	req, _ := s.acknowledge()
	if req == nil {
		req = kmsg.NewPtrShareAcknowledgeRequest()
		req.GroupID, req.MemberID = &s.group, &s.member
	}
	req.ShareSessionEpoch = finalEpoch
	return req
}

// sentAcks is how many acks a request carries, by topic.
type sentAcks map[topicUUID]uint64

func (s sentAcks) all() uint64 {
	var n uint64
	for _, acks := range s {
		n += acks
	}
	return n
}

func count(acks map[topicUUID][]ackBatch) sentAcks {
	sent := make(sentAcks, len(acks))
	for t, batches := range acks {
		sent[t] = uint64(len(batches))
	}
	return sent
}

type ackBatch = kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch

// takeAcks takes the acks that wait, one batch each, ascending in each topic.
func (s *sessionState) takeAcks() map[topicUUID][]ackBatch {
	order := slices.SortedFunc(maps.Keys(s.acks), func(a, b delivery) int { return int(a.offset - b.offset) })
	taken := map[topicUUID][]ackBatch{}
	for _, d := range order {
		b := kmsg.NewShareAcknowledgeRequestTopicPartitionAcknowledgementBatch()
		b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = d.offset, d.offset, []int8{int8(s.acks[d])}
		taken[d.topic] = append(taken[d.topic], b)
	}
	clear(s.acks)
	return taken
}

func fetchBatches(acks []ackBatch) []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch {
	var batches []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch
	for _, a := range acks {
		b := kmsg.NewShareFetchRequestTopicPartitionAcknowledgementBatch()
		b.FirstOffset, b.LastOffset, b.AcknowledgeTypes = a.FirstOffset, a.LastOffset, a.AcknowledgeTypes
		batches = append(batches, b)
	}
	return batches
}

func setOf(topics []topicUUID) map[topicUUID]bool {
	set := make(map[topicUUID]bool, len(topics))
	for _, t := range topics {
		set[t] = true
	}
	return set
}

// sorted is every topic in any of them, once, so that a request is the same
// each time it is made of the same things.
func sorted(want map[topicUUID]bool, acks map[topicUUID][]ackBatch, listed map[topicUUID]bool) []topicUUID {
	all := maps.Clone(listed)
	if all == nil {
		all = map[topicUUID]bool{}
	}
	maps.Copy(all, want)
	for t := range acks {
		all[t] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b topicUUID) int { return bytes.Compare(a[:], b[:]) })
}
