// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Whoever begins with the present, while much changes, hears of each instance each version from the one that was
// present on: none twice, and none left out.
func TestThePresentAndWhatFollows(t *testing.T) {
	const instances, changes, listeners = 20, 2000, 10
	n := newNode(t)
	server := n.serve()
	var l log
	for i := range changes {
		id := compute.InstanceID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", i%instances))
		l.write(id, "web", compute.StateActive)
	}
	var all sync.WaitGroup
	for range listeners {
		all.Go(func() {
			h := n.hear(server, "present=true", "")
			versions, seen := map[compute.InstanceID]compute.Version{}, false
			last := compute.InstanceID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", instances-1))
			for !seen || versions[last] < changes/instances {
				e, err := h.read.Next()
				if err != nil {
					t.Error(err)
					return
				}
				var c rest.Event
				if err := json.Unmarshal(e.Data, &c); err != nil {
					continue // a block without data
				}
				last, known := versions[c.Instance]
				switch {
				case e.Name == rest.EventPresented:
					seen = true
					continue
				case e.Name == rest.EventGap, e.Name == rest.EventEnd,
					e.Name == rest.EventPresent && known, e.Name == rest.EventChange && c.Version != last+1:
					t.Errorf("%s of version %d behind %d: %s", e.Name, c.Version, last, e.Data)
					return
				}
				versions[c.Instance] = c.Version
			}
		})
	}
	for _, rec := range l.recs {
		n.Instances([]wire.Record{rec}, true)
	}
	all.Wait()
}
