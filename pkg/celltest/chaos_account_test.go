// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/compute"
)

// The account of a fault: what was accepted meanwhile, the longest pause though
// something waited, and when the last long pause was over.
func TestChaosAccounts(t *testing.T) {
	t0 := time.Now()
	at := func(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }
	w, s := newWitness(), &stream{boots: map[compute.InstanceID]*boot{}}
	for id, b := range map[compute.InstanceID][2]float64{ // asked for and active
		"before": {-2, -1}, "soon": {-1, 0.5}, "late": {0.6, 5.5}, "later": {0.7, 5.6},
		"nothing waited": {9, 9.2}, "after": {11, 12},
	} {
		s.boots[id] = &boot{asked: at(b[0]), accepted: at(b[0])}
	}
	for _, id := range []compute.InstanceID{"before", "soon", "late", "later", "nothing waited", "after"} {
		b := map[compute.InstanceID]float64{
			"before":         -1,
			"soon":           0.5,
			"late":           5.5,
			"later":          5.6,
			"nothing waited": 9.2,
			"after":          12,
		}
		w.began = append(w.began, begun{id: id, at: at(b[id])})
	}
	s.boots["never"] = &boot{asked: at(1)}
	r := &row{from: t0, to: at(10)}
	r.judge(w, s)
	if r.accepted != 3 || r.stall != at(5.5).Sub(at(0.6)) || r.recovery != at(5.5).Sub(t0) {
		t.Errorf("%d accepted, stall %s, recovered after %s", r.accepted, r.stall, r.recovery)
	}
	if n := s.begunSince(w.began, at(0.65)); n != 3 {
		t.Errorf("%d of those asked for since are active", n)
	}
}

// A line that is cut lets nothing through and says nothing; mended, what was
// under way arrives.
func TestLineIsCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	by := newLine()
	here, err := by.dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there := <-accepted
	defer func() { _ = there.Close() }()
	by.cut()
	if _, err := there.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := here.Read(make([]byte, 1))
		read <- err
	}()
	if err := here.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Write([]byte("y")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("written over a cut line: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := by.dial(ended, "tcp", l.Addr().String()); !errors.Is(err, context.Canceled) {
		t.Errorf("dialled over a cut line: %v", err)
	}
	select {
	case err := <-read:
		t.Errorf("read over a cut line: %v", err)
	default:
	}
	by.repair()
	if err := <-read; err != nil {
		t.Error(err)
	}
	by.cut()
	go func() {
		_, err := here.Read(make([]byte, 1))
		read <- err
	}()
	_ = here.Close()
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed while the line is cut: %v", err)
	}
}
