// SPDX-License-Identifier: Apache-2.0

package qmp

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}}, "capabilities": ["oob"]}}`

// serve answers each line a client sends with what answer gives.
func serve(t *testing.T, first string, answer func(line string) string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "q")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write([]byte(first))
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			a := answer(lines.Text())
			if a == "hang up" {
				return
			}
			conn.Write([]byte(a))
		}
	}()
	return path
}

// Answers are found by their id among events and answers to others, from the
// first line on.
func TestAnswersAmongEvents(t *testing.T) {
	path := serve(t, `{"event":"RESUME"}`+"\n"+greeting+"\n", func(line string) string {
		switch {
		case strings.Contains(line, "qmp_capabilities"):
			return `{"event":"STOP"}` + "\n" + `{"return":{},"id":"1"}` + "\n"
		case strings.Contains(line, "query-status"):
			return `{"return":{"status":"old"},"id":"1"}` + "\n" +
				`{"event":"SHUTDOWN","data":{"guest":true}}` + "\n" + `{"return":{"status":"running"},"id":"2"}` + "\n"
		}
		return `{"error":{"class":"CommandNotFound","desc":"what?"},"id":"3"}` + "\n"
	})
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var heard []string
	c.OnEvent = func(e Event) { heard = append(heard, e.Name+string(e.Data)) }
	var got struct{ Status string }
	if err := c.Do(t.Context(), "query-status", nil, &got); err != nil || got.Status != "running" {
		t.Errorf("query-status answers %+v, %v", got, err)
	}
	if len(heard) != 1 || heard[0] != `SHUTDOWN{"guest":true}` {
		t.Errorf("heard %q", heard)
	}
	var e *Error
	if err := c.Do(
		t.Context(), "nonsense", map[string]int{"x": 1}, nil,
	); !errors.As(err, &e) || e.Class != "CommandNotFound" || e.Command != "nonsense" {
		t.Errorf("nonsense answers %v", err)
	}
}

// A second client gets no greeting; a QEMU that hangs answers nothing. Both end
// with the context.
func TestSilence(t *testing.T) {
	for name, first := range map[string]string{"no greeting": "", "no answer": greeting + "\n"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := Dial(ctx, serve(t, first, func(string) string { return "" }))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Dial answers %v", name, err)
		}
	}
}

func TestHangUpAndGarbage(t *testing.T) {
	for answer, want := range map[string]string{
		"hang up": "closed the connection", "garbage\n": "no JSON", "{}\n": "neither greeting",
	} {
		_, err := Dial(t.Context(), serve(t, greeting+"\n", func(string) string { return answer }))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: Dial answers %v", answer, err)
		}
	}
	if _, err := Dial(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("dialled a socket that is not there")
	}
}

// QEMU lets one or two clients wait; a third waits for one of them to be served.
func TestDialWaitsForItsTurn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	for { // until nobody else may wait
		conn, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// Called off and not timed out: a dialer finds by itself that its time is up, and
	// may do so before the context says so.
	short, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := Dial(short, path); err == nil || short.Err() == nil {
		t.Fatalf("nobody is served, and Dial gives %v before it is called off: %t", err, short.Err() == nil)
	}
	dialled := make(chan error, 1)
	go func() {
		c, err := Dial(t.Context(), path)
		if err == nil {
			c.Close()
		}
		dialled <- err
	}()
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close() // not before all is over, by the garbage collector
			conn.Write([]byte(greeting + "\n" + `{"return":{},"id":"1"}` + "\n"))
		}
	}()
	if err := <-dialled; err != nil {
		t.Error(err)
	}
}
