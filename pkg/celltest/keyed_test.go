// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/berth-project/berth/pkg/cell"
	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/statusserver"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// secondAPI starts another API node of the rig and answers its address.
func (r *rig) secondAPI(name string) string {
	r.t.Helper()
	part, f := cell.NewAPIWithServer(
		r.prepared(name), statusserver.Options{Address: "127.0.0.1:0", Listen: r.net.listen}, cell.APIOptions{})
	r.start(name, part)
	return f.Addr().String()
}

// keyed boots a machine at an API node, as a client does that knows no id. It asks again where a busy node says so: the
// key makes that harmless.
func (r *rig) keyed(api, key, body string) (i client.Instance, p *rest.Problem) {
	r.t.Helper()
	r.poll("the node can say whether it is accepted", func() bool {
		i, p = r.keyedOnce(api, key, body)
		return p == nil || !comeAgain(p.Status)
	})
	return i, p
}

// comeAgain says that an API node could not do now what it was asked for.
func comeAgain(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

func (r *rig) keyedOnce(api, key, body string) (client.Instance, *rest.Problem) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(
		r.t.Context(),
		http.MethodPost,
		"http://"+api+"/v1/instances",
		strings.NewReader(body),
	)
	r.must(err)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: r.net.dial}}).Do(req)
	r.must(err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	r.must(err)
	if resp.StatusCode == http.StatusAccepted {
		var i client.Instance
		r.must(json.Unmarshal(data, &i))
		return i, nil
	}
	var p rest.Problem
	r.must(json.Unmarshal(data, &p))
	return client.Instance{}, &p
}

const (
	keyedBody = `{"project":"p","flavor":"m1.small","name":"web","user_data":"aGVsbG8="}`
	otherBody = `{"project":"p","flavor":"m1.small","name":"db"}`
)

// A key means one machine: on every node, before and after the conductor has
// decided, after a restart, and after the machine is gone.
func TestKeyedBootOnEveryNodeAndAfterRestarts(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(1)...)
		r.startQueues()
		r.startAPI()
		a, other := r.api, r.secondAPI("api-b")
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		first, problem := r.keyed(a, "deploy-42", keyedBody)
		if problem != nil || first.ID != client.KeyedID("p", "deploy-42") {
			t.Fatalf("%+v %+v", first, problem)
		}
		check := func(when, api string, state client.State) {
			t.Helper()
			again, problem := r.keyed(api, "deploy-42", keyedBody)
			if problem != nil || again.ID != first.ID || state != "" && again.State != state {
				t.Errorf("%s: %s %s, %+v; want %s %s", when, again.ID, again.State, problem, first.ID, state)
			}
			if _, problem = r.keyed(api, "deploy-42", otherBody); problem == nil ||
				problem.Status != http.StatusConflict ||
				problem.Reason == nil ||
				problem.Reason.Code != compute.RequestDiffers {
				t.Errorf("%s, another body: %+v", when, problem)
			}
		}
		check("same node", a, "accepted")
		check("another node", other, "accepted")
		r.stop("api")
		r.startAPI()
		check("after a restart", r.api, "accepted")

		r.startConductor("conductor")
		r.startAgents(r.hosts...)
		r.await([]compute.InstanceID{first.ID}, compute.StateActive)
		check("active, another node", other, "") // which may not have heard that it is
		r.delete(r.as("p"), []compute.InstanceID{first.ID})
		r.await([]compute.InstanceID{first.ID}, compute.StateDeleted)
		r.stop("api")
		r.startAPI()
		check("deleted, after a restart", r.api, "deleted")
		check("deleted, another node", other, "")
		r.exactlyOnce([]compute.InstanceID{first.ID})
	})
}

// Many clients give one key to two nodes at the same moment: there is one machine.
// Where their bodies differ, all with its body are answered by it and all others by
// 409, at that moment and from then on.
func TestKeyedBootsAtTheSameMoment(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(1)...)
		r.startQueues()
		r.startAPI()
		nodes := []string{r.api, r.secondAPI("api-b")}
		r.startConductor("conductor")
		r.startAgents(r.hosts...)
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		bodies := []string{keyedBody, otherBody}
		var all sync.WaitGroup
		accepted := make([]bool, 12)
		for i := range accepted {
			all.Go(func() {
				_, problem := r.keyed(nodes[i%2], "deploy-42", bodies[i/2%2])
				if accepted[i] = problem == nil; problem != nil && problem.Status != http.StatusConflict {
					t.Errorf("%+v", problem)
				}
			})
		}
		all.Wait()
		id := client.KeyedID("p", "deploy-42")
		r.await([]compute.InstanceID{id}, compute.StateActive)
		r.exactlyOnce([]compute.InstanceID{id})
		won := r.seen.get(id).Boot.Name
		for i, ok := range accepted {
			if body := bodies[i/2%2]; ok != strings.Contains(body, won) {
				t.Errorf("%s is accepted: %v, and the machine is %s", body, ok, won)
			}
		}
		for _, node := range nodes {
			for _, body := range bodies {
				got, problem := r.keyed(node, "deploy-42", body)
				if mine := strings.Contains(body, won); mine != (problem == nil) || mine && got.Name != won {
					t.Errorf("%s on %s, while it is %s: %+v %+v", body, node, won, got, problem)
				}
			}
		}
	})
}

// A list of more than one page, and one of queues, through a real node.
func TestListsArePagedThroughARealNode(t *testing.T) {
	each(t, func(t *testing.T, b kafkatest.Broker) {
		r := newRig(t, b, smallHosts(1)...)
		r.startQueues()
		r.startAPI()
		c := r.as("p")
		r.offer(c, nil, []compute.Flavor{small("m1.small")})
		ids := r.boot(c, 501, compute.Boot{Flavor: "m1.small"})
		all, err := c.Instances(t.Context(), client.Filter{Fields: []string{"name"}})
		r.must(err)
		if len(all) != len(ids) {
			t.Fatalf("%d of %d", len(all), len(ids))
		}
		for i, in := range all {
			if in.ID != ids[i] || in.Name == "" || in.Flavor != "" {
				t.Fatalf("%d is %+v, want %s with its name alone", i, in, ids[i])
			}
		}
	})
}
