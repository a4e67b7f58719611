// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/pipetest"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// typed runs one command against a node that answers as node does.
func typed(
	ctx context.Context, t *testing.T, node http.HandlerFunc, command func(*settings) *cobra.Command, args ...string,
) (out, errs string, err error) {
	t.Helper()
	served := httptest.NewServer(node)
	defer served.Close()
	return typedAt(ctx, &settings{api: served.URL}, command, args...)
}

// typedInVirtualTime is typed where time passes only when all wait.
func typedInVirtualTime(
	t *testing.T, node http.HandlerFunc, command func(*settings) *cobra.Command, args ...string,
) (out, errs string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		served := &http.Server{ReadHeaderTimeout: time.Minute, Handler: node}
		conns, ended := pipetest.Listen(), make(chan error)
		go func() { ended <- served.Serve(conns) }()
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return conns.Dial(ctx) }
		out, errs, err = typedAt(t.Context(), &settings{api: "http://node", dial: dial}, command, args...)
		_ = served.Close() // nothing is under way
		<-ended
	})
	return out, errs, err
}

// typedAt runs one command against the node that the settings lead to.
func typedAt(
	ctx context.Context, s *settings, command func(*settings) *cobra.Command, args ...string,
) (out, errs string, err error) {
	var stdout, stderr bytes.Buffer
	s.project, s.output, s.timeout, s.token = "default", "table", 30*time.Second, "t"
	s.errs = func() io.Writer { return &stderr }
	cmd := command(s)
	cmd.PersistentFlags().StringVarP(&s.output, "output", "o", "table", "")
	cmd.PersistentFlags().StringVar(&s.project, "project", "default", "")
	cmd.PersistentFlags().DurationVar(&s.timeout, "request-timeout", s.timeout, "")
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(ctx)
	return stdout.String(), stderr.String(), err
}

// problem is an answer that refuses.
func problem(w http.ResponseWriter, status int, kind compute.Kind) {
	answer(w, status, rest.Problem{Status: status, Kind: kind.String(), Detail: kind.String()})
}

const ownID = "11111111-1111-4111-8111-111111111111"

// TestBootWhoseFateIsOpen: a try that was not answered in time stays the answer, unless a later one tells what became
// of it, and the remedy names what can be typed.
func TestBootWhoseFateIsOpen(t *testing.T) {
	one := []string{"--flavor", "m1.small", "--name", "web"}
	set := []string{"--count", "2", "--atomic"}
	for name, c := range map[string]struct {
		second compute.Kind
		args   []string
		code   exitCode
		says   string
		not    string
	}{
		"then nothing is done": {compute.KindUnavailable, []string{"--id", ownID}, exitTimeout, "with --id " + ownID, ""},
		"then no answer again": {compute.KindTimeout, []string{"--id", ownID}, exitTimeout, "with --id " + ownID, ""},
		"then it is refused":   {compute.KindQuota, []string{"--id", ownID}, exitQuota, "quota", ownID},
		"with a key":           {compute.KindUnavailable, []string{"--key", "k"}, exitTimeout, "as it was", "--id"},
		"a set":                {compute.KindUnavailable, set, exitTimeout, "see berth show", "--id"},
		"a set with a key":     {compute.KindUnavailable, append(set[:3:3], "--key", "k"), exitTimeout, "as it was", "--id"},
		"several":              {compute.KindUnavailable, set[:2], exitTimeout, "2 may have been kept", "repeat"},
		"several with a key":   {compute.KindUnavailable, append(set[:2:2], "--key", "k"), exitTimeout, "as it was", "--id"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := 1
			if strings.HasPrefix(name, "several") {
				requests = 2
			}
			var mu sync.Mutex
			tries := map[string]int{}
			allAsked := make(chan struct{}) // after one that failed none is sent any more
			_, _, err := typed(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				tries[string(body)]++
				first := tries[string(body)] == 1
				if first && len(tries) == requests {
					close(allAsked)
				}
				mu.Unlock()
				if first {
					select {
					case <-allAsked:
					case <-r.Context().Done(): // the caller gave up: it asks one after the other
					}
					problem(w, http.StatusGatewayTimeout, compute.KindTimeout)
					return
				}
				problem(w, http.StatusServiceUnavailable, c.second)
			}, newBoot, append(one[:4:4], c.args...)...)
			if err == nil || codeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v (%d), want %d with %q", err, codeOf(err), c.code, c.says)
			}
			if c.not != "" && strings.Contains(err.Error(), c.not) {
				t.Errorf("%v says %q", err, c.not)
			}
		})
	}
}

// TestBootsUnderWayAreAwaited: where one of many is refused, those that were sent are listed as they were answered, and
// no more are sent.
func TestBootsUnderWayAreAwaited(t *testing.T) {
	in(t, func(t *testing.T, n *apiNode) {
		var asked, made atomic.Int32
		refused := make(chan struct{})
		n.answers = func(w http.ResponseWriter, r *http.Request) {
			var b rest.Boot
			if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
				t.Error(err)
			}
			if asked.Add(1) == bootsAtOnce { // all that are sent at once are here
				problem(w, http.StatusForbidden, compute.KindQuota)
				close(refused)
				return
			}
			<-refused
			select { // those that go away by the refusal of another do so before time passes
			case <-r.Context().Done():
			case <-time.After(100 * time.Millisecond): // virtual: the refusal has been heard
			}
			made.Add(1)
			answer(w, http.StatusAccepted, client.Instance{ID: b.ID, Name: b.Name, State: "accepted"})
		}
		out, _, err := typedAt(t.Context(), &settings{api: "http://node", dial: n.dial}, newBoot,
			"--flavor", "m1.small", "--name", "web", "--count", "100", "-o", "name")
		listed := strings.Count(out, "\n")
		if codeOf(err) != exitQuota || listed != bootsAtOnce-1 || int(made.Load()) != listed || asked.Load() != bootsAtOnce {
			t.Errorf("%v: of %d that were asked for %d were made and %d are listed", err, asked.Load(), made.Load(), listed)
		}
	})
}

// TestBootCalledOff: a boot that is called off says what was asked for, and does not end well.
func TestBootCalledOff(t *testing.T) {
	one := []string{"--flavor", "m1.small", "--name", "web"}
	for name, more := range map[string][]string{
		"one": nil, "it waits": {"--wait"}, "several": {"--count", "3"}, "a set": {"--count", "3", "--atomic"},
	} {
		t.Run("before: "+name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			stop()
			node := func(http.ResponseWriter, *http.Request) { t.Error("it asks") }
			_, _, err := typed(ctx, t, node, newBoot, append(one[:4:4], more...)...)
			if codeOf(err) != exitError || !strings.Contains(err.Error(), "nothing was asked for") {
				t.Errorf("%v (%d)", err, codeOf(err))
			}
		})
		t.Run("meanwhile: "+name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			node := func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					problem(w, http.StatusNotFound, compute.KindNotFound)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the caller goes
				stop()
				<-r.Context().Done()
			}
			_, _, err := typed(ctx, t, node, newBoot, append(one[:4:4], more...)...)
			var e *compute.Error
			if !errors.As(err, &e) || codeOf(err) != exitError || !strings.Contains(e.Remedy, "see berth show") {
				t.Errorf("%v (%d)", err, codeOf(err))
			}
		})
	}
}

// A boot that is called off tells of the refusal that came before, and how many were asked for.
func TestBootEnd(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	refused := &compute.Error{Kind: compute.KindQuota, Message: "no more"}
	open := &compute.Error{Kind: compute.KindUnavailable, Cause: context.Canceled}
	ids := []compute.InstanceID{"a", "b", "c"}
	f := bootFlags{count: 3}
	asked := []bootAsked{{err: refused}, {booted: client.Instance{ID: "b"}}, {}}
	if _, err := f.bootEnd(ctx, ids, asked, refused); !errors.Is(err, refused) {
		t.Errorf("refused: %v", err)
	}
	asked[0].err, asked[2] = open, bootAsked{err: open}
	const said = "3 of 3 were asked for, but of 2 it is not known"
	if _, err := f.bootEnd(ctx, ids, asked, open); !strings.Contains(fmt.Sprint(err), said) {
		t.Errorf("called off: %v", err)
	}
}
