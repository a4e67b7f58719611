// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/telemetry"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// absurdNames can be part of no topic, no key and no terminal's line.
var absurdNames = []string{
	"", "..", ".", "a..b", "a/b", "../../etc/passwd", "a b", "ä", "A", "a\x00b", "\xff\xfe", "a\nb", "a:b", "*",
	"-", strings.Repeat("n", 10_000),
}

// absurdAmounts are sizes that nothing has.
var absurdAmounts = []string{
	"-1",
	"0",
	"9223372036854775807",
	"9223372036854775808",
	"-9223372036854775808",
	"1099511627777",
	"1e30",
	"1.5",
	`"1"`,
	"null",
	"NaN",
}

// post sends a body as it is and answers the status and the problem; again where a busy node says so.
func (r *rig) post(path string, body []byte) (status int, p rest.Problem) {
	r.t.Helper()
	r.poll("the node can say what it thinks of "+path, func() bool {
		status, p = r.postOnce(path, body)
		return !comeAgain(status)
	})
	return status, p
}

func (r *rig) postOnce(path string, body []byte) (int, rest.Problem) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.api+path, bytes.NewReader(body))
	r.must(err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	r.must(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	r.must(err)
	var p rest.Problem
	if resp.StatusCode >= 300 {
		if err := json.Unmarshal(text, &p); err != nil ||
			!strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") {
			r.t.Errorf(
				"%s answers %d, which is no problem: %s, %.200s",
				path,
				resp.StatusCode,
				resp.Header.Get("Content-Type"),
				text,
			)
		}
	}
	return resp.StatusCode, p
}

// refusedByHTTP wants a refusal that says which field and what to do.
func (r *rig) refusedByHTTP(what, path string, body []byte) {
	r.t.Helper()
	status, p := r.post(path, body)
	if status < 400 || status >= 500 {
		r.t.Errorf("%s: answered with %d", what, status)
	}
	said := p.Field != "" || len(p.Errors) > 0 || p.Detail != ""
	if !said || len(p.Detail) > 4096 {
		r.t.Errorf("%s: refused with %+v", what, p)
	}
}

// cli runs the berth command as a user would.
func (r *rig) cli(args ...string) (string, int) {
	r.t.Helper()
	cmd := exec.Command(berth(r.t), args...)
	cmd.Env = append(os.Environ(), "BERTH_API="+r.api, "BERTH_PROJECT=p")
	out, _ := cmd.CombinedOutput() // how it ended is in ProcessState
	return string(out), cmd.ProcessState.ExitCode()
}

func TestAbsurdSizesAndNames(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r, c := oneFlavor(t, b, smallHosts(2)...)
		quoted := func(s string) string { q, _ := json.Marshal(s); return string(q) }
		for _, n := range absurdAmounts {
			flavor := fmt.Appendf(nil, `{"name":"bad","resources":{"VCPU":%s,"MEMORY_MB":1024}}`, n)
			r.refusedByHTTP("a flavor of "+n+" vcpus", "/v1/flavors", flavor)
			r.refusedByHTTP(
				"a capability of "+n,
				"/v1/capabilities",
				fmt.Appendf(nil, `{"axis":"bad","values":[{"value":"v","consumes":{"CUSTOM_X":%s}}]}`, n),
			)
			r.refusedByHTTP(
				n+" attempts",
				"/v1/instances",
				fmt.Appendf(nil, `{"flavor":"m1.small","attempts":%s,"deadline":"-1s"}`, n),
			)
		}
		for _, n := range absurdNames {
			q := quoted(n)
			r.refusedByHTTP("flavor "+q, "/v1/flavors", fmt.Appendf(nil, `{"name":%s,"resources":{"VCPU":1}}`, q))
			r.refusedByHTTP("class "+q, "/v1/flavors", fmt.Appendf(nil, `{"name":"bad","resources":{%s:1}}`, q))
			r.refusedByHTTP(
				"trait "+q,
				"/v1/flavors",
				fmt.Appendf(nil, `{"name":"bad","resources":{"VCPU":1},"required":[%s]}`, quoted(n+"ä")),
			)
			r.refusedByHTTP("axis "+q, "/v1/capabilities", fmt.Appendf(nil, `{"axis":%s,"values":[{"value":"v"}]}`, q))
			r.refusedByHTTP(
				"value "+q,
				"/v1/capabilities",
				fmt.Appendf(nil, `{"axis":"bad","values":[{"value":%s}]}`, q),
			)
			r.refusedByHTTP("boot of flavor "+q, "/v1/instances", fmt.Appendf(nil, `{"flavor":%s}`, q))
			r.refusedByHTTP(
				"boot with "+q,
				"/v1/instances",
				fmt.Appendf(nil, `{"flavor":"m1.small","with":{%s:"x"}}`, q),
			)
			r.refusedByHTTP(
				"boot to avoid "+q,
				"/v1/instances",
				fmt.Appendf(nil, `{"flavor":"m1.small","avoid":[%s]}`, q),
			)
			if n != "" {
				r.refusedByHTTP(
					"project "+q,
					"/v1/instances",
					fmt.Appendf(nil, `{"flavor":"m1.small","project":%s}`, q),
				)
				r.refusedByHTTP("id "+q, "/v1/instances", fmt.Appendf(nil, `{"flavor":"m1.small","id":%s}`, q))
				r.refusedByHTTP("host "+q, "/v1/instances", fmt.Appendf(nil, `{"flavor":"m1.small","host":%s}`, q))
			}
		}
		r.refusedByHTTP("no resources", "/v1/flavors", []byte(`{"name":"bad","resources":{}}`))
		r.refusedByHTTP("thousands of classes", "/v1/flavors", thousandsOfClasses(5000))
		r.refusedByHTTP(
			"invalid UTF-8",
			"/v1/instances",
			[]byte(
				"{\"flavor\":\"m1.small\",\"metadata\":{\"\xff\":\"\xfe\"},\"name\":\"\xff\","+
					"\"image\":\"\xff\",\"x\":1}",
			),
		)
		r.refusedByHTTP("no JSON", "/v1/instances", []byte("\x00\x01\x02"))
		r.refusedByHTTP("deep JSON", "/v1/instances", []byte(strings.Repeat("[", 100_000)))
		r.refusedByHTTP(
			"a name of 10,000",
			"/v1/instances",
			fmt.Appendf(nil, `{"flavor":"m1.small","name":%q}`, strings.Repeat("n", 10_000)),
		)
		r.sumsOverflow(c)
		r.refusedByCLI()
		flavors, err := c.Flavors(t.Context())
		r.must(err)
		if len(flavors) != 2 || flavors[0].Name != "big" || flavors[1].Name != "m1.small" {
			t.Errorf("the flavors are %+v", flavors)
		}
		ids := r.boot(c, 3, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.sane()
	})
}

func thousandsOfClasses(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"CUSTOM_C%d":1,`, i)
	}
	return fmt.Appendf(nil, `{"name":"bad","resources":{%s"VCPU":1}}`, b.String())
}

// sumsOverflow adds what fits alone and not together.
func (r *rig) sumsOverflow(c *client.Client) {
	r.t.Helper()
	most := compute.Resources{compute.VCPU: compute.MaxAmount}
	more := compute.Capability{Axis: "more", Values: []compute.CapabilityValue{{Value: "v", Consumes: most}}}
	answered(r, func() (client.Change, error) { return c.AddCapability(r.t.Context(), more, false) })
	sum := compute.Flavor{Name: "sum", Resources: most, Capabilities: []compute.AxisName{"more"}}
	r.able("a flavor is refused", func() error {
		_, err := c.AddFlavor(r.t.Context(), sum, false)
		if err = mayPass(err); compute.KindOf(err) == compute.KindUnavailable {
			return err
		}
		if compute.KindOf(err) != compute.KindInvalid {
			r.t.Errorf("a sum beyond any amount: %v", err)
		}
		return nil
	})
	// The most there can be, often: the sum never turns round.
	_, err := c.SetQuota(
		r.t.Context(),
		compute.Quota{Project: "p", Limits: compute.Resources{compute.VCPU: 2 * compute.MaxAmount}},
	)
	if compute.KindOf(err) != compute.KindInvalid {
		r.t.Errorf("a quota beyond any amount: %v", err)
	}
	_, err = c.SetQuota(
		r.t.Context(),
		compute.Quota{Project: "p", Limits: compute.Resources{compute.VCPU: compute.MaxAmount}},
	)
	r.must(err)
	// A conductor that has read of the flavor has read of the quota before it.
	r.offer(c, nil, []compute.Flavor{{Name: "big", Resources: most}})
	ids := r.boot(c, 5, compute.Boot{Flavor: "big"})
	r.await(ids[:1], compute.StateQueued) // no host has that much
	r.await(ids[1:], compute.StateError)
	for _, id := range ids[1:] {
		r.reason(id, compute.QuotaExceeded)
	}
	r.delete(c, ids)
	r.seen.await(r.t, "all deleted", func(now map[compute.InstanceID]compute.Instance) bool {
		return !slices.ContainsFunc(
			ids,
			func(id compute.InstanceID) bool { return now[id].State != compute.StateDeleted },
		)
	})
	r.unused(c)
}

// refusedByCLI types what nobody should.
func (r *rig) refusedByCLI() {
	r.t.Helper()
	flavor := []string{"flavor", "add", "bad", "--memory", "1GiB", "--disk", "1GiB", "--vcpus"}
	for _, args := range [][]string{
		append(flavor, "-1"), append(flavor, "9223372036854775807"), append(flavor, "9223372036854775808"),
		append(flavor, "x"),
		{"flavor", "add", "bad", "--vcpus", "1", "--memory", "9223372036854775807TiB"},
		{"flavor", "add", "bad", "--vcpus", "1", "--memory", "-1GiB"},
		{"flavor", "add", "../bad", "--vcpus", "1", "--memory", "1GiB"},
		{"flavor", "add", strings.Repeat("n", 10_000), "--vcpus", "1", "--memory", "1GiB"},
		{"flavor", "add", "\xff\xfe", "--vcpus", "1", "--memory", "1GiB"},
		{"boot", "--flavor", "m1.small", "--count", "-1"},
		{"boot", "--flavor", "m1.small", "--deadline", "-1h"},
		{"boot", "--flavor", "m1.small", "--attempts", "99999999999999999999"},
		{"boot", "--flavor", "a/../b"},
		{"boot", "--flavor", "m1.small", "--with", "=\xff"},
		{"quota", "set", "p", "--vcpus", "-5"},
		{"quota", "set", "../p", "--vcpus", "5"},
		{"delete", "../../x"},
		{"show", strings.Repeat("x", 10_000)},
		{"host", "drain", "\xff"},
	} {
		out, code := r.cli(args...)
		if code == 0 || strings.Contains(out, "panic") || strings.Contains(out, "goroutine") || len(out) > 20_000 {
			r.t.Errorf("%.60q exits with %d: %.300s", args, code, out)
		}
	}
}

// The same absurdities as records, past every check of the API.
func TestAbsurdRecords(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(2)...)
		r.metrics = telemetry.NewMetrics()
		c := r.upWithOne()
		refused, topics := r.refusals(), r.cell("").Topics()
		flavor := func(f compute.Flavor) wire.Record { return wire.EncodeFlavor(f).To(topics.Catalog(), 0) }
		amount := func(n int64) compute.Resources { return compute.Resources{compute.VCPU: n} }
		classes := compute.Resources{}
		for i := range 5000 {
			classes[compute.ResourceClass(fmt.Sprintf("CUSTOM_C%d", i))] = 1
		}
		bad := []wire.Record{
			flavor(compute.Flavor{Name: "m1.small", Resources: amount(-1)}),
			flavor(compute.Flavor{Name: "m1.small", Resources: amount(math.MaxInt64)}),
			flavor(compute.Flavor{Name: "m1.small", Resources: amount(math.MinInt64)}),
			flavor(compute.Flavor{Name: "m1.small", Resources: amount(0)}),
			flavor(compute.Flavor{Name: "m1.small"}),
			flavor(compute.Flavor{Name: "m1.small", Resources: classes}),
			wire.EncodeCapability(
				compute.Capability{Axis: "gpu", Values: []compute.CapabilityValue{{Value: "v", Consumes: amount(-7)}}},
			).To(
				topics.Catalog(),
				0,
			),
			wire.EncodeQuota(compute.Quota{Project: "p", Limits: amount(-7)}).To(topics.Catalog(), 0),
			wire.EncodeQuota(compute.Quota{Project: "p", Limits: amount(math.MaxInt64)}).To(topics.Catalog(), 0),
		}
		for _, n := range absurdNames {
			bad = append(
				bad,
				wire.Record{
					Key:   []byte("flavor/" + n),
					Value: wire.EncodeFlavor(compute.Flavor{Name: compute.FlavorName(n), Resources: amount(1)}).Value,
				}.To(
					topics.Catalog(),
					0,
				),
			)
			if n != "" {
				bad = append(
					bad,
					wire.EncodeBeacon(compute.Beacon{Host: compute.HostID(n), Free: amount(1)}).To(topics.Hosts(), 0),
				)
			}
		}
		for _, n := range []int64{-1, math.MaxInt64, math.MinInt64} {
			bad = append(
				bad,
				wire.EncodeBeacon(
					compute.Beacon{Host: "host-77", Inventory: compute.Inventory{Totals: amount(n)}},
				).To(
					topics.Hosts(),
					0,
				),
			)
		}
		bad = append(
			bad,
			wire.EncodeBeacon(
				compute.Beacon{Host: "host-77", Inventory: compute.Inventory{Totals: classes}},
			).To(
				topics.Hosts(),
				0,
			),
		)
		bad = append(bad, r.absurdRequests()...)

		i := -1
		want := expected(
			r.throwAll(len(bad), func() wire.Record { i++; return bad[i] }),
			func(wire.Record) bool { return true },
		)
		for topic := range map[string]bool{topics.Catalog(): true, topics.Hosts(): true, topics.Requests(): true} {
			of := map[place]bool{}
			for at := range want {
				if at.topic == topic {
					of[at] = true
				}
			}
			refused.await(t, topic, of)
			refused.only(t, topic, of)
		}
		ids := r.boot(c, 16, compute.Boot{Flavor: "m1.small"})
		r.await(ids, compute.StateActive)
		r.delete(c, ids)
		r.await(ids, compute.StateDeleted)
		r.unused(c)
		r.sane()
	})
}

// absurdRequests are boots of project p in its partition.
func (r *rig) absurdRequests() []wire.Record {
	topics := r.cell("").Topics()
	boot := func(change func(*compute.Request)) wire.Record {
		q := compute.Request{
			Project:  "p",
			Instance: compute.InstanceID(uuid.NewString()),
			Op:       compute.OpBoot,
			Boot:     &compute.Boot{Flavor: "m1.small"},
		}
		change(&q)
		rec := wire.EncodeRequest(q)
		rec.Key = []byte("p")
		return rec.To(topics.Requests(), wire.Partition("p", r.kafka.Partitions))
	}
	var out []wire.Record
	for _, n := range absurdNames {
		out = append(out,
			boot(func(q *compute.Request) { q.Boot.Flavor = compute.FlavorName(n) }),
			boot(func(q *compute.Request) { q.Project = compute.Project(n) }),
			boot(func(q *compute.Request) { q.Instance = compute.InstanceID(n) }),
			boot(func(q *compute.Request) { q.Boot.Avoid = []compute.HostID{compute.HostID(n)} }),
			boot(func(q *compute.Request) { q.Boot.With = compute.Choices{compute.AxisName(n): "v"} }))
	}
	return append(out,
		boot(func(q *compute.Request) { q.Boot.Attempts = math.MaxUint32 }),
		boot(func(q *compute.Request) { q.Boot.Deadline = math.MinInt64 }),
		boot(func(q *compute.Request) { q.Boot.Deadline = math.MaxInt64 }),
		boot(func(q *compute.Request) { q.Boot.Name = strings.Repeat("n", 10_000) }),
		boot(func(q *compute.Request) { q.Command = compute.CommandID(strings.Repeat("c", 10_000)) }),
		boot(func(q *compute.Request) { q.Boot.UserData = compute.UserData(make([]byte, 900<<10)) }),
		boot(func(q *compute.Request) { q.Boot.UserData = compute.UserData(make([]byte, compute.MaxUserData+1)) }),
		boot(func(q *compute.Request) { // each choice is harmless; all of them, twice, are more than a batch holds
			q.Boot.With = compute.Choices{}
			for i := range 7000 {
				q.Boot.With[compute.AxisName(fmt.Sprintf("a%030d", i))] = compute.AxisValue(fmt.Sprintf("%032d", i))
			}
		}))
}

// throwAll writes records that know their topic and partition.
func (r *rig) throwAll(n int, next func() wire.Record) []wire.Record {
	r.t.Helper()
	p, err := write.NewProducer(r.cell("attacker").Kafka)
	r.must(err)
	defer p.Close()
	out, errs := make([]wire.Record, n), make(chan error, n)
	for i := range n {
		out[i] = next()
		p.SendAsync(out[i], func(offset int64, err error) {
			out[i].Offset = offset
			if err != nil {
				err = fmt.Errorf("%s: %.200w", out[i].Topic, err)
			}
			errs <- err
		})
	}
	for range n {
		r.must(<-errs)
	}
	return out
}
