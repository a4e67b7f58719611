// SPDX-License-Identifier: Apache-2.0

package cell

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/doctor"
	"github.com/berth-project/berth/pkg/kafka/access"
	kafkaadmin "github.com/berth-project/berth/pkg/kafka/admin"
	"github.com/berth-project/berth/pkg/kafka/write"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// A doctor with the rights of a daemon tells what they let it see, and of the rest that it is not known, to whom that
// is forbidden, and which user to take instead. It never calls for the role of an operator for the user that it has,
// and calls nothing wrong that it may not look at. An embedded broker tells everybody the settings of groups:
// TestRightsOnKafka has them too.
func TestTheDoctorOfADaemonsUser(t *testing.T) {
	users := map[access.Role]kafkatest.User{}
	for _, role := range access.Roles() {
		users[role] = kafkatest.User{Name: "the-" + string(role), Password: "pw"}
	}
	nobody := kafkatest.User{Name: "nobody", Password: "pw"}
	users["nobody"] = nobody
	var all []kafkatest.User
	for _, u := range users {
		all = append(all, u)
	}
	b := kafkatest.Locked(t, all...)
	root := signedIn(t, b, b.Root)
	plantForDoctor(t, &root)
	want := map[access.Role][]string{
		access.Operator: nil,
		access.API: {
			"brokers: settings", "queue q1: topic and share state", "queues and hosts: their topics",
			"queue managers: running", "topics of the cell: settings",
		},
		access.Conductor: {
			"brokers: settings", "audit: its entries", "queue managers: running",
			"topics c.tokens, c.audit: leaders, replicas and settings", "topics of the cell: settings",
		},
		access.Queues: {
			"brokers: settings", "audit: its entries", "conductors: running, and how far they are",
		},
		access.Agent: {
			"brokers: settings", "audit: its entries", "conductors: running, and how far they are",
			"hosts: heard of in the last 60 s", "partitions: set aside", "queue managers: running",
			"topics c.tokens, c.audit: leaders, replicas and settings",
			"topics of the cell: settings", "user data: sealed",
		},
	}
	for role, u := range users {
		t.Run(string(role), func(t *testing.T) {
			var host compute.HostID
			if role == access.Agent {
				host = "h1"
			}
			if role != "nobody" {
				rights, err := access.Rights(role, root.Topics(), host)
				if err == nil {
					err = root.Allow(t.Context(), "User:"+u.Name, rights)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			c := signedIn(t, b, u).As(access.Operator)
			facts, err := c.Facts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var unknown []string
			for _, f := range doctor.Examine(facts) {
				if strings.Contains(f.Fix, "acl apply") &&
					(strings.Contains(f.Fix, u.Name) || !strings.Contains(f.Fix, "as a Kafka user of your own")) {
					t.Errorf("a remedy for User:%s: %+v", u.Name, f)
				}
				if role != access.Operator && f.Level == doctor.Fail && !slices.Contains(truly, f.About+": "+f.Check) {
					t.Errorf("it fails, and is not known: %+v", f)
				}
				if !strings.HasPrefix(f.Is, "not known: User:"+u.Name+" may not ") {
					continue
				}
				about := f.About
				if f.Check == "settings" && strings.HasPrefix(about, "topics c.") {
					about = "topics of the cell"
				}
				if strings.HasPrefix(about, "broker") {
					about = "brokers"
				}
				unknown = append(unknown, about+": "+f.Check)
				if f.Level != doctor.Warn || f.Why == "" ||
					!strings.Contains(f.Fix, "role operator --principal User:NAME") {
					t.Errorf("it explains nothing: %+v", f)
				}
			}
			slices.Sort(unknown)
			if w, listed := want[role]; listed {
				slices.Sort(w)
				if diff := cmp.Diff(w, unknown); diff != "" {
					t.Error(diff)
				}
			} else if len(unknown) < 8 {
				t.Errorf("all that is not known to it: %q", unknown)
			}
		})
	}
}

// truly are what fails where no daemon runs, and on an embedded broker.
var truly = []string{"conductors: running", "queue managers: running", "queue q1: its share state"}

// plantForDoctor has a cell with a queue and a host.
func plantForDoctor(t *testing.T, c *Cell) {
	t.Helper()
	c.Tokens, c.Audit = true, true
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Prepare(t.Context()))
	admin, err := kafkaadmin.New(c.Kafka)
	must(err)
	defer admin.Close()
	ids, err := admin.EnsureQueueTopics(t.Context(), []compute.QueueName{"q1"}, 1)
	must(err)
	must(admin.EnsureHostTopic(t.Context(), "h1", 1))
	p, err := write.NewProducer(c.Kafka)
	must(err)
	defer p.Close()
	queue := compute.Queue{
		Name: "q1", Flavor: "q1", State: compute.QueueOpen, Group: c.Topics().ShareGroup(0), TopicID: ids["q1"],
	}
	must(p.Send(t.Context(),
		wire.EncodeQueue(queue).To(c.Topics().Queues(), 0),
		wire.Record{Value: []byte("no entry")}.To(c.Topics().Audit(), 0),
		wire.EncodeBeacon(compute.Beacon{Host: "h1", At: time.Now()}).To(c.Topics().Hosts(), 0),
	))
}
