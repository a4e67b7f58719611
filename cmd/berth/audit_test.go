// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
)

func TestAuditGoesBySignIn(t *testing.T) {
	for _, c := range []struct {
		set  []string
		want bool
	}{
		{nil, false},
		{[]string{"auth.tokens=true"}, true},
		{[]string{"auth.tokens=true", "audit=false"}, false},
		{[]string{"audit=true"}, true},
		{[]string{"audit=signed-in"}, false},
	} {
		s, _, err := apiDaemon().read(config.From{Set: c.set})
		if err != nil || s.keepsAudit() != c.want {
			t.Errorf("%v: %t, %v", c.set, s.keepsAudit(), err)
		}
	}
	_, _, err := apiDaemon().read(config.From{Set: []string{"audit=yes"}})
	if err == nil || !strings.Contains(err.Error(), "audit") || !strings.Contains(err.Error(), "signed-in") {
		t.Error(err)
	}
}

// What a command that reads Kafka learns of a daemon's file: whether an API node with it keeps an audit.
func TestFileSaysWhetherAnAuditIsKept(t *testing.T) {
	for text, want := range map[string]string{
		"auth: {tokens: true}":                 "true",
		"auth: {tokens: true}\naudit: false":   "false",
		"listen: 127.0.0.1:7070":               "false",
		"audit: true":                          "true",
		"hosts: {trust: keys}\nname: c1":       "",
		"publish: {trust: all, masters: /etc}": "",
	} {
		file := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(file, []byte("kafka: {brokers: [k:9092]}\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		k := kafkaFlags{file: file}
		if _, err := k.cell(newDoctor(), "doctor"); err != nil || k.audit != want {
			t.Errorf("%s: %q, %v", text, k.audit, err)
		}
	}
}

func TestAuditIsPrinted(t *testing.T) {
	for _, o := range []auditFlags{
		{since: "never", limit: 1}, {since: "x", limit: 1}, {since: "1h"}, {since: "1h", limit: cli.MaxShown + 1},
		{since: "1h", limit: 1, Wanted: audit.Wanted{Result: "?"}},
	} {
		if _, err := o.begin(time.Now()); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
	e := compute.AuditEntry{
		At: time.Date(2026, 3, 4, 7, 6, 7, 0, time.FixedZone("", 2*60*60)), Who: "token:ci\x1b[2J", WhoID: "abc",
		Operation: "boot", Project: "web",
		Remote: "192.0.2.7", Status: 409, Kind: "conflict", LeftOut: 3, Request: "deploy-42",
	}
	for f, want := range map[cli.Format]string{
		cli.FormatTable: "2026-03-04T05:06:07Z  token:ci?[2J  boot  web  -  409 conflict (3 left out)  192.0.2.7  deploy-42\n",
		cli.FormatJSON:  `"operation":"boot"`,
		cli.FormatYAML:  "operation: boot\n",
	} {
		var out, notes bytes.Buffer
		print := auditFlags{}.printing(&out, &notes, f)
		if err := errors.Join(print(e, nil), print(e, errors.New("cut short"))); err != nil {
			t.Error(err)
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(notes.String(), "cut short") {
			t.Errorf("%s: %q %q", f, out.String(), notes.String())
		}
	}
}

// With an API node named and no Kafka the node is asked, and what it shows is printed oldest first.
func TestAuditFromAnAPINode(t *testing.T) {
	asked := make(chan string, 9)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + "?" + r.URL.Query().Get("result") + " " + r.Header.Get("Authorization")
		next := `"next": "7", "stopped_early": true`
		if r.URL.Query().Get("marker") == "7" {
			next = `"read": 1`
		}
		fmt.Fprintf(w, `{"items": [{"at": "2026-03-04T05:06:07Z", "operation": "boot", "status": 202, "request": "r%s"}], %s}`,
			r.URL.Query().Get("marker"), next)
	}))
	defer node.Close()
	text, _, _ := auth.NewToken()
	t.Setenv("BERTH_TOKEN", text)
	var out, errs bytes.Buffer
	run := func(args ...string) int {
		out.Reset()
		root := whole()
		root.SetOut(&out)
		root.SetErr(&errs)
		return cli.Execute(t.Context(), root, append([]string{"audit", "--api", node.URL}, args...))
	}
	if code := run("--result", "ok", "-o", "name"); code != 0 || out.String() != "r7\nr\n" {
		t.Errorf("exit %d: %q %s", code, out.String(), errs.String())
	}
	if got := <-asked; got != "/v1/audit?ok Bearer "+text {
		t.Error("asked:", got)
	}
	if code := run("-f"); code != 2 || !strings.Contains(errs.String(), "--kafka") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if len(asked) != 1 { // the second page
		t.Errorf("asked %d times more", len(asked))
	}
}
