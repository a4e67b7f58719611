// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// With -o name one thing is printed as lists print it: by what other commands take.
func TestOneByItsName(t *testing.T) {
	name, err := cli.ParseFormat("name")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = errors.Join(
		printOne(&out, name, rejectedSheet(), rest.Rejected{Record: "requests/3/41", Topic: "requests", Reason: "Forged"}),
		printOne(&out, name, auditSheet(), rest.AuditEntry{Request: "deploy-42", Operation: "boot", Status: 409}))
	if want := "requests/3/41\ndeploy-42\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v; want %q", out.String(), err, want)
	}
}
