// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"context"

	"github.com/berth-project/berth/pkg/kafka/access"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
)

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
