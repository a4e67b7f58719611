package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
)

// Version is what the brokers are.
type Version struct {
	Kafka   string // the oldest broker, by what its API looks like: "v4.3"
	Brokers int    // how many answered
}

// needs are the API versions Berth works with; Kafka has them since 4.2.
var needs = []struct {
	api     kmsg.Request
	version int16
}{
	{new(kmsg.ShareFetchRequest), 2},                // strict: one record a request
	{new(kmsg.ShareAcknowledgeRequest), 2},          // renewals
	{new(kmsg.DescribeShareGroupOffsetsRequest), 1}, // depth
	{new(kmsg.AlterShareGroupOffsetsRequest), 0},
}

// CheckVersion refuses brokers that Berth cannot work with (KindInvalid): one
// before Kafka 4.2, or one whose share groups are switched off. Brokers that do
// not answer are passed over, unless none does (KindUnavailable).
func (a *Admin) CheckVersion(ctx context.Context) error {
	_, err := a.checked(ctx)
	return err
}

// Version is what the brokers are, with the same refusals.
func (a *Admin) Version(ctx context.Context) (Version, error) {
	answered, err := a.checked(ctx)
	v := Version{Brokers: len(answered)}
	for _, b := range answered {
		if guess := b.VersionGuess(); v.Kafka == "" || guess < v.Kafka {
			v.Kafka = guess
		}
	}
	return v, err
}

// checked lists the brokers that answered, up to the first that does not suit.
func (a *Admin) checked(ctx context.Context) (answered []kadm.BrokerApiVersions, err error) {
	const op = "check Kafka's version"
	all, err := a.kadm.ApiVersions(ctx)
	if err != nil {
		return nil, classify(op, err)
	}
	var silent error
	for _, b := range all.Sorted() {
		if b.Err != nil {
			silent = b.Err
			continue
		}
		answered = append(answered, b)
		if err := suits(b); err != nil {
			err.Op = op
			return answered, err
		}
	}
	if len(answered) == 0 {
		return nil, classify(op, silent)
	}
	return answered, nil
}

// suits says what Berth lacks at a broker, nil if nothing.
func suits(b kadm.BrokerApiVersions) *compute.Error {
	for _, f := range b.Raw().FinalizedFeatures {
		if f.Name == "share.version" && f.MaxVersionLevel < 1 {
			return shareOff(b)
		}
	}
	for _, n := range needs {
		if has, ok := b.KeyMaxVersion(n.api.Key()); !ok || has < n.version {
			return &compute.Error{
				Kind: compute.KindInvalid, Field: "kafka", Value: b.VersionGuess(),
				Message: fmt.Sprintf("broker %d is too old: it lacks %s version %d", b.NodeID, kmsg.NameForKey(n.api.Key()), n.version),
				Remedy:  "run Kafka 4.2 or later, best 4.3.1 or later",
			}
		}
	}
	return nil
}

func shareOff(b kadm.BrokerApiVersions) *compute.Error {
	return &compute.Error{
		Kind: compute.KindInvalid, Field: "share.version", Value: "0",
		Message: fmt.Sprintf("share groups are switched off at broker %d", b.NodeID),
		Remedy:  "run kafka-features.sh upgrade --feature share.version=1",
	}
}
