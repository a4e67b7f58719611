// SPDX-License-Identifier: Apache-2.0

package sarama

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

const topic = "instances"

// listens is broker 1 at an address of its own, and a client that knows it there.
func listens(t *testing.T) (*sarama.MockBroker, sarama.Client) {
	t.Helper()
	const metadata = 3
	b := sarama.NewMockBroker(t, 1)
	b.SetHandlerByMap(map[string]sarama.MockResponse{
		"ApiVersionsRequest": sarama.NewMockApiVersionsResponse(t).
			SetApiKeys([]sarama.ApiVersionsResponseKey{{ApiKey: metadata, MaxVersion: 7}}),
		"MetadataRequest": sarama.NewMockMetadataResponse(t).
			SetBroker(b.Addr(), 1).SetController(1).SetLeader(topic, 0, 1),
	})
	c := sarama.NewConfig()
	c.Metadata.Retry.Max = 0
	client, err := sarama.NewClient([]string{b.Addr()}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return b, client
}

// moving is a client that knows the brokers at other addresses from some time on.
type moving struct {
	sarama.Client
	mu        sync.Mutex
	next      sarama.Client // that knows them there
	moved     bool
	refreshed chan bool // it was told to look
}

func (m *moving) Brokers() []*sarama.Broker {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved {
		return m.next.Brokers()
	}
	return m.Client.Brokers()
}

func (m *moving) RefreshMetadata(...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved = true
	m.refreshed <- true
	return nil
}

// Brokers that are all at other addresses are found there, as soon as the client knows it; and where none answers, the
// client is told to look.
func TestBrokersAtOtherAddresses(t *testing.T) {
	for name, knows := range map[string]bool{"the client knows": true, "the client must look": false} {
		t.Run(name, func(t *testing.T) {
			first, client := listens(t)
			second, next := listens(t)
			m := &moving{Client: client, next: next, refreshed: make(chan bool, 9)}
			a := &adapter{client: m, patience: time.Minute, brokers: map[key]*broker{}, addrs: map[int32]string{}}
			defer func() {
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := a.Leaders(ctx, topic); err != nil || a.addr(1) != first.Addr() {
				t.Fatalf("at first: %v, at %s", err, a.addr(1))
			}
			first.Close()
			defer second.Close()
			m.moved = knows
			_, err := a.Leaders(ctx, topic)
			if knows == (err != nil) {
				t.Errorf("once they moved: %v", err)
			}
			if !knows {
				select {
				case <-m.refreshed:
				case <-ctx.Done():
					t.Fatal("the client was not told to look")
				}
			}
			if _, err := a.Leaders(ctx, topic); err != nil || a.addr(1) != second.Addr() {
				t.Errorf("after that: %v, at %s", err, a.addr(1))
			}
			if len(m.refreshed) > 0 {
				t.Error("the client was told to look, without need")
			}
		})
	}
}

// A broker that takes connections and says nothing does not keep another from being asked.
func TestAFrozenBrokerLeavesTimeForAnother(t *testing.T) {
	b, client := listens(t)
	defer b.Close()
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := frozen.Close(); err != nil {
			t.Error(err)
		}
	}()
	a := &adapter{
		client: client, patience: time.Millisecond, brokers: map[key]*broker{},
		addrs: map[int32]string{1: frozen.Addr().String()}, // asked before the one that the client knows
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.Leaders(ctx, topic); err != nil {
		t.Error(err)
	}
}
