// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// TestExitCodes pins the numbers themselves: scripts rely on them.
func TestExitCodes(t *testing.T) {
	for kind, want := range map[compute.Kind]int{
		compute.KindInternal: 1, compute.KindUnavailable: 1, compute.KindInvalid: 2, compute.KindNotFound: 3,
		compute.KindQuota:      4,
		compute.KindNoCapacity: 5, compute.KindForbidden: 6, compute.KindTimeout: 7, compute.KindConflict: 8,
		compute.KindUnauthenticated: 6,
	} {
		err := fmt.Errorf("outer: %w", &compute.Error{Kind: kind})
		if got := int(codeOf(err)); got != want {
			t.Errorf("%s: %d, want %d", kind, got, want)
		}
	}
	if got := int(codeOf(notEmptyError{&compute.Error{Kind: compute.KindConflict}})); got != 9 {
		t.Errorf("not empty: %d, want 9", got)
	}
	if codeOf(nil) != 0 || codeOf(io.EOF) != 1 {
		t.Error("no error is 0, an unclassified one 1")
	}
}

func TestReasonsHaveKinds(t *testing.T) {
	for reason, want := range map[compute.ReasonCode]exitCode{
		compute.QuotaExceeded: exitQuota, compute.DeadlineExceeded: exitNoCapacity, compute.NeverFits: exitNoCapacity,
		compute.NoEligibleHost: exitNoCapacity, compute.WaitingForCapacity: exitNoCapacity,
		compute.PinnedHostUnavailable: exitNoCapacity,
		compute.GroupRule:             exitNoCapacity, compute.NoSuchFlavor: exitNotFound,
		compute.NoSuchCapability:  exitNotFound,
		compute.QueueClosedReason: exitNotFound, compute.Malformed: exitUsage, compute.Cancelled: exitConflict,
		compute.SetWaits: exitNoCapacity, compute.SetFailed: exitError,
		compute.AttemptsExhausted: exitError, compute.BuildFailed: exitError, compute.HostLost: exitError,
	} {
		failed := client.Instance{Name: "x", State: "error", Reason: &client.Reason{Code: reason, Message: "so"}}
		if got := codeOf(firstFailure([]client.Instance{{State: "active"}, failed})); got != want {
			t.Errorf("%s: %d, want %d", reason, got, want)
		}
	}
	if firstFailure([]client.Instance{{State: "active"}}) != nil {
		t.Error("all run")
	}
	if codeOf(firstFailure([]client.Instance{{State: "deleted"}})) != exitConflict {
		t.Error("deleted while waiting")
	}
}

func TestExecute(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		args []string
		code int
		said string
	}{
		"well":  {nil, []string{"do"}, 0, ""},
		"fails": {errors.New("broken"), []string{"do"}, 1, "berth: broken\n"},
		"not found": {
			compute.NotFound("host", "h", "look"), []string{"do"}, 3, "berth: host \"h\": does not exist; look\n",
		},
		"invalid": {
			compute.Invalid("size", "x", "write it"), []string{"do"}, 2, "berth: size \"x\" is not valid; write it\n",
		},
		"steers the terminal": {
			compute.Conflict("instance", "a", "is \x1b]0;b\a\u202e\r\x9b2K", "look"), []string{"do"}, 8,
			"berth: instance \"a\": is ?]0;b????2K; look\n",
		},
		"of several lines": {
			errors.New("two are wrong\n  one\nberth: all is well\x1b[1A\n"), []string{"do"}, 1,
			"berth: two are wrong\n  one\n  berth: all is well?[1A\n",
		},
		"unknown": {
			nil, []string{"zzz"}, 2,
			"berth: unknown command \"zzz\" for \"berth\"\n\"berth --help\" shows what there is\n",
		},
		"unknown flag": {
			nil, []string{"do", "--it"}, 2,
			"berth: unknown flag: --it\nusage: berth do [flags]\n\"berth do --help\" shows what there is\n",
		},
		"too much": {
			nil, []string{"do", "it"}, 2, "berth: unknown command \"it\" for \"berth do\"\n" +
				"usage: berth do [flags]\n\"berth do --help\" shows what there is\n",
		},
		"required flag": {
			nil, []string{"need"}, 2, "berth: required flag(s) \"file\" not set\n" +
				"usage: berth need [flags]\n\"berth need --help\" shows what there is\n",
		},
		"help": {nil, []string{"--help"}, 0, ""},
	} {
		root := &cobra.Command{Use: "berth", SilenceErrors: true, SilenceUsage: true}
		do := &cobra.Command{Use: "do", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return c.err }}
		need := &cobra.Command{Use: "need", RunE: func(*cobra.Command, []string) error { return nil }}
		need.Flags().String("file", "", "")
		if err := need.MarkFlagRequired("file"); err != nil {
			t.Fatal(err)
		}
		root.AddCommand(do, need)
		var stderr bytes.Buffer
		root.SetErr(&stderr)
		root.SetOut(io.Discard)
		if code := Execute(t.Context(), root, c.args); code != c.code || stderr.String() != c.said {
			t.Errorf("%s: %d, said %q; want %d, %q", name, code, stderr.String(), c.code, c.said)
		}
	}
}

// TestNotesOfErrors: an error within a line is one line, and steers nothing.
func TestNotesOfErrors(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusForbidden, rest.Problem{Kind: "forbidden", Message: "no\x1b[2J\nberth: all is well"})
	}))
	defer node.Close()
	c, err := client.New(client.Config{Address: node.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var notes bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(&notes)
	_, err = c.Host(t.Context(), "h1")
	newEventLines(cmd, FormatTable, false).lost(err)
	listLeft(cmd, c, "h1")
	const want = "berth: no?[2J?berth: all is well; trying again\n" +
		"what is left cannot be listed: no?[2J?berth: all is well\n"
	if notes.String() != want {
		t.Errorf("%q, want %q", notes.String(), want)
	}
}
