// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/leaktest"
	"github.com/berth-project/berth/pkg/service"
)

const asChild = "BERTH_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(asChild) == "1" {
		if err := Serve(context.Background(), os.Stdin, os.Stdout, work); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leaktest.Main(m.Run))
}

// work does what an order says: "breaks" after the first question, "refuses" to
// begin, or else counts questions.
func work(order json.RawMessage) (Work, error) {
	var what string
	if err := json.Unmarshal(order, &what); err != nil {
		return Work{}, err
	}
	if what == "refuses" {
		return Work{}, errors.New("will not " + what)
	}
	n, broken := 0, make(chan struct{})
	part := service.Func(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-broken:
			return errors.New("broke")
		}
	})
	return Work{
		Part:  part,
		Ready: func() (any, error) { return what, nil },
		Report: func() (any, error) {
			if n++; what == "breaks" {
				close(broken)
			}
			return n, nil
		},
		Last: func() (any, error) { return "asked " + strings.Repeat("I", n), nil },
	}, nil
}

func start(t *testing.T, order string) (p *Process, said *strings.Builder, stop func() error) {
	t.Helper()
	t.Setenv(asChild, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said = &strings.Builder{}
	p = New(Options{Command: []string{self}, Order: order, Stderr: said})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return p, said, func() error { cancel(); return <-ended }
}

func TestChild(t *testing.T) {
	p, said, stop := start(t, "count")
	var told, last string
	if err := p.Told(&told); err != nil || told != "count" {
		t.Errorf("told %q, %v", told, err)
	}
	for want := 1; want <= 3; want++ {
		var n int
		if err := p.Ask(t.Context(), &n); err != nil || n != want {
			t.Errorf("question %d: %d, %v", want, n, err)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("%v, %s", err, said)
	}
	if err := p.Last(&last); err != nil || last != "asked III" {
		t.Errorf("last %q, %v", last, err)
	}
	if err := p.Ask(t.Context(), new(int)); err == nil {
		t.Error("one that has ended answered")
	}
}

// An answer that came too late is not taken for that of the next question.
func TestQuestionThatWasGivenUp(t *testing.T) {
	p, said, stop := start(t, "count")
	if err := p.Told(new(string)); err != nil {
		t.Fatal(err)
	}
	called, off := context.WithCancel(t.Context())
	off()
	var n int
	if err := p.Ask(called, &n); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := p.Ask(t.Context(), &n); err != nil || n != 2 {
		t.Errorf("the second question: %d, %v", n, err)
	}
	if err := stop(); err != nil {
		t.Errorf("%v, %s", err, said)
	}
}

func TestChildThatFails(t *testing.T) {
	for order, want := range map[string]string{"refuses": "will not refuses", "breaks": "broke"} {
		p, said, stop := start(t, order)
		if order == "breaks" {
			if err := p.Told(new(string)); err != nil {
				t.Error(err)
			}
			_ = p.Ask(t.Context(), new(int)) // answered or not
		}
		<-p.ended
		if err := p.Told(new(string)); order == "refuses" && err == nil {
			t.Error("it was ready")
		}
		if err := stop(); err == nil || !strings.Contains(said.String(), want) {
			t.Errorf("%s: %v, said %q", order, err, said)
		}
		if err := p.Last(new(string)); err == nil {
			t.Errorf("%s: it said a last word", order)
		}
	}
}

// A child whose parent was killed finds its input at its end.
func TestChildEndsWithItsInput(t *testing.T) {
	in, parent := io.Pipe()
	heard, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(t.Context(), in, out, work) }()
	if _, err := io.WriteString(parent, `"count"`+"\n"); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(heard)
	var m message
	if err := lines.Decode(&m); err != nil || m.Kind != saysReady {
		t.Fatalf("%+v, %v", m, err)
	}
	_ = parent.Close()
	if err := lines.Decode(&m); err != nil || m.Kind != saysLast {
		t.Errorf("%+v, %v", m, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on")
	}
}
