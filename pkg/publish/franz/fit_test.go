// SPDX-License-Identifier: Apache-2.0

package franz_test

import (
	"errors"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/franz"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

func options() publish.Options {
	return publish.Options{Topics: wire.Topics{Prefix: wire.DefaultPrefix}}
}

// Settings that would lose, double or misplace a request are refused by name.
func TestUnfitClients(t *testing.T) {
	leader := []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}
	for name, v := range map[string]struct {
		opts  []kgo.Opt
		field string
	}{
		"acks of the leader": {leader, "RequiredAcks"},
		"not idempotent":     {[]kgo.Opt{kgo.DisableIdempotentWrite()}, "DisableIdempotentWrite"},
		"makes topics":       {[]kgo.Opt{kgo.AllowAutoTopicCreation()}, "AllowAutoTopicCreation"},
		"in transactions":    {[]kgo.Opt{kgo.TransactionalID("x")}, "TransactionalID"},
		"flushed by hand":    {[]kgo.Opt{kgo.ManualFlushing()}, "ManualFlushing"},
		"round":              {[]kgo.Opt{kgo.RecordPartitioner(kgo.RoundRobinPartitioner())}, "RecordPartitioner"},
		"least backup":       {[]kgo.Opt{kgo.RecordPartitioner(kgo.LeastBackupPartitioner())}, "RecordPartitioner"},
		"sarama's hash": {
			[]kgo.Opt{kgo.RecordPartitioner(kgo.StickyKeyPartitioner(kgo.SaramaCompatHasher(fnv)))},
			"RecordPartitioner",
		},
		"without keys": {
			[]kgo.Opt{kgo.RecordPartitioner(kgo.UniformBytesPartitioner(1<<10, true, false, nil))},
			"RecordPartitioner",
		},
		"defaults":     {nil, ""},
		"manual":       {[]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, ""},
		"Kafka's hash": {[]kgo.Opt{kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil))}, ""},
		"ours beside another": {
			[]kgo.Opt{kgo.RecordPartitioner(franz.Partitioner(options(), kgo.RoundRobinPartitioner()))}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := kgo.NewClient(append(v.opts, kgo.SeedBrokers("127.0.0.1:1"))...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = franz.New(client, options())
			var e *compute.Error
			named := errors.As(err, &e) && e.Field == v.field && e.Kind == compute.KindInvalid && e.Remedy != ""
			if v.field == "" && err != nil || v.field != "" && !named {
				t.Errorf("%v; want %q named", err, v.field)
			}
		})
	}
}

func fnv(b []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}
