// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
)

func TestStatCPU(t *testing.T) {
	for stat, want := range map[string]float64{
		"42 (java) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 60 0 100 1 2": 3,
		"42 (a b) c) 7) S 1 42 42 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 60":         0.03,
	} {
		if got, ok := statCPU(stat); !ok || got != want {
			t.Errorf("%q: %v, %v; want %v", stat, got, ok, want)
		}
	}
	for _, stat := range []string{"", "42 (java) S 1", "42 (java) S 1 42 42 0 -1 4194560 100 0 0 0 x y"} {
		if _, ok := statCPU(stat); ok {
			t.Errorf("%q was read", stat)
		}
	}
}

func TestMachineCPU(t *testing.T) {
	want := machineTime{used: 1.63, stolen: 0.08}
	if got, ok := machineCPU("cpu  100 20 30 4000 500 6 7 8 900 0\ncpu0 1 2 3"); !ok || got != want {
		t.Errorf("got %+v, %v; want %+v: neither idle nor waiting, and no guest twice", got, ok, want)
	}
	for _, stat := range []string{"", "cpu 1 2 3", "cpux 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"} {
		if _, ok := machineCPU(stat); ok {
			t.Errorf("%q was read", stat)
		}
	}
}

func TestThisProcessUsesSomething(t *testing.T) {
	u := measureUsage([]int{os.Getpid(), os.Getpid()})
	if ownCPU() <= 0 || u.broker == nil {
		t.Errorf("got %+v, own %v", u, ownCPU())
	}
	if one := measureUsage([]int{os.Getpid()}); u.broker == nil || *u.broker < 1.5**one.broker {
		t.Errorf("two brokers used %v s, one %v s", *u.broker, *one.broker)
	}
	if u := measureUsage([]int{os.Getpid(), 1 << 30}); u.broker != nil {
		t.Errorf("of two brokers, one of which is gone, %v s are known", *u.broker)
	}
	if s := measureUsage(nil).since(u, 1); s.Broker != nil {
		t.Errorf("of a broker elsewhere %v is known", *s.Broker)
	}
	if m := allOf([]int{os.Getpid()}, resident); m == nil || *m <= 0 {
		t.Errorf("memory %v", m)
	}
	if m := thisMachine(); m.Cores < 1 || m.Memory <= 0 || m.Kernel == "" {
		t.Errorf("got %+v", m)
	}
}

func TestEnoughFiles(t *testing.T) {
	o := Options{Hosts: 2100, Kafka: KafkaLocal}.WithDefaults()
	if err := enoughFiles(o, 20_000); err != nil {
		t.Errorf("2,100 hosts with 20,000 files: %v", err)
	}
	for _, o := range []Options{{Hosts: 2200, Kafka: KafkaLocal}, {Hosts: 1100}, {Hosts: 800, Kafka: "a:1,b:1,c:1"}} {
		err := enoughFiles(o.WithDefaults(), 20_000)
		var e *compute.Error
		if !errors.As(err, &e) || e.Field != "hosts" || !strings.Contains(e.Remedy, "ulimit -Hn") {
			t.Errorf("%d hosts: %v, want the flag and what to do", o.Hosts, err)
		}
	}
}

func TestWarningsAreCounted(t *testing.T) {
	said := newTally()
	log := said.on(zap.NewNop()).Named("agent").With(zap.String("host", "h"))
	log.Warn("no", zap.Int("n", 1))
	log.Warn("no", zap.Int("n", 2))
	log.Error("worse")
	log.Info("fine")
	if want := map[string]int{"agent: no": 2, "agent: worse": 1}; !maps.Equal(said.counts(), want) {
		t.Errorf("got %v, want %v", said.counts(), want)
	}
}
