// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/wiretest"
)

// TestMillion fills the view with many instances and says what each takes, and
// how long questions take, when all are of one project and when they are of a
// thousand. With BERTH_MILLION=1000000 it is docs/PERFORMANCE.md's table;
// without, few enough to be run every time.
func TestMillion(t *testing.T) {
	for _, projects := range []int{1, 16, 1000} {
		t.Run(fmt.Sprint(projects), func(t *testing.T) { million(t, projects) })
	}
}

func million(t *testing.T, projects int) {
	many := wiretest.Many(t)
	crowd := wiretest.Mixed(many, projects, time.Now())
	before := wiretest.Heap()
	n := newNode(t)
	var took wiretest.Watch
	for i := 0; i < many; i += 1000 {
		recs := crowd.Chunk(i, many)
		took.Run(func() { n.Server.Instances(recs, false) })
	}
	each := float64(wiretest.Heap()-before) / float64(many)
	t.Logf("%d instances of %d projects: taken in %s, %.0f bytes of heap each", many, projects, took.String(), each)
	if each > 1536 {
		t.Errorf("an instance takes %.0f bytes of heap, more than 1,536", each)
	}
	for h := range crowd.Hosts {
		n.hears(compute.Beacon{Host: crowd.Host(h)})
	}
	project, some := crowd.Project(0), crowd.Instance(many/2)
	ask := func(what, path string) {
		code, size := 0, 0
		took := wiretest.Took(5, func() {
			w := httptest.NewRecorder()
			n.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			code, size = w.Code, w.Body.Len()
		})
		t.Logf("%-34s %8.2f ms %9d bytes", what, float64(took.Microseconds())/1000, size)
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
	list := func(what, filter string) {
		ask(what, fmt.Sprintf("/v1/instances?project=%s&limit=1000&fields=id,name,state%s", project, filter))
	}
	ask("list, all fields", fmt.Sprintf("/v1/instances?project=%s&limit=1000", project))
	list("list", "")
	list("list active", "&state=active")
	list("list queued", "&state=queued")
	list("list error, starting", "&state=error&state=starting")
	list("list unknown", "&state=unknown")
	list("list of a host", "&host="+string(crowd.Host(1)))
	list("list of a queue", "&queue="+string(crowd.Queue(1).Name))
	list("list of a flavor", "&flavor="+string(crowd.Queue(1).Flavor))
	list("list of a flavor not there", "&flavor=nothing")
	list("list of a queue, error", "&state=error&queue="+string(crowd.Queue(1).Name))
	ask("list by name", fmt.Sprintf("/v1/instances?project=%s&name=%s", some.Project, some.Boot.Name))
	ask("list by ref: a name", fmt.Sprintf("/v1/instances?project=%s&ref=%s", some.Project, some.Boot.Name))
	ask("list by ref: beginning of an id", fmt.Sprintf("/v1/instances?project=%s&ref=%s", some.Project, some.ID[:8]))
	ask("instances of a host", fmt.Sprintf("/v1/hosts/%s/instances?limit=1000", crowd.Host(1)))
	ask("show host", fmt.Sprintf("/v1/hosts/%s", crowd.Host(1)))
	ask("list queues", "/v1/queues?limit=1000")
	ask("show quota", "/v1/quotas/"+string(project))
	for i := range many {
		if queued := crowd.Instance(i); queued.State == compute.StateQueued {
			ask("show one that waits", fmt.Sprintf("/v1/instances/%s?project=%s", queued.ID, queued.Project))
			break
		}
	}
	runtime.KeepAlive(n)
}

// TestMillionWait is a show of one, and a list of a thousand, where all wait.
func TestMillionWait(t *testing.T) {
	many := wiretest.Many(t)
	crowd := wiretest.Mixed(many, 1, time.Now())
	crowd.State, crowd.Queues = compute.StateQueued, 1
	n := newNode(t)
	for i := 0; i < many; i += 1000 {
		n.Server.Instances(crowd.Chunk(i, many), false)
	}
	q := crowd.Queue(0)
	n.Queues([]wire.Record{wire.EncodeQueue(q)}, true)
	for what, path := range map[string]string{
		"show one that waits": fmt.Sprintf("/v1/instances/%s?project=%s", crowd.Instance(0).ID, crowd.Project(0)),
		"list, all fields":    fmt.Sprintf("/v1/instances?project=%s&limit=1000", crowd.Project(0)),
		"show queue":          "/v1/queues/" + string(q.Name),
	} {
		took := wiretest.Took(3, func() {
			w := httptest.NewRecorder()
			n.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != http.StatusOK {
				t.Errorf("%s: %d", path, w.Code)
			}
		})
		t.Logf("%-34s %8.2f ms", what, float64(took.Microseconds())/1000)
	}
}
