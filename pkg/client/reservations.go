// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Reservations lists the project's reservations that have not ended, by name, without their placeholders.
func (c *Client) Reservations(ctx context.Context) ([]Reservation, error) {
	return walk[Reservation](ctx, c, c.scoped(), "reservations")
}

// Reservation shows one: that which has not ended, or else the last of that name.
func (c *Client) Reservation(ctx context.Context, name compute.ReservationName) (Reservation, error) {
	var out Reservation
	err := c.call(ctx, http.MethodGet, c.scoped(), nil, &out, "reservations", string(name))
	return out, err
}

// Reserve asks for room. Asked for again as it is, it is no change, so it is repeated where its answer is lost.
func (c *Client) Reserve(ctx context.Context, v ReservationWish) (Reservation, error) {
	var out Reservation
	err := c.harmless(ctx, http.MethodPost, c.scoped(), rest.Reservation(v), &out, "reservations")
	return out, err
}

// DeleteReservation ends one.
func (c *Client) DeleteReservation(ctx context.Context, name compute.ReservationName) (Reservation, error) {
	var out Reservation
	err := c.harmless(ctx, http.MethodDelete, c.scoped(), nil, &out, "reservations", string(name))
	return out, err
}
