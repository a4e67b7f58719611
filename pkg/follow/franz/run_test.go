// SPDX-License-Identifier: Apache-2.0

package franz_test

import (
	"testing"

	"github.com/berth-project/berth/pkg/follow/followtest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// What stands in the example works as it stands, and ends.
func TestExample(t *testing.T) {
	b := kafkatest.Embedded(t)
	topics := wire.Topics{Prefix: wire.DefaultPrefix}
	followtest.Topic(t, b.Addrs, topics.Instances(), 4, 1, nil)
	followtest.NewWriter(t, b.Addrs, topics, 4, "conductor").Write(followtest.Instance("p", 1, 1),
		followtest.Instance("q", 2, 1))
	t.Setenv("KAFKA", b.Addrs[0])
	Example()
}
