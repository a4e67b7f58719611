// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafka/internal/clienttest"
	"github.com/berth-project/berth/pkg/wire"
)

// A report that is patient waits for company, as long as it said and no longer;
// what comes meanwhile takes it along, on any partition. What is not patient
// does not wait, and neither does any request.
func TestPatientReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := brokertest.VirtualCell(t)
		const patience = time.Second
		l := newLedger(t, "a")
		began := time.Now()
		var turns []string
		l.onTurn = func(in wire.Turn, _ *wire.Result) {
			var of []string
			for _, r := range in.Records {
				of = append(of, string(r.Value))
			}
			if of != nil {
				turns = append(turns, in.Now.Sub(began).Truncate(time.Millisecond).String()+" "+strings.Join(of, ","))
			}
		}
		a := loop(t, cfg, Options{Patience: func(r wire.Record) time.Duration {
			if strings.HasPrefix(string(r.Value), "patient") {
				return patience
			}
			return 0
		}}, l)
		brokertest.Await(t, a.Ready(), "the loop is ready")
		p := clienttest.Producer(t, cfg)
		at := func(after time.Duration, topic string, partition int32, value string) {
			time.Sleep(time.Until(began.Add(after)))
			if err := p.Send(
				t.Context(), wire.Record{Key: []byte(value), Value: []byte(value)}.To(topic, partition),
			); err != nil {
				t.Fatal(err)
			}
		}
		requests, reports := cfg.Topics.Requests(), cfg.Topics.Reports()
		at(10*time.Second, reports, 0, "patient 1")
		at(20*time.Second, reports, 0, "patient 2")
		at(20*time.Second+300*time.Millisecond, reports, 0, "patient 3")
		at(20*time.Second+600*time.Millisecond, requests, 1, "boot")
		at(30*time.Second, reports, 1, "claim")
		at(40*time.Second, requests, 0, "patient request")
		at(50*time.Second, reports, 0, "patient 4")
		at(50*time.Second+300*time.Millisecond, reports, 0, "patient 5")
		time.Sleep(10 * time.Second)
		a.stop(t)
		p.Close()
		want := []string{
			"11s patient 1", "20.6s patient 2,patient 3,boot", "30s claim", "40s patient request",
			"51s patient 4,patient 5",
		}
		if diff := cmp.Diff(want, turns); diff != "" {
			t.Error(diff)
		}
	})
}
