// SPDX-License-Identifier: Apache-2.0

package statusserver

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/berth-project/berth/pkg/tlsfiles"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

// secured is a server on TLS whose files the test replaces, and whose clock it turns.
type secured struct {
	*Server
	t       *testing.T
	dir     string
	ours    *tlstest.Authority
	seconds atomic.Int64
}

func newSecured(t *testing.T, h http.Handler) *secured {
	t.Helper()
	s := &secured{t: t, dir: t.TempDir(), ours: tlstest.New(t, "ours")}
	cert, key := s.ours.Server().Files(t, s.dir)
	began := time.Now()
	files, err := tlsfiles.Open(
		tlsfiles.Paths{Cert: cert, Key: key, ClientCA: tlstest.Write(t, s.dir, "ca.pem", s.ours.PEM)},
		tlsfiles.Options{Now: func() time.Time { return began.Add(time.Duration(s.seconds.Load()) * time.Second) }},
	)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = New(Options{Address: "127.0.0.1:0", TLS: files, Registerer: prometheus.NewRegistry()})
	s.Serve(h)
	running(t, s.Server)
	return s
}

// client trusts our authority, and shows a certificate if it has one.
func (s *secured) client(own ...tls.Certificate) *http.Client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.ours.Pool(), Certificates: own},
		ForceAttemptHTTP2: true,
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *secured) get(c *http.Client) (*http.Response, string) {
	s.t.Helper()
	resp, err := c.Get("https://" + s.Addr().String() + "/")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(body)
}

// caller answers the name in the caller's certificate, and the connection that the request came on.
func caller(w http.ResponseWriter, r *http.Request) {
	name := "nobody"
	if chains := r.TLS.VerifiedChains; len(chains) > 0 {
		name = chains[0][0].Subject.CommonName
	}
	_, _ = io.WriteString(w, name+" "+r.RemoteAddr)
}

func TestTLS(t *testing.T) {
	s := newSecured(t, http.HandlerFunc(caller))
	resp, body := s.get(s.client())
	if resp.ProtoMajor != 2 || resp.TLS.Version < tls.VersionTLS12 || !strings.HasPrefix(body, "nobody ") {
		t.Errorf("%s over %s with TLS %x", body, resp.Proto, resp.TLS.Version)
	}
	if resp, body = s.get(s.client(s.ours.Client("alice", "").Pair(t))); !strings.HasPrefix(body, "alice ") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if n := testutil.ToFloat64(s.metrics.expires); n < float64(time.Now().Unix()) {
		t.Errorf("expires at %v", n)
	}
}

// A caller that speaks an older TLS, none at all, or shows a certificate of an authority of its own
// gets nowhere.
func TestTLSRefuses(t *testing.T) {
	h := &counting{}
	s := newSecured(t, h)
	theirs := tlstest.New(t, "theirs").Client("alice", "").Pair(t)
	for name, c := range map[string]*tls.Config{
		"TLS 1.1": {RootCAs: s.ours.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		"another authority": {
			RootCAs: s.ours.Pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &theirs, nil
			},
		},
		"a server's certificate": {
			RootCAs: s.ours.Pool(), Certificates: []tls.Certificate{s.ours.Server().Pair(t)},
		},
	} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
		if resp, err := client.Get("https://" + s.Addr().String()); err == nil {
			resp.Body.Close()
			t.Errorf("%s: answered %d", name, resp.StatusCode)
		}
	}
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if answer, _ := io.ReadAll(c); !strings.HasPrefix(string(answer), "HTTP/1.0 400 ") {
		t.Errorf("without TLS: %s", answer)
	}
	if n := h.asked.Load(); n != 0 {
		t.Errorf("the handler was asked %d times", n)
	}
}

// New files count for new connections at once, and those of before end with their next answer: an
// authority that is not trusted any more speaks for nobody.
func TestNewFilesEndOldConnections(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(protocol, func(t *testing.T) {
			s := newSecured(t, http.HandlerFunc(caller))
			c := s.client(s.ours.Client("alice", "").Pair(t))
			c.Transport.(*http.Transport).ForceAttemptHTTP2 = protocol == "HTTP/2"
			_, first := s.get(c)
			if _, again := s.get(c); again != first || !strings.HasPrefix(first, "alice ") {
				t.Fatalf("%s, then %s: the connection does not stay", first, again)
			}
			tlstest.Write(t, s.dir, "ca.pem", tlstest.New(t, "theirs").PEM)
			s.seconds.Add(1)
			if _, last := s.get(c); last != first {
				t.Errorf("%s, then %s", first, last)
			}
			body := first
			for range 1000 { // over HTTP/2 the end of the connection may be heard of later
				if _, body = s.get(c); strings.HasPrefix(body, "nobody ") {
					return
				}
			}
			t.Errorf("%s after its authority is gone", body)
		})
	}
}
