// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/kafka/access"
)

// What a share group is told to do.
const (
	deliveryLimit = "25"    // deliveries of a record before it is dropped: far more than hosts that decline it
	lockMillis    = "30000" // how long a record is its taker's without a renewal
	lockLimit     = "4000"  // records handed out beyond the first that is not done; brokers allow no more by themselves
)

// configureGroup sets what the agents count on. It may be done at any time and
// any number of times.
func (a *Admin) configureGroup(ctx context.Context, group string) error {
	const op = "configure a share group"
	err := a.setGroup(ctx, group, map[string]string{
		"share.auto.offset.reset":       "earliest",
		"share.isolation.level":         "read_uncommitted", // queues are written outside of transactions
		"share.record.lock.duration.ms": lockMillis,
	})
	if err != nil {
		return a.cfg.Classify(op, err, access.To(access.AlterConfigs, access.Group, group))
	}
	for _, limit := range []struct{ key, value, broker string }{
		// Work that is dropped early from its queue is published again, later than it could be; and a build that takes
		// long to prepare holds up what came long after it. Neither is a reason not to start.
		{"share.delivery.count.limit", deliveryLimit, "group.share.max.delivery.count.limit"},
		{"share.partition.max.record.locks", lockLimit, "group.share.max.partition.max.record.locks"},
	} {
		err := a.setGroup(ctx, group, map[string]string{limit.key: limit.value})
		switch {
		case errors.Is(err, kerr.InvalidConfig) || errors.Is(err, kerr.InvalidRequest):
			a.cfg.Log.Warn(
				"the brokers do not allow a limit of a share group as large as it should be: set "+limit.broker,
				zap.String("group", group), zap.String(limit.key, limit.value), zap.Error(err),
			)
		case err != nil:
			return a.cfg.Classify(op, err, access.To(access.AlterConfigs, access.Group, group))
		}
	}
	return nil
}

func (a *Admin) setGroup(ctx context.Context, group string, configs map[string]string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range configs {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op, rc.Value = name, kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr(value)
		rr.Configs = append(rr.Configs, rc)
	}
	req.Resources = append(req.Resources, rr)
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return err
		}
	}
	return nil
}
