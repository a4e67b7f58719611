// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
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

// CheckVersion refuses brokers that Berth cannot work with (KindInvalid): one before Kafka 4.2, or one with share
// groups switched off. Brokers that do not answer are passed over, unless none does (KindUnavailable).
func (a *Admin) CheckVersion(ctx context.Context) error {
	_, err := a.checked(ctx)
	return err
}

// Version is what the brokers are, with the same refusals.
func (a *Admin) Version(ctx context.Context) (Version, error) {
	answered, err := a.checked(ctx)
	v := Version{Brokers: len(answered)}
	for _, b := range answered {
		if guess := guessed(b); v.Kafka == "" || guess < v.Kafka {
			v.Kafka = guess
		}
	}
	return v, err
}

// checked lists what the brokers that answered have, up to the first that does not suit.
func (a *Admin) checked(ctx context.Context) (answered []*kmsg.ApiVersionsResponse, err error) {
	const op = "check Kafka's version"
	brokers := a.cfg.Known.Listening(time.Now().Add(-kafka.ReachedFor))
	if len(brokers) == 0 {
		all, err := a.kadm.BrokerMetadata(ctx)
		if err != nil {
			return nil, a.cfg.Classify(op, err)
		}
		brokers = all.Brokers.NodeIDs()
	}
	to := kafka.NewDirect(a.cfg, a.client)
	defer to.Close()
	resps, errs := make([]*kmsg.ApiVersionsResponse, len(brokers)), make([]error, len(brokers))
	var asked sync.WaitGroup
	for i, id := range brokers {
		asked.Go(func() { resps[i], errs[i] = apisOf(ctx, to.Broker(id)) })
	}
	asked.Wait()
	var silent error
	for i, id := range brokers {
		if errs[i] != nil {
			silent = errs[i]
			continue
		}
		answered = append(answered, resps[i])
		if err := suits(id, resps[i]); err != nil {
			err.Op = op
			return answered, err
		}
	}
	if len(answered) == 0 {
		return nil, a.cfg.Classify(op, silent)
	}
	return answered, nil
}

func apisOf(ctx context.Context, broker kmsg.Requestor) (*kmsg.ApiVersionsResponse, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "berth", "1"
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return nil, err
	}
	return resp, kerr.ErrorForCode(resp.ErrorCode)
}

func guessed(has *kmsg.ApiVersionsResponse) string {
	return kversion.FromApiVersionsResponse(has).VersionGuess()
}

// suits says what Berth lacks at a broker, nil if nothing.
func suits(broker int32, has *kmsg.ApiVersionsResponse) *compute.Error {
	for _, f := range has.FinalizedFeatures {
		if f.Name == "share.version" && f.MaxVersionLevel < 1 {
			return shareOff(broker)
		}
	}
	for _, n := range needs {
		if !slices.ContainsFunc(has.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool {
			return k.ApiKey == n.api.Key() && k.MaxVersion >= n.version
		}) {
			return &compute.Error{
				Kind: compute.KindInvalid, Field: "kafka", Value: guessed(has),
				Message: fmt.Sprintf(
					"broker %d is too old: it lacks %s version %d",
					broker, kmsg.NameForKey(n.api.Key()), n.version,
				),
				Remedy: "run Kafka 4.2 or later, best 4.3.1 or later",
			}
		}
	}
	return nil
}

func shareOff(broker int32) *compute.Error {
	return &compute.Error{
		Kind: compute.KindInvalid, Field: "share.version", Value: "0",
		Message: fmt.Sprintf("share groups are switched off at broker %d", broker),
		Remedy:  "run kafka-features.sh upgrade --feature share.version=1",
	}
}
