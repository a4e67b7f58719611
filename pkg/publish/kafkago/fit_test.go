// SPDX-License-Identifier: Apache-2.0

package kafkago_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/publish"
	"github.com/berth-project/berth/pkg/publish/kafkago"
	"github.com/berth-project/berth/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m.Run)) }

// Settings that would lose or misplace a request are refused by name.
func TestUnfitWriters(t *testing.T) {
	for field, change := range map[string]func(*kafka.Writer){
		"Addr":                   func(w *kafka.Writer) { w.Addr = nil },
		"RequiredAcks":           func(w *kafka.Writer) { w.RequiredAcks = kafka.RequireNone },
		"Async":                  func(w *kafka.Writer) { w.Async = true },
		"AllowAutoTopicCreation": func(w *kafka.Writer) { w.AllowAutoTopicCreation = true },
		"Topic":                  func(w *kafka.Writer) { w.Topic = "others" },
		"Balancer":               func(w *kafka.Writer) { w.Balancer = &kafka.Hash{} },
		"Balancer ":              func(w *kafka.Writer) { w.Balancer = nil },
		"Balancer  ":             func(w *kafka.Writer) { w.Balancer = kafka.CRC32Balancer{} },
		"":                       func(*kafka.Writer) {},
		" ":                      func(w *kafka.Writer) { w.Topic = "berth.requests" },
		"  ":                     func(w *kafka.Writer) { w.Balancer = kafka.Murmur2Balancer{Consistent: true} },
		"   ":                    func(w *kafka.Writer) { w.Balancer = kafkago.Balancer{Others: &kafka.LeastBytes{}} },
	} {
		w := &kafka.Writer{Addr: kafka.TCP("127.0.0.1:1"), RequiredAcks: kafka.RequireAll, Balancer: kafkago.Balancer{}}
		change(w)
		_, err := kafkago.New(w, publish.Options{Topics: wire.Topics{Prefix: wire.DefaultPrefix}})
		want := strings.TrimSpace(field)
		var e *compute.Error
		if want == "" && err != nil ||
			want != "" && (!errors.As(err, &e) || e.Field != want || e.Kind != compute.KindInvalid || e.Remedy == "") {
			t.Errorf("%v; want %q named", err, want)
		}
	}
}
