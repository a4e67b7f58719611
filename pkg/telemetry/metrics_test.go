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

func TestSharedCountsTogether(t *testing.T) {
	r := NewMetrics().Registerer()
	one := func() prometheus.Counter {
		return Shared(r, prometheus.NewCounter(prometheus.CounterOpts{Name: "berth_test_total", Help: "h"}))
	}
	one().Inc()
	one().Inc()
	if got := testutil.ToFloat64(one()); got != 2 {
		t.Errorf("%v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("another type under the same name was accepted")
		}
	}()
	Shared(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "berth_test_total", Help: "h"}, nil))
}
