// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// User is a Kafka user that signs in by SCRAM-SHA-256.
type User struct{ Name, Password string }

// AddUsers makes users known to the brokers.
func AddUsers(ctx context.Context, addrs []string, users ...User) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	if err != nil {
		return err
	}
	defer cl.Close()
	var all []kadm.UpsertSCRAM
	for _, u := range users {
		all = append(all, kadm.UpsertSCRAM{User: u.Name, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: u.Password})
	}
	done, err := kadm.NewClient(cl).AlterUserSCRAMs(ctx, nil, all)
	if err != nil {
		return err
	}
	return done.Error()
}

// Tries is what a user tries to do, by real requests.
type Tries struct{ client *kgo.Client }

// TryAs signs in as a user.
func TryAs(addrs []string, u User) (*Tries, error) {
	versions := kversion.Stable() // of requests that name topics: a user that may not see a topic does not know its id
	versions.SetMaxKeyVersion(int16(kmsg.Fetch), 12)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.MaxVersions(versions), kgo.DisableIdempotentWrite(), kgo.SASL(scram.Auth{User: u.Name, Pass: u.Password}.AsSha256Mechanism()),
		kgo.RequestRetries(0), kgo.RequestTimeoutOverhead(20*time.Second), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	return &Tries{cl}, nil
}

// Close ends the connections.
func (a *Tries) Close() { a.client.Close() }

// Read fetches the first partition of a topic.
func (a *Tries) Read(ctx context.Context, topic string) (allowed bool, err error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 0, 1<<20
	rt, rp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	rt.Topic, rp.PartitionMaxBytes, rp.CurrentLeaderEpoch = topic, 1<<20, -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode })
}

// Write produces a record that makes no sense.
func (a *Tries) Write(ctx context.Context, topic string) (allowed bool, err error) {
	err = a.client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("tried"), Value: []byte("nothing")}).FirstErr()
	return !refused(err), nil
}

// Delete removes no record.
func (a *Tries) Delete(ctx context.Context, topic string) (allowed bool, err error) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	rt, rp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return a.try(ctx, req, func(r kmsg.Response) int16 {
		return r.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
	})
}

// Create asks whether a topic could be made.
func (a *Tries) Create(ctx context.Context, topic string) (allowed bool, err error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly = true
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
	req.Topics = append(req.Topics, rt)
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode })
}

// Join asks to go on as a member of a group, which it is not.
func (a *Tries) Join(ctx context.Context, group string) (allowed bool, err error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID = group, "nobody"
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.HeartbeatResponse).ErrorCode })
}

// try sends a request to the one broker; code is what the answer says.
func (a *Tries) try(ctx context.Context, req kmsg.Request, code func(kmsg.Response) int16) (bool, error) {
	resp, err := a.client.Broker(1).Request(ctx, req)
	if err != nil {
		return false, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return !refused(kerr.ErrorForCode(code(resp))), nil // whatever else is wrong with it
}

// refused says whether an error says that the user lacks the right.
func refused(err error) bool {
	return slices.ContainsFunc([]error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
	}, func(refusal error) bool { return errors.Is(err, refusal) })
}
