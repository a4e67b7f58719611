// SPDX-License-Identifier: Apache-2.0

package kafkatest

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/localkafka"
)

// LockedBroker is a broker with an authorizer: it allows a user nothing by itself.
type LockedBroker struct {
	Addrs []string // where users sign in by SCRAM-SHA-256
	Open  []string // where everybody may do everything; none of an embedded broker
	Root  User     // may do everything
	Real  bool     // Kafka, not the embedded broker
	// Dial reaches one in virtual time; nil: plain TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	fake *kfake.Cluster
}

const lockedMechanism = "SCRAM-SHA-256"

func rootUser() User { return User{Name: "root", Password: "pw-root"} }

// Locked is an embedded one, with users who may do nothing yet. Where it is laxer than Kafka: READ on a group is asked
// for only where there is such a group.
func Locked(t testing.TB, users ...User) LockedBroker {
	t.Helper()
	c, err := kfake.NewCluster(lockedOptions(users)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return LockedBroker{Addrs: c.ListenAddrs(), Root: rootUser(), fake: c}
}

// LockedVirtual is an embedded one inside a bubble of testing/synctest. Call end before the bubble ends.
func LockedVirtual(t testing.TB, users ...User) (b LockedBroker, end func()) {
	t.Helper()
	var network kfake.VirtualNetwork
	c, err := kfake.NewCluster(append(lockedOptions(users), kfake.Ports(9092), kfake.ListenFn(network.Listen))...)
	if err != nil {
		t.Fatal(err)
	}
	end = func() {
		c.Close()
		time.Sleep(time.Second) // kgo does not wait for a connection that it was opening
	}
	return LockedBroker{Addrs: c.ListenAddrs(), Root: rootUser(), Dial: network.DialContext, fake: c}, end
}

func lockedOptions(users []User) []kfake.Opt {
	root := rootUser()
	opts := []kfake.Opt{
		kfake.NumBrokers(1), kfake.EnableACLs(), kfake.EnableSASL(),
		kfake.Superuser(lockedMechanism, root.Name, root.Password),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}),
	}
	for _, u := range users {
		opts = append(opts, kfake.User(lockedMechanism, u.Name, u.Password))
	}
	return opts
}

// LockedKafka is Kafka with its StandardAuthorizer. settings go over those that this needs.
func LockedKafka(t testing.TB, settings map[string]string, users ...User) LockedBroker {
	t.Helper()
	Need(t)
	ports, err := localkafka.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	clients := "PLAINTEXT://" + at(0) + ",USERS://" + at(1)
	all := map[string]string{
		"listeners": clients + ",CONTROLLER://" + at(2), "advertised.listeners": clients,
		"controller.quorum.voters":       "1@" + at(2),
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
		"sasl.enabled.mechanisms":        lockedMechanism,
		"listener.name.users.scram-sha-256.sasl.jaas.config": "" +
			"org.apache.kafka.common.security.scram.ScramLoginModule required;",
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":           "User:ANONYMOUS;User:root",
	}
	maps.Copy(all, settings)
	StartT(t, localkafka.Options{Properties: all})
	b := LockedBroker{Addrs: []string{at(1)}, Open: []string{at(0)}, Root: rootUser(), Real: true}
	if err := AddUsers(t.Context(), b.Open, append(users, b.Root)...); err != nil {
		t.Fatal(err)
	}
	return b
}

// Asked counts how often conductors ask an embedded broker for their rights, from now on: nothing else in Berth ends a
// transaction.
func (b LockedBroker) Asked() func() int64 {
	var n atomic.Int64
	b.fake.ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return n.Load
}
