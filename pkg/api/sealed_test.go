// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/hostkey"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// sealing is a node with these keys.
func sealing(t *testing.T, keys *sealed.Keys) *node {
	n := nodeThat(t, func(c *Config) { c.UserData = keys }).read()
	n.offer()
	return n
}

// TestUserDataIsSealed: a node with a key writes no user data that lies open, and a repetition compares with what it
// was, by any key that the node has.
func TestUserDataIsSealed(t *testing.T) {
	const with, without, others = `{"flavor":"m1.small","name":"web","user_data":"YSBzZWNyZXQ="}`, plain,
		`{"flavor":"m1.small","name":"web","user_data":"YW5vdGhlcg=="}`
	first, second := hostkey.NewMaster([32]byte{1}), hostkey.NewMaster([32]byte{2})
	owner := sealed.Owner{Project: "default", Instance: wire.KeyedInstance("default", "deploy-42")}
	n := sealing(t, sealed.New("test.", first))
	n.published()
	into[rest.Instance](n.keyedBoot(with, "deploy-42"), 202)
	recs := n.published()
	if len(recs) != 1 || bytes.Contains(recs[0].Value, []byte("a secret")) || !wire.LaterThan(recs[0], 1) {
		t.Fatalf("it wrote %+v", recs)
	}
	q, err := wire.DecodeRequest(recs[0])
	if err != nil || q.Boot.Sealed == "" || q.Boot.UserData != "" {
		t.Fatalf("it wrote %+v, %v", q.Boot, err)
	}
	foreign, err := sealed.New("test.", first).Seal(
		sealed.Owner{Project: "default", Instance: id1}, []byte("a secret"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keys   *sealed.Keys
		sealed compute.Sealed
		body   string
		status int
		says   string
	}{
		"the same":                {sealed.New("test.", first), q.Boot.Sealed, with, 202, ""},
		"with another key added":  {sealed.New("test.", first, second), q.Boot.Sealed, with, 202, ""},
		"without user data":       {sealed.New("test.", first), q.Boot.Sealed, without, 409, "user_data"},
		"with other user data":    {sealed.New("test.", first), q.Boot.Sealed, others, 409, "user_data"},
		"sealed for another":      {sealed.New("test.", first), foreign, with, 409, "user_data"},
		"with another key":        {sealed.New("test.", second), q.Boot.Sealed, with, 503, "key " + first.ID().String()},
		"at a node without a key": {nil, q.Boot.Sealed, with, 503, "key " + first.ID().String()},
	} {
		for _, asInstance := range []bool{true, false} {
			n := sealing(t, c.keys)
			boot := *q.Boot
			boot.Sealed = c.sealed
			if asInstance {
				n.has(instance(owner.Instance, "web", compute.StateActive, func(i *compute.Instance) { i.Boot = boot }))
			} else {
				n.Requests([]wire.Record{wire.EncodeRequest(compute.Request{
					Op: compute.OpBoot, Project: "default", Instance: owner.Instance, Boot: &boot, At: start,
				})}, true)
			}
			n.published()
			a := n.keyedBoot(c.body, "deploy-42")
			if a.status != c.status || !strings.Contains(string(a.body), c.says) || len(n.published()) > 0 ||
				strings.Contains(string(a.body), "secret") {
				t.Errorf("%s (instance: %t): %d %s", name, asInstance, a.status, a.body)
			}
		}
	}
}

// TestUserDataLiesOpenHere is said once, where hosts have keys and the node has none.
func TestUserDataLiesOpenHere(t *testing.T) {
	for keys, want := range map[*sealed.Keys]int{nil: 1, sealed.New("", hostkey.NewMaster([32]byte{1})): 0} {
		core, logged := observer.New(zap.WarnLevel)
		n := nodeThat(t, func(c *Config) { c.UserData = keys }).read()
		n.log = zap.New(core)
		n.hears(compute.Beacon{Host: "h1", At: start})
		if logged.Len() > 0 {
			t.Errorf("with %v: %v", keys, logged.All())
		}
		for range 2 {
			n.hears(compute.Beacon{Host: "h2", At: start, Opens: []compute.KeyID{"0a0b0c0d"}})
		}
		if got := logged.FilterMessageSnippet("lies open").Len(); got != want {
			t.Errorf("with %v it is said %d times", keys, got)
		}
	}
}
