// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/cli"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// What is shown of a rejection is where the record is, why, and whose it says that it is: nothing else of it.
func TestRejectedIsPrinted(t *testing.T) {
	topics := wire.Topics{Prefix: "c."}
	because := func(code compute.ReasonCode, host compute.HostID, detail string) compute.Reason {
		return compute.Reason{Code: code, Host: host, Detail: detail}
	}
	for _, c := range []struct {
		topic, key string
		reason     compute.Reason
		want       string
	}{
		{"c.requests", "web", because("Unsigned", "", "it is not signed"), "requests  3  41  Unsigned  web  -  it is not signed"},
		{"c.requests", "A SECRET", because("Malformed", "", "\x1b[2Jno"), "requests  3  41  Malformed  -  -  ?[2Jno"},
		{"c.reports", "web", because("Forged", "h1", ""), "reports  3  41  Forged  web  h1  -"},
		{"c.hosts", "h2", because("Replayed", "", ""), "hosts  3  41  Replayed  -  h2  -"},
		{"c.host.h3", "id-of-an-instance", because("Malformed", "", ""), "host.h3  3  41  Malformed  -  h3  -"},
		{"c.catalog", "flavor/x", because("Malformed", "", ""), "catalog  3  41  Malformed  -  -  -"},
	} {
		j := compute.Rejected{
			At: time.Date(2026, 3, 4, 7, 6, 7, 0, time.FixedZone("", 2*60*60)), Topic: c.topic, Partition: 3, Offset: 41,
			Key: []byte(c.key), Value: []byte("A SECRET"), Reason: c.reason,
		}
		for f, want := range map[cli.Format]string{
			cli.FormatTable: "2026-03-04T05:06:07Z  " + c.want + "\n", cli.FormatJSON: `"offset":41`, cli.FormatYAML: "offset: 41\n",
		} {
			var out, notes bytes.Buffer
			print := rejectedFlags{}.printing(topics, &out, &notes, f)
			if err := errors.Join(print(j, nil), print(j, errors.New("cut\x1b[2J\nshort"))); err != nil {
				t.Error(err)
			}
			if !strings.Contains(out.String(), want) || !strings.Contains(notes.String(), "passed over: cut?[2J?short\n") ||
				strings.Contains(out.String(), "SECRET") || strings.Contains(out.String(), "id-of-an") {
				t.Errorf("%s %s: %q %q", c.topic, f, out.String(), notes.String())
			}
		}
	}
}

func TestRejectedInDetail(t *testing.T) {
	var out bytes.Buffer
	v := rest.Rejected{Record: "requests/3/41", Reason: "Malformed", Detail: "\x1b[2Jno", Project: "web", Remedy: "correct it"}
	if err := rejectedDetails(v).Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Record:   requests/3/41\n", "Why:      ?[2Jno\n", "Project:  web\n", "You can:  correct it\n"} {
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "Host:") {
			t.Errorf("%q in:\n%s", want, out.String())
		}
	}
}

func TestRejectedIsPicked(t *testing.T) {
	v := rest.Rejected{Topic: "requests", Reason: "Forged"}
	for o, want := range map[[2]string]bool{
		{}: true, {"Forged", ""}: true, {"forged", "requests"}: true, {"Unsigned", ""}: false, {"", "reports"}: false,
	} {
		if got := (rejectedFlags{reason: o[0], topic: o[1]}).wants(v); got != want {
			t.Errorf("%v: %t", o, got)
		}
	}
}
