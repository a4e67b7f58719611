// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/wire"
)

// A refusal says which user may not do what with which thing, and the call that changes it.
func TestRefusalsSayWhatLacks(t *testing.T) {
	topics := wire.Topics{Prefix: "c."}
	cfg := Config{As: access.Identity{
		Principal: func() string { return "User:CN=the one" }, Role: access.Conductor, Topics: topics,
	}}
	needs := []access.Right{
		access.To(access.Read, access.Group, topics.ConductorGroup()),
		access.To(access.Write, access.Topic, topics.Instances()),
		access.To(access.Write, access.TransactionalID, topics.ConductorGroup()+".3"),
		access.To(access.DescribeConfigs, access.Cluster, access.ClusterName),
	}
	const apply = "have an administrator of Kafka run: " +
		"berth acl apply --role conductor --principal 'User:CN=the one' --prefix c."
	for _, c := range []struct {
		code  *kerr.Error
		needs []access.Right
		says  string
	}{
		{kerr.TopicAuthorizationFailed, needs, "Write topic c.instances; " + apply},
		{kerr.GroupAuthorizationFailed, needs, "Read group c.conductor; " + apply},
		{kerr.TransactionalIDAuthorizationFailed, needs, "Write transactional-id c.conductor.3; " + apply},
		{kerr.ClusterAuthorizationFailed, needs,
			"DescribeConfigs cluster kafka-cluster; the role conductor does not have this right"},
		{kerr.ClusterAuthorizationFailed, needs[1:2], "Write topic c.instances; " + apply}, // of a producer id
		{kerr.TopicAuthorizationFailed, []access.Right{access.To(access.Create, access.Topic, "c.requests")},
			"Create topic c.requests; start a queue manager"},
		{kerr.TopicAuthorizationFailed, nil, "use topic (which one is not told)"},
	} {
		for name, err := range map[string]error{
			"plain": c.code, "wrapped": fmt.Errorf("partition 3: %w", c.code), "joined": errors.Join(errors.New("x"), c.code),
			"noted": fmt.Errorf("deep: %w", Lacking(c.code, c.needs...)),
		} {
			err := cfg.Classify("decide", err, c.needs...)
			if compute.KindOf(err) != compute.KindForbidden || !errors.Is(err, c.code) || !IsFatal(err) ||
				!strings.Contains(err.Error(), "decide: User:CN=the one may not "+c.says) {
				t.Errorf("%s, %s: %v", c.code.Message, name, err)
			}
		}
	}
}

// What was noted where the request was made stays, whatever its callers needed too.
func TestTheRightThatWasNotedStays(t *testing.T) {
	reports, requests := access.To(access.Read, access.Topic, "reports"), access.To(access.Read, access.Topic, "requests")
	noted := Lacking(fmt.Errorf("deep: %w", Lacking(kerr.TopicAuthorizationFailed, reports)), requests)
	err := (Config{}).Classify("read", noted, requests)
	if !strings.Contains(err.Error(), "user may not Read topic reports; ") {
		t.Error(err)
	}
	if err := Lacking(kerr.UnknownTopicID, reports); err != error(kerr.UnknownTopicID) {
		t.Errorf("what is no refusal is changed: %v", err)
	}
	if Lacking(nil, reports) != nil || (Config{}).Classify("read", nil, reports) != nil {
		t.Error("nothing is an error")
	}
}

// A process that cannot sign in lacks no right.
func TestSignInThatFails(t *testing.T) {
	cfg := Config{As: access.Identity{Principal: func() string { return "User:x" }, Role: access.API}}
	err := cfg.Classify("reach Kafka", kerr.SaslAuthenticationFailed, access.To(access.Read, access.Topic, "t"))
	if text := err.Error(); compute.KindOf(err) != compute.KindForbidden || strings.Contains(text, "acl") ||
		!strings.Contains(text, "does not let User:x sign in; check kafka.sasl") {
		t.Error(err)
	}
}
