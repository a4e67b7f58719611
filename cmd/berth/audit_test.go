// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func TestAuditIsFiltered(t *testing.T) {
	for _, o := range []auditFlags{
		{since: "never", limit: 1}, {since: "x", limit: 1}, {since: "1h"}, {since: "1h", limit: maxAuditLimit + 1},
	} {
		if _, err := o.begin(time.Now()); compute.KindOf(err) != compute.KindInvalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
	e := compute.AuditEntry{
		At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local), Who: "token:ci\x1b[2J", WhoID: "abc",
		Operation: "boot", Project: "web",
		Remote: "192.0.2.7", Status: 409, Kind: "conflict", LeftOut: 3, Request: "deploy-42",
	}
	for o, want := range map[auditFlagsKey]bool{
		{}: true, {project: "web"}: true, {project: "other"}: false, {who: "abc"}: true, {who: "token:ci"}: false,
		{operation: "boot", project: "web"}: true, {operation: "delete-instance"}: false,
	} {
		if got := (auditFlags{project: o.project, who: o.who, operation: o.operation}).wants(e); got != want {
			t.Errorf("%+v: %t", o, got)
		}
	}
	for f, want := range map[cli.Format]string{
		cli.FormatTable: "2026-03-04 05:06:07  token:ci?[2J  boot  web  -  409 conflict (3 left out)  192.0.2.7  deploy-42\n",
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

// auditFlagsKey is what filters.
type auditFlagsKey struct{ project, who, operation string }
