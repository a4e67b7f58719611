// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
	"github.com/berth-project/berth/pkg/kafka/internal/retry"
)

// shareTimes are how long initialising share state may take.
type shareTimes struct {
	// all is the longest a call may go on: brokers that hear late of a topic, a
	// coordinator that moves, internal topics that are made on first use.
	all time.Duration
	// settle is how long a request without an answer may still be at work in a
	// broker: its share coordinator gives up writing after 5 s.
	settle time.Duration
}

func defaultShareTimes() shareTimes {
	return shareTimes{all: time.Minute, settle: 6 * time.Second}
}

// InitShareState makes the share state of these queues in a group, from the
// beginning of their topics, exactly once for each incarnation of a topic.
//
// Exactly once matters. AlterShareGroupOffsets on a queue that is in use answers that all is well, seems to do
// nothing, and at the next change of leader what had been acknowledged is delivered again. So the brokers are asked
// first, and only what they know nothing of is initialised; a request without an answer is not sent again before they
// have been asked again, after a time in which it is either done or dead.
//
// Two processes must not do this for the same queue at the same time: one
// could ask, sleep, and initialise what the other has put into use.
//
// It waits while brokers do not know the topics yet, up to a minute (KindUnavailable). A group with members is a
// KindConflict: a consumer that joined the agents' group must leave.
func (a *Admin) InitShareState(ctx context.Context, group string, queues []compute.QueueName) error {
	const op = "initialise share state"
	if len(queues) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.share.all)
	defer cancel()
	if err := a.configureGroup(ctx, group); err != nil {
		return err
	}
	for piece := range pieces(queues) {
		topics := make([]string, len(piece))
		for i, q := range piece {
			topics[i] = a.cfg.Topics.Build(q)
		}
		if err := a.initTopics(ctx, group, topics); err != nil {
			return a.cfg.Classify(op, err,
				access.To(access.Read, access.Group, group), access.ToAll(access.Read, access.Topic, a.cfg.Topics.Build("")),
			)
		}
	}
	return nil
}

// initTopics asks and initialises until nothing is left.
func (a *Admin) initTopics(ctx context.Context, group string, topics []string) error {
	left := topics
	log := a.cfg.Log.With(zap.String("group", group))
	_, err := retry.Do(ctx, log, "waiting to initialise share state", nil, func() (int, error) {
		states, err := a.describe(ctx, group, left)
		if err != nil {
			return 0, err
		}
		for _, t := range left {
			if err := states[t].err; err != nil {
				return 0, err // not known is not the same as not there
			}
		}
		left = slices.DeleteFunc(slices.Clone(left), func(t string) bool { return states[t].start >= 0 })
		if len(left) == 0 {
			return 0, nil
		}
		done, err := a.alter(ctx, group, left)
		left = slices.DeleteFunc(left, func(t string) bool { return done[t] })
		if err == nil && len(left) > 0 {
			err = kerr.UnknownTopicOrPartition
		}
		return 0, err
	})
	return err
}

// alter sets the start offset of topics to 0: one request, sent once. It
// answers for which topics that is done for sure, and for the others the
// error. An error that leaves open whether it was done comes late enough to
// ask.
func (a *Admin) alter(ctx context.Context, group string, topics []string) (map[string]bool, error) {
	broker, err := a.coordinator(ctx, group)
	if err != nil {
		return nil, err
	}
	kresp, err := a.client.Broker(int(broker)).Request(ctx, alterRequest(group, topics))
	if err != nil {
		return nil, errors.Join(err, pace.Sleep(ctx, a.share.settle))
	}
	resp := kresp.(*kmsg.AlterShareGroupOffsetsResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, a.refusedAlter(ctx, group, err)
	}
	done := map[string]bool{}
	var first error
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				first = cmpErr(first, err)
				continue
			}
			done[t.Topic] = true
		}
	}
	return done, a.refusedAlter(ctx, group, first)
}

func cmpErr(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

// refusedAlter says what a broker's error means, and waits where it may still
// be at work.
func (a *Admin) refusedAlter(ctx context.Context, group string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.NonEmptyGroup):
		return compute.Conflict("share group", group, "has members, and only an empty one can be initialised",
			"stop whatever consumes with this group id: agents pull without joining")
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.NotCoordinator),
		errors.Is(err, kerr.CoordinatorNotAvailable), errors.Is(err, kerr.CoordinatorLoadInProgress):
		return err // nothing was begun
	}
	return errors.Join(err, pace.Sleep(ctx, a.share.settle))
}

func alterRequest(group string, topics []string) *kmsg.AlterShareGroupOffsetsRequest {
	req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	req.GroupID = group
	for _, t := range topics {
		rt := kmsg.NewAlterShareGroupOffsetsRequestTopic()
		rt.Topic = t
		rp := kmsg.NewAlterShareGroupOffsetsRequestTopicPartition()
		rt.Partitions = append(rt.Partitions, rp) // partition 0, start offset 0
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// coordinator finds the broker that coordinates a group, and makes sure that
// the client can reach it by its number.
func (a *Admin) coordinator(ctx context.Context, group string) (int32, error) {
	if _, err := a.kadm.BrokerMetadata(ctx); err != nil {
		return 0, err
	}
	found := a.kadm.FindGroupCoordinators(ctx, group)[group]
	return found.NodeID, found.Err
}

// shareState is what a group knows of one queue.
type shareState struct {
	topic [16]byte
	start int64 // -1: nothing
	lag   int64 // -1: not known
	err   error
}

// describe asks what a group knows of queue topics.
func (a *Admin) describe(ctx context.Context, group string, topics []string) (map[string]shareState, error) {
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	rg := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	rg.GroupID = group
	for _, t := range topics {
		rt := kmsg.NewDescribeShareGroupOffsetsRequestGroupTopic()
		rt.Topic, rt.Partitions = t, []int32{0}
		rg.Topics = append(rg.Topics, rt)
	}
	req.Groups = append(req.Groups, rg)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return nil, err
	}
	states := make(map[string]shareState, len(topics))
	for _, t := range topics {
		states[t] = shareState{start: -1, lag: -1}
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return nil, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				states[t.Topic] = shareState{t.TopicID, p.StartOffset, p.Lag, kerr.ErrorForCode(p.ErrorCode)}
			}
		}
	}
	return states, nil
}
