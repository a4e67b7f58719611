// SPDX-License-Identifier: Apache-2.0

package franz_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/follow"
	"github.com/berth-project/berth/pkg/follow/franz"
)

// A client that consumes, whose fetches would wait for the follower's and the other way round, is refused by name.
func TestUnfitClients(t *testing.T) {
	from := map[string]map[int32]kgo.Offset{"orders": {0: kgo.NewOffset()}}
	for name, v := range map[string]struct {
		opts         []kgo.Opt
		field, value string
	}{
		"defaults":               {nil, "", ""},
		"publishes":              {[]kgo.Opt{kgo.ProducerLinger(0)}, "", ""},
		"consumes topics":        {[]kgo.Opt{kgo.ConsumeTopics("orders", "bills")}, "ConsumeTopics", "bills, orders"},
		"consumes by expression": {[]kgo.Opt{kgo.ConsumeTopics("or.*"), kgo.ConsumeRegex()}, "ConsumeTopics", "or.*"},
		"consumes partitions":    {[]kgo.Opt{kgo.ConsumePartitions(from)}, "ConsumePartitions", "orders"},
		"in a group": {
			[]kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("orders")}, "ConsumerGroup", "g",
		},
		"in a share group": {
			[]kgo.Opt{kgo.ShareGroup("s"), kgo.ConsumeTopics("orders")}, "ShareGroup", "s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := kgo.NewClient(append(v.opts, kgo.SeedBrokers("127.0.0.1:1"))...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = franz.New(client, follow.Options{Handle: func(follow.Batch) {}})
			var e *compute.Error
			named := errors.As(err, &e) && e.Field == v.field && e.Value == v.value && e.Kind == compute.KindInvalid
			if v.field == "" && err != nil || v.field != "" && !named {
				t.Errorf("%v; want %q named", err, v.field)
			}
		})
	}
}
