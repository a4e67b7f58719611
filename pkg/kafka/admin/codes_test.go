// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/wire"
)

// A thing that is asked of an admin, on a cell with a queue "old".
type asked func(ctx context.Context, a *Admin) error

var old = []compute.QueueName{"old"}

func makesAQueue(ctx context.Context, a *Admin) error {
	_, err := a.EnsureQueueTopics(ctx, []compute.QueueName{"new"}, 1)
	return err
}

func findsAQueue(ctx context.Context, a *Admin) error {
	_, err := a.EnsureQueueTopics(ctx, old, 1)
	return err
}

func deletesAQueue(ctx context.Context, a *Admin) error {
	ids, err := a.EnsureQueueTopics(ctx, old, 1)
	if err != nil {
		return err
	}
	return a.DeleteQueueTopic(ctx, ids["old"])
}

func initialises(ctx context.Context, a *Admin) error { return a.InitShareState(ctx, "g", old) }

func asksHowFar(ctx context.Context, a *Admin) error {
	p, err := a.QueueProgress(ctx, []wire.QueueRef{{Name: "old", Group: "g"}})
	if err != nil {
		return err
	}
	return p[0].Err
}

func trims(ctx context.Context, a *Admin) error {
	return a.DeleteRecordsBelow(ctx, map[compute.QueueName]int64{"old": 0})
}

func counts(ctx context.Context, a *Admin) error {
	_, err := a.Partitions(ctx, a.cfg.Topics.Build("old"))
	return err
}

func asksForPositions(ctx context.Context, a *Admin) error {
	_, err := a.Committed(ctx, "readers", a.cfg.Topics.Build("old"))
	return err
}

func ensures(ctx context.Context, a *Admin) error { return a.EnsureTopics(ctx, 2, 1) }

// asking does something while two requests of a kind are refused.
func asking(t *testing.T, do asked, key kmsg.Key, code *kerr.Error) (took time.Duration, err error) {
	brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
		a, clientErr := New(c.Cfg)
		if clientErr != nil {
			t.Fatal(clientErr)
		}
		defer a.Close()
		if err := findsAQueue(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		h, began := c.Refuse(key, code, 2), time.Now()
		err = do(t.Context(), a)
		took = time.Since(began)
		if h.Hits() == 0 {
			t.Error("nothing was refused")
		}
		h.Remove()
		if err != nil && !errors.Is(err, wire.ErrNoTopic) {
			brokertest.Passes(time.Second) // kadm answers from memory
			if err := do(t.Context(), a); err != nil {
				t.Errorf("once more: %v", err)
			}
		}
	})
	return took, err
}

// What passes soon is waited for.
func TestAdminWaits(t *testing.T) {
	moving := []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator}
	for name, of := range map[string]struct {
		do asked
		brokertest.Refusals
	}{
		"make a queue": {makesAQueue, brokertest.Refuse(kmsg.CreateTopics, kerr.NotController)},
		"find a queue": {
			findsAQueue,
			brokertest.Refuse(
				kmsg.Metadata, kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable,
			),
		},
		"delete a queue": {deletesAQueue, brokertest.Refuse(kmsg.DeleteTopics, kerr.NotController)},
		"delete a queue that is gone": {
			deletesAQueue, brokertest.Refuse(kmsg.DeleteTopics, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition),
		},
		"count partitions": {
			counts,
			brokertest.Refuse(
				kmsg.Metadata, kerr.UnknownServerError, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable,
			),
		},
		"initialise, finding out where": {
			initialises, brokertest.Refusals{Key: kmsg.FindCoordinator, Codes: moving},
		},
		"initialise, asking before": {
			initialises,
			brokertest.Refusals{
				Key:   kmsg.DescribeShareGroupOffsets,
				Codes: append(moving, kerr.GroupIDNotFound, kerr.UnknownTopicOrPartition, kerr.UnknownServerError),
			},
		},
		"initialise": {
			initialises,
			brokertest.Refusals{
				Key: kmsg.AlterShareGroupOffsets, Codes: append(moving, kerr.UnknownTopicOrPartition),
			},
		},
		"ask how far, where it begins": {
			asksHowFar, brokertest.Refuse(kmsg.ListOffsets, kerr.NotLeaderForPartition),
		},
		"ask how far": {
			asksHowFar,
			brokertest.Refusals{Key: kmsg.DescribeShareGroupOffsets, Codes: append(moving, kerr.GroupIDNotFound)},
		},
		"ask for positions": {
			asksForPositions,
			brokertest.Refusals{
				Key:   kmsg.OffsetFetch,
				Codes: append(moving, kerr.UnstableOffsetCommit, kerr.UnknownServerError, kerr.GroupIDNotFound),
			},
		},
		"ask for positions, finding them": {
			asksForPositions, brokertest.Refusals{Key: kmsg.FindCoordinator, Codes: moving},
		},
	} {
		t.Run(name, func(t *testing.T) {
			of.Each(t, func(t *testing.T, code *kerr.Error) {
				if took, err := asking(t, of.do, of.Key, code); err != nil || took > time.Second {
					t.Errorf("took %v: %v", took, err)
				}
			})
		})
	}
}

// A queue that is gone or has another leader now keeps its records until the next round: another leader
// may be one that not all replicas are in sync with.
func TestRemovalIsLeftForTheNextRound(t *testing.T) {
	brokertest.Refuse(
		kmsg.DeleteRecords, kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition,
	).Each(t, func(t *testing.T, code *kerr.Error) {
		brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
			a := adminOf(t, c.Cfg)
			if err := findsAQueue(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			queue := c.Cfg.Topics.Build("old")
			brokertest.Put(t, c.Cfg, queue, 0, "0", "1")
			hits := c.Refuse(kmsg.DeleteRecords, code, 1)
			for _, want := range []int64{0, 1} {
				if err := a.DeleteRecordsBelow(t.Context(), map[compute.QueueName]int64{"old": 1}); err != nil {
					t.Fatal(err)
				}
				if at := logStart(t, a, queue); at != want {
					t.Errorf("the log begins at %d, and not at %d", at, want)
				}
			}
			brokertest.HitBy(t, hits, 1)
		})
	})
}

// Whether something was initialised is not asked before it is either done or dead.
func TestInitialisingWaitsUntilItIsSettled(t *testing.T) {
	brokertest.Refuse(
		kmsg.AlterShareGroupOffsets, kerr.UnknownServerError, kerr.RequestTimedOut,
	).Each(t, func(t *testing.T, code *kerr.Error) {
		if took, err := asking(
			t, initialises, kmsg.AlterShareGroupOffsets, code,
		); err != nil || took < defaultShareTimes().settle {
			t.Errorf("took %v: %v", took, err)
		}
	})
}

// The rest is answered, so that the caller knows whether to try again: the queue manager does, with growing pauses,
// and says in the queue's record what is wrong.
func TestAdminSaysWhatIsWrong(t *testing.T) {
	for name, of := range map[string]struct {
		do asked
		brokertest.Refusals
		kind compute.Kind
	}{
		"make a queue later": {
			makesAQueue,
			brokertest.Refuse(
				kmsg.CreateTopics, kerr.RequestTimedOut, kerr.ThrottlingQuotaExceeded, kerr.UnknownServerError,
			),
			compute.KindUnavailable,
		},
		"make no queue": {
			makesAQueue,
			brokertest.Refuse(
				kmsg.CreateTopics, kerr.InvalidReplicationFactor, kerr.PolicyViolation, kerr.InvalidConfig,
			),
			compute.KindInternal,
		},
		"may make no queue": {
			makesAQueue,
			brokertest.Refuse(kmsg.CreateTopics, kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed),
			compute.KindForbidden,
		},
		"make topics later": {
			ensures, brokertest.Refuse(kmsg.CreateTopics, kerr.RequestTimedOut, kerr.UnknownServerError),
			compute.KindUnavailable,
		},
		"may make no topics": {
			ensures, brokertest.Refuse(kmsg.CreateTopics, kerr.ClusterAuthorizationFailed), compute.KindForbidden,
		},
		"delete no queue": {
			deletesAQueue, brokertest.Refuse(kmsg.DeleteTopics, kerr.TopicDeletionDisabled), compute.KindInternal,
		},
		"may delete no queue": {
			deletesAQueue, brokertest.Refuse(kmsg.DeleteTopics, kerr.TopicAuthorizationFailed), compute.KindForbidden,
		},
		"may not initialise": {
			initialises,
			brokertest.Refuse(
				kmsg.AlterShareGroupOffsets, kerr.GroupAuthorizationFailed, kerr.TopicAuthorizationFailed,
			),
			compute.KindForbidden,
		},
		"initialise with users": {
			initialises, brokertest.Refuse(kmsg.AlterShareGroupOffsets, kerr.NonEmptyGroup), compute.KindConflict,
		},
		"do not know how far": {
			asksHowFar, brokertest.Refuse(kmsg.Metadata, kerr.LeaderNotAvailable, kerr.UnknownServerError),
			compute.KindUnavailable,
		},
		"may not know how far": {
			asksHowFar, brokertest.Refuse(kmsg.Metadata, kerr.TopicAuthorizationFailed), compute.KindForbidden,
		},
		"trim later": {
			trims, brokertest.Refuse(kmsg.DeleteRecords, kerr.RequestTimedOut, kerr.UnknownServerError),
			compute.KindUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			of.Each(t, func(t *testing.T, code *kerr.Error) {
				_, err := asking(t, of.do, of.Key, code)
				brokertest.WantKind(t, err, of.kind)
			})
		})
	}
}

// What is not known of one queue keeps nothing from being known of others: a leader that its topic lacks, or its group.
func TestOneQueueHidesNoOther(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"no leader": {
			Keys: []kmsg.Key{kmsg.Metadata}, Topic: "r.build.old", Partitions: []int32{0}, Err: kerr.LeaderNotAvailable,
		},
		"another leader": {Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "r.build.old", Err: kerr.NotLeaderForPartition},
		"no group":       {Keys: []kmsg.Key{kmsg.DescribeShareGroupOffsets}, Group: "g", Err: kerr.UnknownServerError},
	} {
		t.Run(name, func(t *testing.T) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				a, err := New(c.Cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				if _, err := a.EnsureQueueTopics(t.Context(), []compute.QueueName{"old", "other"}, 1); err != nil {
					t.Fatal(err)
				}
				fault.Count = -1
				h := c.Fault(fault)
				defer h.Remove()
				p, err := a.QueueProgress(t.Context(), []wire.QueueRef{{Name: "old", Group: "g"}, {Name: "other", Group: "g2"}})
				if err != nil || len(p) != 2 {
					t.Fatalf("%+v, %v", p, err)
				}
				brokertest.WantKind(t, p[0].Err, compute.KindUnavailable)
				if p[1].Err != nil || h.Hits() == 0 {
					t.Errorf("the other: %v, after %d refusals", p[1].Err, h.Hits())
				}
			})
		})
	}
}

// Only that a topic is not known says that there is none.
func TestATopicThatIsNotThere(t *testing.T) {
	if _, err := asking(
		t, asksHowFar, kmsg.Metadata, kerr.UnknownTopicOrPartition,
	); !errors.Is(err, wire.ErrNoTopic) {
		t.Errorf("got %v", err)
	}
}

// A limit that the brokers do not grant is a warning. The rest is said, and the
// share state is not begun.
func TestSettingsOfAGroupThatAreRefused(t *testing.T) {
	for _, of := range []struct {
		code  *kerr.Error
		limit bool // only the delivery limit is refused
		kind  compute.Kind
		fine  bool
	}{
		{kerr.InvalidConfig, true, 0, true},
		{kerr.InvalidRequest, true, 0, true},
		{kerr.InvalidConfig, false, compute.KindInternal, false},
		{kerr.RequestTimedOut, false, compute.KindUnavailable, false},
		{kerr.UnknownServerError, true, compute.KindUnavailable, false},
		{kerr.ClusterAuthorizationFailed, false, compute.KindForbidden, false},
		{kerr.GroupAuthorizationFailed, true, compute.KindForbidden, false},
	} {
		t.Run(of.code.Message, func(t *testing.T) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				a, err := New(c.Cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Close()
				if err := findsAQueue(t.Context(), a); err != nil {
					t.Fatal(err)
				}
				limits := []string{"share.delivery.count.limit", "share.partition.max.record.locks"}
				c.ControlKey(int16(kmsg.IncrementalAlterConfigs), func(k kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					asked := k.(*kmsg.IncrementalAlterConfigsRequest).Resources[0]
					if of.limit && !slices.Contains(limits, asked.Configs[0].Name) {
						return nil, nil, false
					}
					resp := k.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
					r := kmsg.NewIncrementalAlterConfigsResponseResource()
					r.ResourceType, r.ResourceName, r.ErrorCode = asked.ResourceType, asked.ResourceName, of.code.Code
					resp.Resources = append(resp.Resources, r)
					return resp, nil, true
				})
				alters := c.Fault(
					kfake.Fault{Keys: []kmsg.Key{kmsg.AlterShareGroupOffsets}, Observe: true, Count: -1},
				)
				err = initialises(t.Context(), a)
				if of.fine && err != nil || of.fine != (alters.Hits() == 1) {
					t.Errorf("initialised %d times: %v", alters.Hits(), err)
				}
				if !of.fine {
					brokertest.WantKind(t, err, of.kind)
				}
			})
		})
	}
}
