// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
)

// HostTopics lists the command stream of every host that has one, as QueueTopics
// lists queues.
func (a *Admin) HostTopics(ctx context.Context) (map[compute.HostID]compute.TopicID, error) {
	return topicsFor(ctx, a, "list streams of hosts", a.cfg.Topics.HostOf)
}

// QuietHosts says to which of these hosts nothing was said since a time. One without
// a stream is not among them.
func (a *Admin) QuietHosts(ctx context.Context, hosts []compute.HostID, since time.Time) ([]compute.HostID, error) {
	const op = "look at streams of hosts"
	var quiet []compute.HostID
	for piece := range pieces(hosts) {
		topics := make([]string, len(piece))
		for i, h := range piece {
			topics[i] = a.cfg.Topics.Host(h)
		}
		all, err := a.kadm.ListOffsetsAfterMilli(ctx, since.UnixMilli(), topics...)
		if err != nil {
			return nil, a.cfg.Classify(op, err, access.ToAll(access.Describe, access.Topic, a.cfg.Topics.Host("")))
		}
		for i, h := range piece {
			if at, there := all[topics[i]][0]; there && at.Err == nil && at.Timestamp < 0 {
				quiet = append(quiet, h)
			}
		}
	}
	return quiet, nil
}

// DeleteHostTopic deletes one incarnation of a host's stream, as DeleteQueueTopic
// deletes a queue.
func (a *Admin) DeleteHostTopic(ctx context.Context, id compute.TopicID) error {
	return a.deleteTopic(ctx, "delete the stream of a host", id)
}
