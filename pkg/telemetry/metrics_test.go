// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetricsHandler(t *testing.T) {
	m := NewMetrics()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, family := range []string{"berth_build_info{", "go_goroutines ", "process_start_time_seconds "} {
		if !strings.Contains(w.Body.String(), "\n"+family) {
			t.Errorf("%d %s is missing in\n%s", w.Code, family, w.Body)
		}
	}
}

func TestNoMetrics(t *testing.T) {
	if r := (*Metrics)(nil).Registerer(); r != nil {
		t.Errorf("%v", r)
	}
}

type testMetrics struct {
	Bundle
	done prometheus.Counter
}

func newTestMetrics(r prometheus.Registerer) *testMetrics {
	m := &testMetrics{}
	m.done = m.Counter("berth_test_done_total", "What was done.")
	m.Histograms("berth_test_seconds", "How long it took.", Short(), "what").WithLabelValues("test").Observe(1)
	return Shared(r, m)
}

func TestComponentsOfAKindShareTheirMetrics(t *testing.T) {
	m := NewMetrics()
	newTestMetrics(m.Registerer()).done.Inc()
	newTestMetrics(m.Registerer()).done.Inc()
	if got := testutil.ToFloat64(newTestMetrics(m.Registerer()).done); got != 2 {
		t.Errorf("%v", got)
	}
	if n, err := testutil.GatherAndCount(m.Gatherer(), "berth_test_done_total", "berth_test_seconds"); n != 2 ||
		err != nil {
		t.Errorf("%d %v", n, err)
	}
	newTestMetrics(NewMetrics().Registerer()).done.Inc() // another process's
	defer func() {
		if recover() == nil {
			t.Error("a name that is taken was accepted")
		}
	}()
	Shared(m.Registerer(), prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_test_done_total", Help: "What was done.",
	}))
}
