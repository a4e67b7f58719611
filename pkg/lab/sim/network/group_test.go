// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// Which member of its group a process is, its heartbeats say.
func TestMemberOfAHeartbeat(t *testing.T) {
	for version := range int16(5) {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID = version, "g", "member-1"
		l := NewLink(nil, 0, 1)
		c := &Conn{link: l, broker: 0}
		b := kmsg.NewRequestFormatter(kmsg.FormatterClientID("somebody")).AppendRequest(nil, req, 7)
		c.beats(c.request(b), b)
		if got := l.Member.Load(); got == nil || *got != "member-1" {
			t.Errorf("version %d: %v", version, got)
		}
	}
}

// joiner is a process that joins a group by hand.
type joiner struct {
	link   *Link
	client *kgo.Client
	member string
}

func newJoiner(t *testing.T, network *embedded.Network) *joiner {
	t.Helper()
	j := &joiner{link: NewLink(network, 0, 1)}
	var err error
	j.client, err = kgo.NewClient(
		kgo.SeedBrokers(schedule.World{}.Seeds()...), kgo.Dialer(j.link.Dial), kgo.RequestRetries(0),
	)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// join waits until all have joined.
func (j *joiner) join(ctx context.Context) (*kmsg.JoinGroupResponse, error) {
	for {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType = "g", j.member, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 60_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = "p"
		req.Protocols = append(req.Protocols, p)
		resp, err := req.RequestWith(ctx, j.client)
		if err != nil {
			return nil, err
		}
		j.member = resp.MemberID
		if err = kerr.ErrorForCode(resp.ErrorCode); err != kerr.MemberIDRequired { //nolint:errorlint // it is no other
			return resp, err
		}
	}
}

// sync waits for what the leader has given.
func (j *joiner) sync(ctx context.Context, of int32, leads bool) error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = "g", j.member, of
	if leads {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID = j.member
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	resp, err := req.RequestWith(ctx, j.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// A leader that has joined and says no more, dead or held up, is put out before the sessions of the members end that
// wait for it, and these go on without it.
func TestLeaderFallsSilent(t *testing.T) {
	for name, silence := range map[string]func(*joiner){
		"held up": func(j *joiner) { j.link.Pause() }, "dead": func(j *joiner) { j.link.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 { // whose session ends first is a coin's matter
				synctest.Test(t, func(t *testing.T) { leaderIsSilent(t, silence) })
			}
		})
	}
}

func leaderIsSilent(t *testing.T, silence func(*joiner)) {
	var network embedded.Network
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b, err := embedded.Start(embedded.Options{Listen: func(n, address string) (net.Listener, error) {
		return network.Listen(ctx, n, address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	leader, other := newJoiner(t, &network), newJoiner(t, &network)
	defer func() {
		for _, j := range []*joiner{leader, other} {
			j.link.Kill()
			j.client.Close()
		}
	}()
	first, err := leader.join(ctx)
	if err == nil {
		err = leader.sync(ctx, first.Generation, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	joined := make(chan error, 1)
	go func() {
		_, err := other.join(ctx)
		joined <- err
	}()
	synctest.Wait()
	both, err := leader.join(ctx)
	if err == nil {
		err = <-joined
	}
	if err != nil || both.LeaderID != leader.member {
		t.Fatalf("both join: %v; %s leads", err, both.LeaderID)
	}
	silence(leader)
	within, done := context.WithTimeout(ctx, 20*time.Second)
	defer done()
	if err := other.sync(within, both.Generation, false); err != kerr.RebalanceInProgress { //nolint:errorlint // as above
		t.Fatalf("who waits for the leader is answered %v", err)
	}
	alone, err := other.join(within)
	if err == nil {
		err = other.sync(within, alone.Generation, true)
	}
	if err != nil {
		t.Errorf("without the leader: %v", err)
	}
}
