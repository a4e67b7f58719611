package kafka

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry/telemetrytest"
	"github.com/berth-project/berth/pkg/wire"
)

// counting gives a configuration metrics of its own.
func counting(cfg Config) (Config, *prometheus.Registry) {
	reg := prometheus.NewRegistry()
	cfg.Metrics = NewMetrics(reg)
	return cfg, reg
}

// becomes waits until a metric has a value.
func becomes(t *testing.T, g prometheus.Gatherer, want float64, family string, labels ...string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := patient(t); ; {
		got, _ := telemetrytest.Value(t, g, family, labels...)
		if got == want {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s %v stays at %v, want %v", family, labels, got, want)
		}
	}
}

func TestMetricsOfALoop(t *testing.T) {
	eachCell(t, 3, func(t *testing.T, cfg Config) {
		counted, reg := counting(cfg)
		l := newLedger(t, "a")
		l.effects = effectsOf(cfg)
		a := loop(t, counted, LoopOptions{TurnRecords: 7}, l)
		await(t, a.Ready(), "the loop is ready")
		becomes(t, reg, 3, "berth_loop_partitions", "state", "ready")
		feeding(t, cfg, "k0", "k1", "k2", "report3", "report4", "report5").more(5, 3)
		openLog(t, cfg, cfg.Topics.Instances()).has(30)
		becomes(t, reg, 30, "berth_loop_effects_total", "result", "ok")
		becomes(t, reg, 0, "berth_loop_lag_records")
		becomes(t, reg, 0, "berth_loop_unsent_effects")
		telemetrytest.Is(t, reg, 3, "berth_loop_restore_duration_seconds")
		if sum := telemetrytest.Sum(t, reg, "berth_loop_turn_records"); sum != 30 {
			t.Errorf("%v inputs decided", sum)
		}
		turns, _ := telemetrytest.Value(t, reg, "berth_loop_turn_duration_seconds")
		commits, _ := telemetrytest.Value(t, reg, "berth_loop_commit_duration_seconds")
		if commits < 5 || turns < commits { // 7 inputs at a time
			t.Errorf("%v turns, %v of them written", turns, commits)
		}
		a.stop(t)
		if _, shown := telemetrytest.Value(t, reg, "berth_loop_partitions"); shown {
			t.Error("a loop that has ended still shows partitions")
		}
		becomes(t, reg, 0, "berth_kafka_connections")
		telemetrytest.Is(t, reg, 0, "berth_kafka_request_errors_total")
		telemetrytest.Is(t, reg, 0, "berth_loop_undone_turns_total")
	})
}

// has reads until there are so many records.
func (l *log) has(n int) {
	l.t.Helper()
	l.until("has all", func() bool { return len(l.recs) >= n })
}

// What is in the log and not decided is seen while the handler is busy.
func TestMetricsOfALoopThatIsBehind(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg Config) {
		counted, reg := counting(cfg)
		l, busy, free := newLedger(t, "a"), make(chan struct{}, 1000), make(chan struct{})
		l.onTurn = func(in wire.Turn, _ *wire.Result) {
			if len(in.Records) > 0 {
				busy <- struct{}{}
				<-free
			}
		}
		a := loop(t, counted, LoopOptions{TurnRecords: 10, TurnTimeout: time.Minute, SessionTimeout: time.Minute}, l)
		await(t, a.Ready(), "the loop is ready")
		f := feeding(t, cfg, "k0")
		f.more(100, 1)
		await(t, busy, "a turn is under way")
		if behind, _ := telemetrytest.Value(t, reg, "berth_loop_lag_records"); behind < 1 {
			t.Errorf("%v behind in the middle of a turn", behind)
		}
		close(free)
		becomes(t, reg, 0, "berth_loop_lag_records")
		if sum := telemetrytest.Sum(t, reg, "berth_loop_turn_records"); sum != 100 {
			t.Errorf("%v inputs decided", sum)
		}
	})
}

func TestMetricsOfUndoneTurns(t *testing.T) {
	eachCell(t, 1, func(t *testing.T, cfg Config) {
		counted, reg := counting(cfg)
		l := newLedger(t, "a")
		l.onTurn = func(_ wire.Turn, res *wire.Result) {
			for i := range res.Changes {
				if l.gained(0) == 1 {
					res.Changes[i].Value = make([]byte, 3<<20) // no broker takes it
				}
			}
		}
		a := loop(t, counted, LoopOptions{}, l)
		await(t, a.Ready(), "the loop is ready")
		feeding(t, cfg, "k0").more(1, 1)
		openLog(t, cfg, cfg.Topics.Instances()).has(1)
		becomes(t, reg, 1, "berth_loop_undone_turns_total")
		becomes(t, reg, 2, "berth_loop_restore_duration_seconds")
	})
}

func (l *ledger) gained(p int32) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gains[p]
}

func TestMetricsOfAPuller(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg := testConfig(b)
		counted, reg := counting(cfg)
		q := initialised(t, cfg, b.Prefix+"g", "a")[0]
		put(t, cfg, cfg.Topics.Build("a"), 0, "0")
		other := pull(t, cfg, PullerOptions{MaxWait: short})
		other.Ack(other.takes(t, "0", q), wire.AckRelease)
		other.settled(t, 1)
		other.end()
		p := pull(t, counted, PullerOptions{MaxWait: short})
		p.Ack(p.takes(t, "0", q), wire.AckAccept)
		p.settled(t, 1)
		if r := p.fetch(t, q); r.Record != nil {
			t.Errorf("pulled again: %+v", r)
		}
		telemetrytest.Is(t, reg, 1, "berth_pull_fetches_total", "result", "record")
		if n := telemetrytest.Sum(t, reg, "berth_pull_deliveries"); n != 2 {
			t.Errorf("delivery %v, not the second", n)
		}
		telemetrytest.Is(t, reg, 1, "berth_pull_acks_total", "result", "done")
		if empty, _ := telemetrytest.Value(t, reg, "berth_pull_fetches_total", "result", "empty"); empty < 1 {
			t.Error("no fetch was empty")
		}
		p.open(t, q)
		telemetrytest.Is(t, reg, 1, "berth_pull_open_fetches")
		p.result(t)
		telemetrytest.Is(t, reg, 0, "berth_pull_open_fetches")
		p.end()
		p.Open(wire.Lane{Group: q.Group}, []wire.QueueRef{q}, 0)
		telemetrytest.Is(t, reg, 0, "berth_pull_open_fetches")
	})
}

func TestMetricsOfProducersAndReaders(t *testing.T) {
	kafkatest.Each(t, func(t *testing.T, b kafkatest.Broker) {
		cfg, reg := counting(testConfig(b))
		makeTopic(t, cfg, cfg.Topics.Hosts(), 1, nil)
		one, two := producer(t, cfg), producer(t, cfg)
		for _, p := range []*Producer{one, two} {
			if err := p.Send(patient(t), wire.Record{Key: []byte("h"), Value: []byte("v")}.To(cfg.Topics.Hosts(), 0)); err != nil {
				t.Fatal(err)
			}
		}
		if err := one.Send(patient(t), wire.Record{Key: []byte("h")}.To(cfg.Topics.Build("none"), 0)); !errors.Is(err, wire.ErrNoTopic) {
			t.Fatal(err)
		}
		telemetrytest.Is(t, reg, 2, "berth_produce_duration_seconds")
		telemetrytest.Is(t, reg, 1, "berth_produce_errors_total", "kind", "no-topic")
		becomes(t, reg, 0, "berth_produce_buffered_records") // counted a moment after who sent it has heard
		r := follow(t, cfg, ReaderOptions{Topic: cfg.Topics.Hosts()})
		await(t, r.Ready(), "the topic is read")
		telemetrytest.Is(t, reg, 2, "berth_read_records_total", "topic", "hosts")
		telemetrytest.Is(t, reg, 0, "berth_read_behind", "topic", "hosts")
		if sent, _ := telemetrytest.Value(t, reg, "berth_kafka_sent_bytes_total"); sent < 100 {
			t.Errorf("%v bytes sent", sent)
		}
	})
}

func TestMetricsOfRequests(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := &NewMetrics(reg).requests
	b := kgo.BrokerMetadata{NodeID: 1}
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	m.OnBrokerConnect(b, 0, nil, errors.New("refused"))
	m.OnBrokerConnect(b, 0, conn, nil)
	m.OnBrokerE2E(b, 0, kgo.BrokerE2E{BytesWritten: 10, BytesRead: 5, TimeToWrite: time.Second, TimeToRead: time.Second})
	m.OnBrokerE2E(b, 0, kgo.BrokerE2E{BytesWritten: 10, ReadErr: errors.New("reset")})
	m.OnBrokerE2E(b, 0, kgo.BrokerE2E{ReadErr: net.ErrClosed}) // by ourselves
	m.OnBrokerE2E(b, 1000, kgo.BrokerE2E{})
	m.OnBrokerE2E(b, -1, kgo.BrokerE2E{})
	m.OnBrokerThrottle(b, 1500*time.Millisecond, true)
	for _, c := range []struct {
		want   float64
		family string
		labels []string
	}{
		{1, "berth_kafka_connects_total", []string{"result", "failed"}},
		{1, "berth_kafka_connects_total", []string{"result", "ok"}},
		{1, "berth_kafka_connections", nil},
		{1, "berth_kafka_request_duration_seconds", []string{"api", "Produce"}},
		{2, "berth_kafka_request_duration_seconds", []string{"api", "other"}},
		{1, "berth_kafka_request_errors_total", nil},
		{20, "berth_kafka_sent_bytes_total", nil},
		{5, "berth_kafka_received_bytes_total", nil},
		{1.5, "berth_kafka_throttled_seconds_total", nil},
	} {
		telemetrytest.Is(t, reg, c.want, c.family, c.labels...)
	}
	if sum := telemetrytest.Sum(t, reg, "berth_kafka_request_duration_seconds", "api", "Produce"); sum != 2 {
		t.Errorf("%v s", sum)
	}
	m.OnBrokerDisconnect(b, conn)
	telemetrytest.Is(t, reg, 0, "berth_kafka_connections")
}

// However many hosts and queues there are, there are few kinds of topics.
func TestTopicLabelsAreFew(t *testing.T) {
	topics := wire.Topics{Prefix: "p."}
	for topic, want := range map[string]string{
		topics.Catalog(): "catalog", topics.Instances(): "instances", topics.Host("h1"): "host", topics.Host("h2"): "host",
		topics.Build("m1.small"): "build", "p.whatever": "other", "": "other",
	} {
		if got := kindOf(topics, topic); got != want {
			t.Errorf("%q is %q, not %q", topic, got, want)
		}
	}
}

func BenchmarkMetricsOfARequest(b *testing.B) {
	m := &NewMetrics(prometheus.NewRegistry()).requests
	e := kgo.BrokerE2E{BytesWritten: 100, BytesRead: 100, TimeToRead: 3 * time.Millisecond}
	for b.Loop() {
		m.OnBrokerE2E(kgo.BrokerMetadata{}, 78, e)
	}
}

func BenchmarkMetricsOfATurn(b *testing.B) {
	for name, m := range map[string]*loopMetrics{"on": newLoopMetrics(prometheus.NewRegistry()), "off": nil} {
		b.Run(name, func(b *testing.B) {
			began := time.Now()
			for b.Loop() {
				m.turned(began, 10)
				m.committed(began)
			}
		})
	}
}

func BenchmarkMetricsOfARecord(b *testing.B) {
	for name, m := range map[string]*produceMetrics{"on": newProduceMetrics(prometheus.NewRegistry()), "off": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m.produced(time.Now(), nil)
			}
		})
	}
}

// What lies in the log and was not read yet counts, whatever a fetch brings.
func TestInputsKnowWhatIsNotRead(t *testing.T) {
	in := newInputs(nil, [inputTopics]*source{{}, {}}, nil, 100)
	in.add(0, [inputTopics]int64{5, 0})
	put := func(topic int, from, next, end int64) {
		t.Helper()
		part := fetchedPart{from: from, next: next, end: end, bytes: 1, records: make([]wire.Record, next-from)}
		if err := in.put(topic, part); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		do   func()
		want int64
	}{
		{func() { put(requests, 5, 8, 20) }, 12},
		{func() { put(reports, 0, 1, 4) }, 15},
		{func() { put(requests, 8, 20, 25) }, 8},
		{func() { put(reports, 1, 4, 4) }, 5},
		{func() { put(requests, 8, 20, 25) }, 5}, // an answer that comes too late
		{func() { in.remove(0) }, 0},
	} {
		if step.do(); in.unread != step.want {
			t.Errorf("step %d: %d are not read, want %d", i, in.unread, step.want)
		}
	}
}
