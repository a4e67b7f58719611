// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
)

// DescribeTopics asks a broker for the metadata of topics. It is never
// answered from what the client remembers, as kadm's question is: that may be
// of a topic that was deleted and made again since.
func DescribeTopics(ctx context.Context, client *kgo.Client, topics ...string) ([]kmsg.MetadataResponseTopic, error) {
	m, err := Metadata(ctx, client, topics...)
	if err != nil {
		return nil, err
	}
	return m.Topics, nil
}

// Metadata is what a broker says of topics and brokers.
func Metadata(ctx context.Context, whom kmsg.Requestor, topics ...string) (*kmsg.MetadataResponse, error) {
	return metadata(ctx, whom, kmsg.NewPtrMetadataRequest(), topics)
}

// Allowed is Metadata with the operations that the broker allows this process on each topic, where it tells.
func Allowed(ctx context.Context, whom kmsg.Requestor, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	return metadata(ctx, whom, req, topics)
}

func metadata(
	ctx context.Context, whom kmsg.Requestor, req *kmsg.MetadataRequest, topics []string,
) (*kmsg.MetadataResponse, error) {
	req.Topics = []kmsg.MetadataRequestTopic{} // none, where nil would be all
	for _, topic := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, kafka.Prompt(whom))
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != len(topics) ||
		slices.ContainsFunc(resp.Topics, func(t kmsg.MetadataResponseTopic) bool { return t.Topic == nil }) {
		return nil, kerr.UnknownServerError
	}
	return resp, nil
}

// topicMetadata is a broker's answer about a topic that there is.
func topicMetadata(ctx context.Context, whom kmsg.Requestor, topic string) (*kmsg.MetadataResponse, error) {
	m, err := Metadata(ctx, whom, topic)
	if err != nil {
		return nil, err
	}
	return m, kerr.ErrorForCode(m.Topics[0].ErrorCode)
}
