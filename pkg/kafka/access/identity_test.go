// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

func someone() string { return "User:someone" }

// A message names what lacks, not all of it where that is much, and a call that a shell takes.
func TestDenied(t *testing.T) {
	topics := wire.Topics{Prefix: wire.DefaultPrefix}
	agent := Identity{Principal: someone, Role: Agent, Topics: topics, Hosts: []compute.HostID{"h1", "h2"}}
	needs, err := agent.Needs()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		who   Identity
		lacks []Right
		want  []string
		never string
	}{
		"the stream of the second host": {
			agent, []Right{To(Read, Topic, topics.Host("h2"))},
			[]string{
				"User:someone may not Read topic berth.host.h2; ",
				"acl apply --role agent --host h2 --principal User:someone",
			},
			"--prefix",
		},
		"everything": {agent, needs, []string{"things more; ", "--role agent --host h1 "}, topics.Build("")},
		"of nobody": {
			Identity{}, []Right{To(Read, Topic, "x")},
			[]string{"this process's Kafka user may not Read topic x; give it this right"},
			"acl apply",
		},
		"with an unknown name": {
			Identity{Role: API, Topics: topics}, []Right{To(Write, Topic, topics.Requests())},
			[]string{"--role api --principal User:NAME"}, "--host",
		},
		"an operator's, with whatever file": {
			Identity{Principal: someone, Role: Operator, Topics: topics}, []Right{To(Read, Topic, topics.Hosts())},
			[]string{
				"User:someone may not Read topic berth.hosts; ", "as a Kafka user of your own with the role operator",
				"acl apply --role operator --principal User:NAME",
			},
			"--principal User:someone",
		},
		"beyond the role": {
			Identity{Principal: someone, Role: Follower, Topics: topics}, []Right{To(Write, Topic, topics.Requests())},
			[]string{"the role follower does not have this right"}, "acl apply",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cause := errors.New("why")
			err := c.who.Denied("op", cause, c.lacks...)
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v: lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), c.never) || err.Kind != compute.KindForbidden || !errors.Is(err, cause) {
				t.Error(err)
			}
		})
	}
}

// An agent's process that drives several hosts needs the stream of each, and all else once.
func TestNeedsOfSeveralHosts(t *testing.T) {
	of := func(hosts ...compute.HostID) []Right {
		rights, err := Identity{Role: Agent, Topics: topicsOfTests, Hosts: hosts}.Needs()
		if err != nil {
			t.Fatal(err)
		}
		return rights
	}
	if one, three := of("h1"), of("h1", "h2", "h3"); len(three) != len(one)+2 {
		t.Errorf("one host needs %d rights, three need %d", len(one), len(three))
	}
	if none, err := (Identity{}).Needs(); err != nil || len(none) != 0 {
		t.Errorf("nobody needs %v: %v", none, err)
	}
	if _, err := (Identity{Role: Agent, Topics: topicsOfTests}).Needs(); err == nil {
		t.Error("an agent of no host")
	}
}
