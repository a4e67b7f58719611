package qmp

import (
	"bufio"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
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
			return `{"return":{"status":"old"},"id":"1"}` + "\n" + `{"event":"SHUTDOWN","data":{"guest":true}}` + "\n" + `{"return":{"status":"running"},"id":"2"}` + "\n"
		}
		return `{"error":{"class":"CommandNotFound","desc":"what?"},"id":"3"}` + "\n"
	})
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var heard []string
	c.Heard = func(e Event) { heard = append(heard, e.Name+string(e.Data)) }
	var got struct{ Status string }
	if err := c.Do(t.Context(), "query-status", nil, &got); err != nil || got.Status != "running" {
		t.Errorf("query-status answers %+v, %v", got, err)
	}
	if len(heard) != 1 || heard[0] != `SHUTDOWN{"guest":true}` {
		t.Errorf("heard %q", heard)
	}
	var e *Error
	if err := c.Do(t.Context(), "nonsense", map[string]int{"x": 1}, nil); !errors.As(err, &e) || e.Class != "CommandNotFound" || e.Command != "nonsense" {
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
	for answer, want := range map[string]string{"hang up": "closed the connection", "garbage\n": "no JSON", "{}\n": "neither greeting"} {
		_, err := Dial(t.Context(), serve(t, greeting+"\n", func(string) string { return answer }))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: Dial answers %v", answer, err)
		}
	}
	if _, err := Dial(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("dialled a socket that is not there")
	}
}
