// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// join is one time that a process joins a group as a member. When all have joined, it is answered, and asks for its
// part.
type join struct {
	group, member string
	session       time.Duration
	asked         atomic.Bool // for its part
}

// early is how long before its session ends a member leaves that was told of the others and does not ask for its part.
// Kafka puts it out, and tells the members that wait for their parts that all join anew. The embedded broker ends the
// sessions of these members, too, since all were told at one moment: some are never answered, and it waits for one
// member too many from then on.
const early = 100 * time.Millisecond

// regroups sees a request that is sent to keep the process in its group.
func (c *Conn) regroups(kind string, b []byte) {
	switch kind {
	case "JoinGroup":
		req := kmsg.NewPtrJoinGroupRequest()
		if read(b, req) && req.MemberID != "" {
			session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
			c.link.joins.Store(&join{group: req.Group, member: req.MemberID, session: session})
		}
	case "SyncGroup":
		if j := c.link.joins.Load(); j != nil {
			j.asked.Store(true)
		}
	default:
		return
	}
	c.owed.Store(true)
}

// answered sees the broker's answer.
func (c *Conn) answered() {
	j := c.link.joins.Load()
	if c.owed.Swap(false) && j != nil && !j.asked.Load() {
		go c.lapse(j)
	}
}

// lapse has a member leave if it does not ask for its part, over a connection of nobody's.
func (c *Conn) lapse(j *join) {
	own, err := c.link.net.Dial(context.Background(), "tcp", c.address)
	if err != nil {
		return // the broker has ended, and with it what it knew of the members
	}
	defer func() { _ = own.Close() }() // nothing is lost
	_ = own.SetReadDeadline(time.Now().Add(j.session - early))
	if _, err := own.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return // likewise
	}
	if c.link.joins.Load() != j || j.asked.Load() {
		return
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = 2, j.group, j.member
	_ = own.SetDeadline(time.Now().Add(early))
	if _, err := own.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 0)); err == nil {
		_, _ = io.ReadFull(own, make([]byte, 4)) // it was done once it is answered
	}
}

// beats remembers which member of its group a process is: its heartbeats say so.
func (c *Conn) beats(kind string, b []byte) {
	req := kmsg.NewPtrHeartbeatRequest()
	if kind == "Heartbeat" && read(b, req) {
		c.link.Member.Store(&req.MemberID)
	}
}

// read reads a request as it is written, its size and its header included.
func read(b []byte, req kmsg.Request) bool {
	if len(b) < 14 {
		return false
	}
	req.SetVersion(int16(binary.BigEndian.Uint16(b[6:])))
	head := 14
	if n := int16(binary.BigEndian.Uint16(b[12:])); n > 0 {
		head += int(n) // the client's name
	}
	if req.IsFlexible() {
		head++ // no tags
	}
	return head < len(b) && req.ReadFrom(b[head:]) == nil
}
