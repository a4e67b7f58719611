// SPDX-License-Identifier: Apache-2.0

package elect

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
)

// An elected process is elected again soon, whatever the group's coordinator says.
func TestElectorPassesEveryError(t *testing.T) {
	forbidden := brokertest.Refuse(kmsg.JoinGroup, kerr.GroupAuthorizationFailed) // until somebody allows it
	for _, r := range append([]brokertest.Refusals{forbidden}, brokertest.PassingErrors...) {
		switch r.Key {
		case kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat:
		default:
			continue
		}
		r.Each(t, func(t *testing.T, code *kerr.Error) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				brokertest.MakeTopic(t, c.Cfg, "r.x", 1, nil)
				h := c.Refuse(r.Key, code, 3)
				e, stop := elector(t, c.Cfg, "r.x")
				began, elected := time.Now(), false
				for over := time.After(2 * ElectionTimeout); over != nil; {
					select {
					case elected = <-e.Elected():
					case <-over:
						over = nil
					}
				}
				if !elected {
					t.Errorf("not elected after %v", time.Since(began))
				}
				brokertest.HitBy(t, h, 3)
				stop()
			})
		})
	}
}
