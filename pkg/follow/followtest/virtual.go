// SPDX-License-Identifier: Apache-2.0

package followtest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/embedded"
)

// Virtual is an embedded broker for a test in a bubble, with one empty topic, and the only way to connect to it.
func Virtual(t *testing.T, topic string, partitions int32) (brokers []string, dial Dial) {
	t.Helper()
	var network kfake.VirtualNetwork
	b, err := embedded.Start(embedded.Options{Listen: network.Listen})
	must(t, err)
	t.Cleanup(b.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.Dialer(network.DialContext))
	must(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, topic)
	must(t, err)
	return b.Addrs(), network.DialContext
}
