// SPDX-License-Identifier: Apache-2.0

package kafkago_test

import (
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/publish/publishtest"
	"github.com/berth-project/berth/pkg/wire"
)

// What stands in the examples works as it stands.
func TestExamples(t *testing.T) {
	b := kafkatest.Embedded(t)
	topics := wire.Topics{Prefix: wire.DefaultPrefix}
	publishtest.Topic(t, b.Addrs, topics.Requests(), 4, nil)
	t.Setenv("KAFKA", b.Addrs[0])
	Example()
	Example_plainJSON()
	for _, rec := range publishtest.Read(t, b.Addrs, topics.Requests(), 2) {
		q, err := wire.DecodeRequest(rec)
		if err != nil || q.Op != compute.OpBoot || q.Boot.Name != "web-1" ||
			rec.Partition != wire.Partition(q.Project, 4) {
			t.Errorf("%+v, %v, in partition %d", q, err, rec.Partition)
		}
	}
}
