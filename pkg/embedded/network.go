// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Network is a network in memory, for everything that should run in virtual
// time: a goroutine that waits for it waits inside the process. It has ports on the loopback
// addresses and nothing else. The zero value is ready for use.
type Network struct{ virtual kfake.VirtualNetwork }

// Dial connects to a listener, or waits for it to accept until ctx ends.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := n.virtual.DialContext(ctx, network, address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err} // as TCP says it
	}
	return c, nil
}

// Listen opens a port. Port 0 is one like any other: there is one of it.
func (n *Network) Listen(_ context.Context, network, address string) (net.Listener, error) {
	return n.virtual.Listen(network, address)
}
