// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/brokertest"
	"github.com/berth-project/berth/pkg/kafkatest"
	"github.com/berth-project/berth/pkg/wire"
)

// aUser is one that has most of the rights of a role.
type aUser struct {
	kafkatest.User
	needs, has []access.Right
}

// usersOf are, for a role, one with nothing, one with all rights, and one more for each operation, without that.
func usersOf(t *testing.T, topics wire.Topics, role access.Role) (all []aUser) {
	t.Helper()
	who := access.Identity{Role: role, Topics: topics}
	if role == access.Agent {
		who.Hosts = []compute.HostID{"h1", "h2"}
	}
	needs, err := who.Needs()
	if err != nil {
		t.Fatal(err)
	}
	add := func(has []access.Right) {
		name := fmt.Sprintf("%s-%d", role, len(all))
		all = append(all, aUser{kafkatest.User{Name: name, Password: "pw"}, needs, has})
	}
	add(nil)
	add(needs)
	for i, r := range needs {
		for j := range r.Operations {
			has := slices.Clone(needs)
			has[i].Operations = slices.Delete(slices.Clone(r.Operations), j, j+1)
			add(has)
		}
	}
	return all
}

func signedIn(b kafkatest.LockedBroker, topics wire.Topics, u kafkatest.User) kafka.Config {
	return kafka.Config{Brokers: b.Addrs, Topics: topics, SASL: &kafka.SASL{
		Mechanism: "SCRAM-SHA-256", User: u.Name, Password: func() (string, error) { return u.Password, nil },
	}}
}

// A daemon finds out by itself exactly what it lacks, whichever right that is; the cell's topics may be there or not.
func TestLacking(t *testing.T) {
	topics := wire.Topics{Prefix: "c."}
	var users []aUser
	var names []kafkatest.User
	for _, role := range []access.Role{access.API, access.Queues, access.Conductor, access.Agent} {
		for _, u := range usersOf(t, topics, role) {
			users, names = append(users, u), append(names, u.User)
		}
	}
	if len(users) < 60 {
		t.Errorf("only %d users are asked about", len(users))
	}
	suite := func(t *testing.T, b kafkatest.LockedBroker) {
		root := adminOf(t, signedIn(b, topics, b.Root))
		for _, u := range users {
			must(t, root.Allow(brokertest.Patient(t), "User:"+u.Name, u.has))
		}
		lacks := func(u aUser) []access.Right {
			got, err := adminOf(t, signedIn(b, topics, u.User)).Lacking(brokertest.Patient(t), u.needs)
			must(t, err)
			return got
		}
		last := users[len(users)-1]
		for ctx := brokertest.Patient(t); !cmp.Equal(expected(b, last), lacks(last)); { // brokers hear of ACLs in order
			must(t, ctx.Err())
		}
		for _, made := range []bool{false, true} {
			if made {
				must(t, root.EnsureTopics(brokertest.Patient(t), 2, 1))
			}
			for _, u := range users {
				if diff := cmp.Diff(expected(b, u), lacks(u), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("topics made: %t, %s:\n%s", made, u.Name, diff)
				}
			}
		}
	}
	t.Run("embedded", func(t *testing.T) { suite(t, kafkatest.Locked(t, names...)) })
	t.Run("kafka", func(t *testing.T) { suite(t, kafkatest.LockedKafka(t, nil, names...)) })
}

// expected is what a broker can be heard to refuse. It tells nothing of a topic that may not even be described. The
// embedded one looks at some rights on groups late, or never.
func expected(b kafkatest.LockedBroker, u aUser) (all []access.Right) {
	missing, _ := access.Compare(u.needs, u.has)
	for _, r := range missing {
		i := slices.IndexFunc(u.needs, func(n access.Right) bool { return n.Kind == r.Kind && n.Name == r.Name })
		if r.Kind == access.Topic && slices.Contains(r.Operations, access.Describe) {
			r.Operations = slices.DeleteFunc(slices.Clone(u.needs[i].Operations), func(o access.Operation) bool {
				return o == access.Create && !slices.Contains(r.Operations, o) // which is tried
			})
		}
		if !b.Real && r.Kind == access.Group {
			r.Operations = slices.DeleteFunc(slices.Clone(r.Operations), func(o access.Operation) bool {
				return o == access.Read || o == access.AlterConfigs
			})
		}
		if len(r.Operations) > 0 {
			all = append(all, r)
		}
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The right to make topics on the cluster does as well as that on the prefix; a process without rights says nothing
// about other cells.
func TestLackingWhereTheClusterGivesCreate(t *testing.T) {
	topics := wire.Topics{Prefix: "c."}
	u := kafkatest.User{Name: "u", Password: "pw"}
	b := kafkatest.Locked(t, u)
	must(t, adminOf(t, signedIn(b, topics, b.Root)).Allow(brokertest.Patient(t), "User:u", []access.Right{
		access.To(access.Create, access.Cluster, access.ClusterName),
	}))
	needs := []access.Right{
		access.ToAll(access.Create, access.Topic, "c."), access.ToAll(access.Describe, access.Topic, "c."),
	}
	got, err := adminOf(t, signedIn(b, topics, u)).Lacking(brokertest.Patient(t), needs)
	must(t, err)
	if diff := cmp.Diff(needs[1:], got); diff != "" {
		t.Error(diff)
	}
}

// Brokers without an authorizer, and those that do not tell what they allow, allow everything.
func TestNothingLacksWithoutAnAuthorizer(t *testing.T) {
	cluster, cfg := brokertest.FakeCluster(t)
	all := usersOf(t, cfg.Topics, access.Conductor)[0].needs
	got, err := adminOf(t, cfg).Lacking(brokertest.Patient(t), all)
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if !tells(notTold, access.Write) || tells(0, access.Write) {
		t.Error("an answer that does not tell is a refusal, or a refusal is none")
	}
	cluster.Close()
	if _, err := adminOf(t, cfg).Lacking(brokertest.Patient(t), all); err == nil {
		t.Error("nobody answers, and nothing lacks")
	}
}

// A right that one of three brokers has not heard of lacks, whichever is asked first.
func TestLackingAnywhere(t *testing.T) {
	for node := range int32(3) {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
		must(t, err)
		defer cluster.Close()
		cluster.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if cluster.CurrentNode() != node {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.EndTxnResponse)
			resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
			return resp, nil, true
		})
		cfg := kafka.Config{Brokers: cluster.ListenAddrs(), Topics: wire.Topics{Prefix: "t."}}
		a := adminOf(t, cfg)
		needs := usersOf(t, cfg.Topics, access.Conductor)[0].needs
		got, err := a.LackingAnywhere(brokertest.Patient(t), needs)
		if err != nil || len(got) != 1 || got[0].Kind != access.TransactionalID {
			t.Errorf("broker %d: %v, %v", node, got, err)
		}
	}
}

// Only ACLs make a right lack: whatever else a coordinator says passes, and is another's to wait for.
func TestLackingPassesOtherErrors(t *testing.T) {
	for _, r := range []brokertest.Refusals{
		brokertest.Refuse(kmsg.Heartbeat, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.UnknownServerError),
		brokertest.Refuse(kmsg.EndTxn, kerr.NotCoordinator, kerr.InvalidProducerIDMapping),
		brokertest.Refuse(kmsg.DescribeGroups, kerr.CoordinatorNotAvailable, kerr.GroupIDNotFound),
	} {
		r.Each(t, func(t *testing.T, code *kerr.Error) {
			brokertest.WithRefusing(t, 1, func(t *testing.T, c brokertest.Refusing) {
				a, err := New(c.Cfg)
				must(t, err)
				defer a.Close()
				c.Refuse(r.Key, code, -1)
				needs := usersOf(t, c.Cfg.Topics, access.Conductor)[0].needs
				if got, err := a.Lacking(t.Context(), needs); err != nil || len(got) != 0 {
					t.Errorf("%v, %v", got, err)
				}
			})
		})
	}
}
