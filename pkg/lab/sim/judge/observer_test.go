// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/berth-project/berth/pkg/wire"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

func TestCheckObserver(t *testing.T) {
	reread := func(r *Recording) {
		for _, w := range r.Log {
			rec := wire.EncodeInstance(w.Instance)
			r.AddReread(&kgo.Record{Offset: w.Offset, Key: rec.Key, Value: rec.Value})
		}
		r.RereadAll = true
	}
	spoilt := func(spoil func(*Recording)) func(*Recording) {
		return func(r *Recording) {
			reread(r)
			spoil(r)
		}
	}
	sees(t, checkObserver, map[string]func(*Recording){
		"right: all is there": reread,
		"instances-0@1 of red/": spoilt(func(r *Recording) {
			r.Log = append(r.Log[:1:1], r.Log[2:]...)
		}),
		"instances-0@2 was observed and is not there": spoilt(func(r *Recording) { r.Reread = r.Reread[:2] }),
		"instances-0@1 was read twice":                spoilt(func(r *Recording) { r.Log = append(r.Log, r.Log[1]) }),
		"has state STATE_ERROR, and was observed with STATE_ACTIVE": spoilt(func(r *Recording) {
			r.Reread[2].Instance.State = pb.State_STATE_ERROR
		}),
		"has confirm true, and was observed with false": spoilt(func(r *Recording) { r.Reread[2].Instance.Confirm = true }),
		"has power STOPPED, and was observed with RUNNING": spoilt(func(r *Recording) {
			r.Reread[2].Instance.Power = pb.PowerState_POWER_STATE_STOPPED
		}),
		"has on_no_capacity fail, and was observed with wait": spoilt(func(r *Recording) {
			r.Reread[1].Instance.Boot.OnNoCapacity = pb.NoCapacity_NO_CAPACITY_FAIL
		}),
		"has image , and was observed with debian": spoilt(func(r *Recording) { r.Reread[0].Instance.Boot.Image = "" }),
		"is a tombstone: true":                     spoilt(func(r *Recording) { r.Reread[0].Instance = nil }),
	})
}
