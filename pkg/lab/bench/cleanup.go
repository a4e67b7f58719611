// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/wire"
)

// cleanUp deletes from brokers every topic and group whose name begins with the
// prefix, and returns when they list none of them any more. What is gone already
// is no error.
func cleanUp(ctx context.Context, addrs []string, prefix string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ClientID("berth-bench"))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if err := errors.Join(deleteGroups(ctx, admin, client, prefix), deleteTopics(ctx, admin, prefix)); err != nil {
		return fmt.Errorf("clean up what begins with %q: %w", prefix, err)
	}
	return nil
}

func deleteTopics(ctx context.Context, admin *kadm.Client, prefix string) error {
	ours, err := listTopics(ctx, admin, prefix)
	if err != nil {
		return err
	}
	var errs []error
	for piece := range slices.Chunk(ours, 500) {
		deleted, err := admin.DeleteTopics(ctx, piece...)
		errs = append(errs, err)
		for _, d := range deleted {
			if d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
				errs = append(errs, fmt.Errorf("topic %s: %w", d.Topic, d.Err))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return awaitGone(ctx, admin, prefix)
}

func listTopics(ctx context.Context, admin *kadm.Client, prefix string) ([]string, error) {
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(topics.Names(), func(t string) bool { return !strings.HasPrefix(t, prefix) }), nil
}

// awaitGone returns when a broker has heard that these topics are gone: the
// controller, which deletes them, knows it earlier.
func awaitGone(ctx context.Context, admin *kadm.Client, prefix string) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := listTopics(ctx, admin, prefix)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d deleted topics are still listed: %w", len(left), ctx.Err())
		}
	}
}

// deleteGroups deletes consumer groups and share groups, and what was configured
// for the latter. The members have left: they belong to this process.
func deleteGroups(ctx context.Context, admin *kadm.Client, client *kgo.Client, prefix string) error {
	topics := wire.Topics{Prefix: prefix}
	names := []string{topics.ConductorGroup(), topics.ManagerGroup()}
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	for _, g := range listed.Groups() {
		if strings.HasPrefix(g, prefix) {
			names = append(names, g)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	deleted, err := admin.DeleteGroups(ctx, names...)
	errs := []error{err}
	for _, d := range deleted {
		if d.Err != nil && !errors.Is(d.Err, kerr.GroupIDNotFound) {
			errs = append(errs, fmt.Errorf("group %s: %w", d.Group, d.Err))
		}
	}
	for _, g := range names {
		errs = append(errs, forgetConfig(ctx, client, g))
	}
	return errors.Join(errs...)
}

// forgetConfig deletes the settings of a share group.
func forgetConfig(ctx context.Context, client *kgo.Client, group string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for _, name := range []string{
		"share.auto.offset.reset", "share.isolation.level", "share.record.lock.duration.ms",
		"share.delivery.count.limit", "share.partition.max.record.locks",
	} {
		rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		rc.Name, rc.Op = name, kmsg.IncrementalAlterConfigOpDelete
		rr.Configs = append(rr.Configs, rc)
	}
	req.Resources = append(req.Resources, rr)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return fmt.Errorf("settings of group %s: %w", group, err)
		}
	}
	return nil
}
