// SPDX-License-Identifier: Apache-2.0

package localkafka

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The class that is kept was compiled from the source that is kept.
func TestCountedIsCompiledFromItsSource(t *testing.T) {
	source, err := os.ReadFile("java/Counted.java")
	if err != nil {
		t.Fatal(err)
	}
	noted, err := os.ReadFile("java/Counted.java.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if is := fmt.Sprintf("%x", sha256.Sum256(source)); !strings.HasPrefix(string(noted), is+" ") {
		t.Error("java/Counted.java has changed since it was compiled: run pkg/localkafka/java/build")
	}
	if len(countedClass) < 1000 || string(countedClass[:4]) != "\xca\xfe\xba\xbe" {
		t.Errorf("java/Counted.class is no class: %d bytes", len(countedClass))
	}
}

func TestParseCount(t *testing.T) {
	got, err := parseCount("Count 12.0 kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch,version=17")
	want := Count{Attribute: "Count", Domain: "kafka.network", Value: 12, Keys: map[string]string{
		"type": "RequestMetrics", "name": "RequestsPerSec", "request": "Fetch", "version": "17",
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for _, line := range []string{"", "Count", "Count x kafka.network:type=a", "Count 1.0 kafka.network"} {
		if c, err := parseCount(line); err == nil {
			t.Errorf("%q was read as %+v", line, c)
		}
	}
}

// Whatever a line holds, a count has a domain's keys and its number.
func FuzzParseCount(f *testing.F) {
	f.Add("Count 12.0 kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch,version=17")
	f.Add("incoming-byte-total NaN kafka.server:type=socket-server-metrics,listener=A")
	f.Add("end")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := parseCount(line)
		if err == nil && (c.Keys == nil || len(c.Attribute)+len(c.Domain) >= len(line)) {
			t.Errorf("%q was read as %+v", line, c)
		}
	})
}

// An answer without its last line is none: a broker that ends meanwhile must not
// look like one that counted less.
func TestCountsThatAreCutShort(t *testing.T) {
	for answer, fails := range map[string]bool{
		"Count 1.0 a:b=c\nend\n": false, "Count 1.0 a:b=c\n": true, "Count 1.0 a:b=c\nCount 1": true, "": true,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		asked := make(chan string, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			asked <- line
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		}()
		counts, err := askCounts(t.Context(), l.Addr().String(), []MBeans{{Pattern: "a:*", Attribute: "Count"}})
		if (err != nil) != fails || !fails && len(counts) != 1 {
			t.Errorf("%q: %v, %v", answer, counts, err)
		}
		if line := <-asked; line != "Count a:*\n" {
			t.Errorf("asked %q", line)
		}
		_ = l.Close()
	}
}
