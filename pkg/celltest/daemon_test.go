// SPDX-License-Identifier: Apache-2.0

package celltest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/localkafka"
)

// systemdHere plays systemd for a daemon that is started with this environment: what it notifies comes out.
func systemdHere(t *testing.T) (env []string, said <-chan string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	out := make(chan string, 1000)
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := c.Read(buffer)
			if err != nil {
				return
			}
			out <- string(buffer[:n])
		}
	}()
	return []string{"NOTIFY_SOCKET=" + socket}, out
}

// notified waits until systemd was told so, and answers all it was told until then.
func notified(t *testing.T, said <-chan string, what string) []string {
	t.Helper()
	var all []string
	lost := time.After(patience)
	for {
		select {
		case s := <-said:
			all = append(all, s)
			if strings.Contains(s, what) {
				return all
			}
		case <-lost:
			t.Fatalf("systemd is not told %q but %q", what, all)
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// unready waits until a daemon that is not ready says so and why, and answers all it says. It tries again and again,
// and what it met last may be only that a busy broker took too long.
func unready(t *testing.T, face, why string) string {
	t.Helper()
	return awaitReadyz(t, face, "it says "+why, func(code int, body string) bool {
		t.Helper()
		if code != http.StatusServiceUnavailable {
			t.Fatalf("readyz: %d %s", code, body)
		}
		return strings.Contains(body, why)
	})
}

// awaitReadyz waits until a daemon answers so whether it is ready, and answers what it says.
func awaitReadyz(t *testing.T, face, what string, so func(code int, body string) bool) string {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	lost := time.After(patience)
	for {
		code, body := get(t, face+"/readyz")
		if so(code, body) {
			return body
		}
		select {
		case <-tick.C:
		case <-lost:
			t.Fatalf("not so: %s; /readyz: %d %s", what, code, body)
		}
	}
}

// awaitLog waits until the log matches, and answers the first group.
func awaitLog(t *testing.T, l *lines, pattern string) string {
	t.Helper()
	lost := time.After(patience)
	for {
		text, news := l.text()
		if m := regexp.MustCompile(pattern).FindStringSubmatch(text); m != nil {
			return m[1]
		}
		select {
		case <-news:
		case <-lost:
			t.Fatalf("%q is not in the log:\n%s", pattern, text)
		}
	}
}

// A daemon whose Kafka is not there answers from the first moment, says what it
// waits for, and needs nobody when Kafka comes.
func TestDaemonWaitsForKafka(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		name, listen string
		settings     []string
	}{
		{"api", "listen", nil},
		{"queues", "status.listen", nil},
		{"conductor", "status.listen", nil},
		{"agent", "status.listen", []string{"host=h1"}},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			env, said := systemdHere(t)
			ports, err := localkafka.FreePorts(1)
			if err != nil {
				t.Fatal(err)
			}
			broker := fmt.Sprintf("127.0.0.1:%d", ports[0])
			dir := t.TempDir()
			args := []string{d.name, "--set", "kafka.brokers=" + broker, "--set", d.listen + "=127.0.0.1:0"}
			if d.name == "agent" {
				args = append(args, "--set", "state="+dir, "--set", "driver.fake.world="+dir)
			}
			for _, s := range d.settings {
				args = append(args, "--set", s)
			}
			p := spawn(t, env, args...)
			log := p.out

			base := "http://" + awaitLog(t, log, `listening.*"address": "([0-9.:]+)"`)
			awaitLog(t, log, `(waiting for Kafka at `+broker+`: .*connection refused)`)
			unready(t, base, "waiting for Kafka at "+broker)
			if code, body := get(t, base+"/metrics"); code != http.StatusOK ||
				!strings.Contains(body, "berth_build_info") {
				t.Errorf("metrics: %d %s", code, body)
			}
			if code, _ := get(t, base+"/healthz"); code != http.StatusOK {
				t.Errorf("healthz: %d", code)
			}

			b, err := embedded.Start(embedded.Options{Port: ports[0]})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.Close)
			told := notified(t, said, "READY=1")
			if !strings.Contains(told[0], "STATUS=waiting for Kafka at "+broker) {
				t.Errorf("systemd is told first: %q", told)
			}
			if code, body := get(t, base+"/readyz"); code != http.StatusOK {
				t.Errorf("readyz: %d %s", code, body)
			}
			p.terminate()
			notified(t, said, "STOPPING=1")
		})
	}
}
