// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/service"
	"github.com/berth-project/berth/pkg/wire"
)

// As is the cell for a process that does what a role does, in the name of these hosts if it is an agent.
func (c Cell) As(r access.Role, hosts ...compute.HostID) Cell {
	c.Kafka.As.Role, c.Kafka.As.Hosts = r, hosts
	return c
}

// checkRights answers nil if Kafka gives this process what its role needs, or which right it lacks (KindForbidden).
// What it had once is not asked for again: a right that is taken away later shows where it is needed. What it had to
// wait for is asked of every broker.
func (c Cell) checkRights(ctx context.Context, seen *seenRights) error {
	needs, err := c.needs()
	if err != nil || len(needs) == 0 || seen.all {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rightsTime)
	defer cancel()
	admin, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return err
	}
	defer admin.Close()
	ask := admin.Lacking
	if seen.lacked {
		ask = admin.LackingAnywhere
	}
	lacking, err := ask(ctx, needs)
	if err != nil {
		return err
	}
	if len(lacking) > 0 {
		seen.lacked = true
		return c.Kafka.As.Denied("", nil, lacking...)
	}
	seen.all = true
	return nil
}

// seenRights is what a process that starts has seen of its rights: all of them, or that some lacked.
type seenRights struct{ all, lacked bool }

// needs are the rights that this process waits for: those of its role, without what belongs to a part that is
// switched off. A cell of before there were tokens, or an audit, goes on with the rights that it has; so does an API
// node that may not read the audit, or what was refused, which it shows to some alone.
func (c Cell) needs() ([]access.Right, error) {
	all, err := c.Kafka.As.Needs()
	for i, r := range all {
		switch {
		case r.Kind != access.Topic:
		case r.Name == c.Topics().Audit():
			all[i].Operations = []access.Operation{access.Write}
		case r.Name == c.Topics().Rejected() && slices.Equal(r.Operations, []access.Operation{access.Read}):
			all[i].Operations = []access.Operation{access.Describe}
		}
	}
	return slices.DeleteFunc(all, func(r access.Right) bool {
		wanted, optional := c.optional()[r.Name]
		return r.Kind == access.Topic && optional && !wanted
	}), err
}

// Allow gives rights to a Kafka user.
func (c Cell) Allow(ctx context.Context, principal string, rights []access.Right) error {
	admin, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.Allow(ctx, principal, rights)
}

// Allowed are the rights that a Kafka user has.
func (c Cell) Allowed(ctx context.Context, principal string) ([]access.Right, error) {
	admin, err := kafkaadmin.New(c.Kafka)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return admin.Allowed(ctx, principal)
}

// optional are the topics of parts that may be switched off, and whether this process uses them.
func (c Cell) optional() map[string]bool {
	return map[string]bool{c.Topics().Tokens(): c.Tokens, c.Topics().Audit(): c.Audit}
}

// ensureOptional makes the topics of the tokens and of the audit where they are missing and wanted: cells of before
// there were any have none. A process that may make no topics leaves it to a queue manager, and is not ready until
// then.
func (c Cell) ensureOptional(ctx context.Context, admin *kafkaadmin.Admin) error {
	optional := c.optional()
	for _, topic := range slices.Sorted(maps.Keys(optional)) {
		if !optional[topic] {
			continue
		}
		err := admin.EnsureTopic(ctx, topic, c.replication)
		if compute.KindOf(err) == compute.KindForbidden {
			c.Log.Info("this process may make no topics: a queue manager of this version makes this one",
				zap.String("topic", topic))
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitTopics prepares a cell whose queue manager may only have been started just now.
func (c *Cell) awaitTopics(ctx context.Context) error {
	for {
		err := c.Prepare(ctx)
		if compute.KindOf(err) != compute.KindUnavailable || !service.Sleep(ctx, service.Jitter(againAfter)) {
			return err
		}
	}
}

// FirstToken makes an admin's token that counts for so long (0: until it is revoked), and writes it to where API nodes
// read it. It needs the rights of an API node, and no node. The text is shown to nobody else.
func (c Cell) FirstToken(
	ctx context.Context, name string, life time.Duration,
) (text string, _ compute.Token, err error) {
	text, id, hash := auth.NewToken()
	at := c.Clock.shown(time.Now()).UTC()
	token := compute.Token{
		ID: id, Hash: hash, Name: name, Role: compute.RoleAdmin, CreatedAt: at, CreatedBy: "bootstrap",
	}
	if life > 0 {
		token.ExpiresAt = at.Add(life)
	}
	if err := token.Check(); err != nil {
		return "", token, err
	}
	c.Tokens = true
	if err := c.awaitTopics(ctx); err != nil {
		return "", token, err
	}
	producer, err := write.NewProducer(c.Kafka)
	if err != nil {
		return "", token, err
	}
	defer producer.Close()
	for range behindTries { // the topic is there: a broker that does not know it is behind, and is asked for a second
		err = producer.Send(ctx, wire.EncodeToken(token).To(c.Topics().Tokens(), 0))
		if !errors.Is(err, wire.ErrNoTopic) {
			break
		}
	}
	return text, token, err
}

// behindTries is how often brokers are asked for a topic that was just made.
const behindTries = 10
