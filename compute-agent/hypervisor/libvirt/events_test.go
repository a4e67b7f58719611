// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libvirt

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/berth-project/berth/compute-agent/hypervisor"
	"github.com/berth-project/berth/compute-agent/hypervisor/hypervisortest"
)

// registerAny is the number of the call that asks libvirt for events, in libvirt's remote_protocol.x.
const registerAny = 316

// A libvirt that goes away in the very moment in which it was asked for events leaves nobody who waits for them for
// ever: Events tries again.
func TestEventsAreCutOffAtOnce(t *testing.T) {
	t.Parallel()
	d, b := onTestDriver(t)
	var cut atomic.Int32
	d.o.Socket = cutter(t, b, &cut)
	const times = 300 // without conn.gone some ten of them do not return
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range times {
			l := listener{d: d, tell: func(hypervisor.Event) {}}
			_ = l.listen(t.Context())
		}
	}()
	hypervisortest.Receive(t, "the end of what listens on connections that are gone", ended)
	if n := cut.Load(); n != times {
		t.Errorf("%d connections were asked for events and cut, want %d", n, times)
	}
}

// cutter is a socket before libvirt's that cuts a connection when it has passed on the answer to a client that asks
// for events, and counts that.
func cutter(t *testing.T, b *daemon, cut *atomic.Int32) string {
	socket := filepath.Join(b.root, "cutter")
	l, err := net.Listen("unix", socket)
	b.ok(err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", b.socket())
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() {
				if untilRegistered(near, far) {
					cut.Add(1)
				}
				_ = near.Close()
				_ = far.Close()
			}()
		}
	}()
	return socket
}

// untilRegistered passes on what libvirt says, messages with their length before them and the number of the call, and
// says whether the last was the answer to a client that asks for events.
func untilRegistered(near, far net.Conn) bool {
	for {
		head := make([]byte, 28)
		if _, err := io.ReadFull(far, head); err != nil {
			return false
		}
		rest := make([]byte, int(binary.BigEndian.Uint32(head))-len(head))
		if _, err := io.ReadFull(far, rest); err != nil {
			return false
		}
		if _, err := near.Write(append(head, rest...)); err != nil {
			return false
		}
		if binary.BigEndian.Uint32(head[12:]) == registerAny {
			return true
		}
	}
}
