// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/berth-project/berth/pkg/kafka"
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
		all = append(all, kadm.UpsertSCRAM{
			User: u.Name, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: u.Password,
		})
	}
	done, err := kadm.NewClient(cl).AlterUserSCRAMs(ctx, nil, all)
	if err != nil {
		return err
	}
	return done.Error()
}

// Tries is what a user tries to do, by real requests. Each method answers whether Kafka allows it, whatever else is
// wrong with it.
type Tries struct{ client *kgo.Client }

// TryAs signs in as a user.
func TryAs(addrs []string, u User) (*Tries, error) {
	return tryWith(addrs, kgo.SASL(scram.Auth{User: u.Name, Pass: u.Password}.AsSha256Mechanism()))
}

// TryWithCertificate signs in as the user that the certificate names.
func TryWithCertificate(addrs []string, c *tls.Config) (*Tries, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: c}
	return tryWith(addrs, kgo.Dialer(d.DialContext))
}

func tryWith(addrs []string, signIn kgo.Opt) (*Tries, error) {
	versions := kversion.Stable() // of requests that name topics: a user that may not see a topic does not know its id
	versions.SetMaxKeyVersion(int16(kmsg.Fetch), 12)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.MaxVersions(versions), kgo.DisableIdempotentWrite(), signIn,
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
	return a.try(ctx, req, func(r kmsg.Response) int16 {
		return r.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode
	})
}

// Write produces a record that makes no sense.
func (a *Tries) Write(ctx context.Context, topic string) (allowed bool, err error) {
	return a.Put(ctx, topic, []byte("tried"), []byte("nothing"))
}

// Put produces a record. An error that Kafka did not give says nothing of what is allowed: it is tried again.
func (a *Tries) Put(ctx context.Context, topic string, key, value []byte) (allowed bool, err error) {
	for range 5 {
		err = a.client.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: key, Value: value}).FirstErr()
		var answer *kerr.Error
		if err == nil || errors.As(err, &answer) {
			return !kafka.IsDenied(err), nil // whatever else is wrong with it
		}
	}
	return false, fmt.Errorf("produce to %s: %w", topic, err)
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

// Describe asks for a topic's partitions.
func (a *Tries) Describe(ctx context.Context, topic string) (allowed bool, err error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.MetadataResponse).Topics[0].ErrorCode })
}

// TopicSettings asks for the settings of a topic.
func (a *Tries) TopicSettings(ctx context.Context, topic string) (allowed bool, err error) {
	return a.settings(ctx, kmsg.ConfigResourceTypeTopic, topic)
}

// GroupSettings asks for the settings of a share group.
func (a *Tries) GroupSettings(ctx context.Context, group string) (allowed bool, err error) {
	return a.settings(ctx, kmsg.ConfigResourceTypeGroupConfig, group)
}

func (a *Tries) settings(ctx context.Context, of kmsg.ConfigResourceType, name string) (allowed bool, err error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = of, name
	req.Resources = append(req.Resources, rr)
	return a.try(ctx, req, func(r kmsg.Response) int16 {
		return r.(*kmsg.DescribeConfigsResponse).Resources[0].ErrorCode
	})
}

// AlterTopicSettings asks whether a setting of a topic could be changed.
func (a *Tries) AlterTopicSettings(ctx context.Context, topic string) (allowed bool, err error) {
	return a.alterSettings(ctx, kmsg.ConfigResourceTypeTopic, topic)
}

// AlterGroupSettings asks whether a setting of a share group could be changed.
func (a *Tries) AlterGroupSettings(ctx context.Context, group string) (allowed bool, err error) {
	return a.alterSettings(ctx, kmsg.ConfigResourceTypeGroupConfig, group)
}

func (a *Tries) alterSettings(ctx context.Context, of kmsg.ConfigResourceType, name string) (allowed bool, err error) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = true
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = of, name
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Op, rc.Value = "retention.ms", kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr("1")
	if of == kmsg.ConfigResourceTypeGroupConfig {
		rc.Name, rc.Value = "share.record.lock.duration.ms", kmsg.StringPtr("30000")
	}
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	return a.try(ctx, req, func(r kmsg.Response) int16 {
		return r.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
	})
}

// Join asks to go on as a member of a group, which it is not.
func (a *Tries) Join(ctx context.Context, group string) (allowed bool, err error) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID = group, "nobody"
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.HeartbeatResponse).ErrorCode })
}

// DescribeGroup asks for the members of a group.
func (a *Tries) DescribeGroup(ctx context.Context, group string) (allowed bool, err error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode })
}

// End ends a transaction that nobody has begun.
func (a *Tries) End(ctx context.Context, id string) (allowed bool, err error) {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, -1, -1
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.EndTxnResponse).ErrorCode })
}

// DescribeACLs asks for all ACLs.
func (a *Tries) DescribeACLs(ctx context.Context) (allowed bool, err error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.DescribeACLsResponse).ErrorCode })
}

// AlterACLs asks to remove ACLs that nobody has.
func (a *Tries) AlterACLs(ctx context.Context) (allowed bool, err error) {
	req := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourcePatternType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeLiteral
	f.ResourceName, f.Principal = kmsg.StringPtr("nothing"), kmsg.StringPtr("User:nobody")
	f.Operation, f.PermissionType = kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	req.Filters = append(req.Filters, f)
	return a.try(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.DeleteACLsResponse).Results[0].ErrorCode })
}

// ResetShare sets the position of a share group in a topic of one partition.
func (a *Tries) ResetShare(ctx context.Context, group, topic string, offset int64) (allowed bool, err error) {
	req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	req.GroupID = group
	rt, rp := kmsg.NewAlterShareGroupOffsetsRequestTopic(), kmsg.NewAlterShareGroupOffsetsRequestTopicPartition()
	rt.Topic, rp.StartOffset = topic, offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	var code int16
	_, err = a.try(ctx, req, func(r kmsg.Response) int16 {
		resp := r.(*kmsg.AlterShareGroupOffsetsResponse)
		if code = resp.ErrorCode; code == 0 && len(resp.Topics) > 0 {
			code = resp.Topics[0].Partitions[0].ErrorCode
		}
		return code
	})
	if err == nil && !kafka.IsDenied(kerr.ErrorForCode(code)) {
		err = kerr.ErrorForCode(code) // it is to work, where it is allowed
	}
	return err == nil && code == 0, err
}

// try sends a request to the one broker; code is what the answer says. Where none comes, it is sent again.
func (a *Tries) try(ctx context.Context, req kmsg.Request, code func(kmsg.Response) int16) (allowed bool, err error) {
	for range 5 {
		var resp kmsg.Response
		if resp, err = a.client.Broker(1).Request(ctx, req); err == nil {
			return !kafka.IsDenied(kerr.ErrorForCode(code(resp))), nil // whatever else is wrong with it
		}
	}
	return false, fmt.Errorf("%s: %w", kmsg.NameForKey(req.Key()), err)
}
