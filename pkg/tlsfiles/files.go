// SPDX-License-Identifier: Apache-2.0

// Package tlsfiles has a server's certificate and key, and the authorities of its callers, as they
// are on the disk now.
package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/secretfile"
)

// Paths are PEM files. They are the setting tls of a daemon.
type Paths struct {
	Cert     string `yaml:"cert"`      // the server's certificate, with those between it and its authority
	Key      string `yaml:"key"`       // its key
	ClientCA string `yaml:"client_ca"` // the authorities of callers that show a certificate; empty: none is asked for
}

// lookEvery is how often the files are read at most.
const lookEvery = time.Second

// Files is what the files say. They are read again, at most once a second, when a connection is made and when Changes
// or Expires are asked. A certificate that cannot be used changes nothing: the one of before stays in use, Expires
// says so, and the log has it once for each change of the files. The authorities of callers count for themselves, so
// that one which was taken out is not trusted while a certificate has to wait; a file without any changes nothing. It
// may be used by many goroutines at once.
type Files struct {
	paths Paths
	log   *zap.Logger
	now   func() time.Time

	mu       sync.Mutex
	looked   time.Time
	seen     content   // what was in the files when they were looked at, whether it could be used or not
	from     time.Time // when what was seen can be used; zero: now, or never
	current  *tls.Config
	expires  time.Time
	unusable bool
	changes  int
}

// content is what is in the files; of one that cannot be read why.
type content struct {
	cert, key, clientCA []byte
	open                error // others may read the key
}

// Options of Files.
type Options struct {
	Log *zap.Logger      // nil: none
	Now func() time.Time // default time.Now
}

// Open reads the files. It refuses what cannot be used.
func Open(p Paths, o Options) (*Files, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &Files{paths: p, log: o.Log, now: o.Now, looked: o.Now(), seen: p.read()}
	var err error
	f.current, f.expires, err = p.load(f.seen)
	if err != nil {
		return nil, err
	}
	if o.Now().After(f.expires) {
		o.Log.Warn("the certificate has expired", zap.String("file", p.Cert), zap.Time("expired", f.expires))
	}
	return f, nil
}

// Check says what is wrong with the settings; nil where they are empty.
func (p Paths) Check() error {
	switch {
	case p == Paths{}:
		return nil
	case p.Cert == "":
		return compute.Invalid("tls.cert", "", "name the file of the certificate too, or leave key and client_ca empty")
	case p.Key == "":
		return compute.Invalid("tls.key", "", "name the file of the certificate's key too")
	}
	_, _, err := p.load(p.read())
	return err
}

// Config is for the server. Each connection gets what is on the disk when it begins.
func (f *Files) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols(),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.look()
			return f.current, nil
		},
	}
}

// Changes counts how often the files were replaced by others that can be used.
func (f *Files) Changes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	return f.changes
}

// marked is what the context of a connection says: the files, and how many changes of them it has seen.
type marked struct {
	files   *Files
	changes int
}

// markedKey is of a context.
type markedKey struct{}

// Mark notes in the context of a connection which files it began with (http.Server.ConnContext).
func (f *Files) Mark(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, markedKey{}, marked{f, f.Changes()})
}

// Changed says whether the files are others than when the connection of a request began: its caller may have signed in
// with a certificate of an authority that is not trusted any more. It is false where no connection was marked.
func Changed(ctx context.Context) bool {
	m, ok := ctx.Value(markedKey{}).(marked)
	return ok && m.changes != m.files.Changes()
}

// Expires is when the certificate in use stops to count, and whether the files on the disk cannot
// be used instead of it.
func (f *Files) Expires() (at time.Time, unusable bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	return f.expires, f.unusable
}

// look reads the files again, if it is time to. Their text is compared, and not their time: that of
// a file which was moved here is an older one's.
func (f *Files) look() {
	now := f.now()
	if age := now.Sub(f.looked); age >= 0 && age < lookEvery {
		return
	}
	f.looked = now
	fresh := f.paths.read()
	if fresh.same(f.seen) && (f.from.IsZero() || now.Before(f.from)) {
		return
	}
	f.seen, f.from = fresh, time.Time{}
	config, expires, err := f.paths.load(fresh)
	if err == nil && now.After(expires) {
		err = compute.Invalid("tls.cert", f.paths.Cert, "give one that has not expired")
	}
	// The one in use stays in use, whatever else has changed.
	if err == nil && now.Before(config.Certificates[0].Leaf.NotBefore) &&
		!config.Certificates[0].Leaf.Equal(f.current.Certificates[0].Leaf) {
		f.from = config.Certificates[0].Leaf.NotBefore
		err = compute.Invalid("tls.cert", f.paths.Cert,
			"give one that is valid now; this one is used from "+f.from.UTC().Format(time.RFC3339)+" on")
	}
	// One that was put there early is in nobody's way while the one before it counts.
	f.unusable = err != nil && (f.from.IsZero() || f.expires.Before(f.from))
	if err != nil {
		f.log.Warn("the new certificate files cannot be used; the last good ones stay in use", zap.Error(err))
		f.trust(fresh)
		return
	}
	f.current, f.expires = config, expires
	f.changes++
	f.log.Info("certificate files were read again", zap.Time("expires", expires))
}

// trust has the certificate in use go with the authorities that are in the file now.
func (f *Files) trust(fresh content) {
	if f.current.ClientCAs == nil || strings.HasPrefix(string(fresh.clientCA), unread) {
		return
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(fresh.clientCA) || pool.Equal(f.current.ClientCAs) {
		return
	}
	f.current = f.current.Clone()
	f.current.ClientCAs = pool
	f.changes++
	f.log.Info("the authorities of callers were read again")
}

func (p Paths) read() content {
	read := func(file string) []byte {
		if file == "" {
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return []byte(unread + err.Error())
		}
		return data
	}
	return content{read(p.Cert), read(p.Key), read(p.ClientCA), secretfile.Check("tls.key", p.Key)}
}

// unread begins the content of a file that cannot be read. No PEM file begins so.
const unread = "\x00cannot be read: "

func (c content) same(as content) bool {
	return bytes.Equal(c.cert, as.cert) && bytes.Equal(c.key, as.key) && bytes.Equal(c.clientCA, as.clientCA) &&
		(c.open == nil) == (as.open == nil)
}

// load makes what a server uses of the content.
func (p Paths) load(c content) (*tls.Config, time.Time, error) {
	for _, file := range []struct {
		field, path string
		data        []byte
	}{{"tls.cert", p.Cert, c.cert}, {"tls.key", p.Key, c.key}, {"tls.client_ca", p.ClientCA, c.clientCA}} {
		if why, not := strings.CutPrefix(string(file.data), unread); not {
			return nil, time.Time{}, &compute.Error{
				Kind: compute.KindInvalid, Field: file.field, Value: file.path, Message: "cannot be read: " + why,
				Remedy: "give a file that this process may read",
			}
		}
	}
	if c.open != nil {
		return nil, time.Time{}, c.open
	}
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, time.Time{}, &compute.Error{
			Kind: compute.KindInvalid, Field: "tls.cert", Value: p.Cert, Message: "is not of use with " + p.Key,
			Remedy: "give a certificate and its key in PEM form", Cause: err,
		}
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: protocols(),
	}
	if p.ClientCA == "" {
		return config, pair.Leaf.NotAfter, nil
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(c.clientCA) {
		const remedy = "give a file with certificates in PEM form"
		return nil, time.Time{}, compute.Invalid("tls.client_ca", p.ClientCA, remedy)
	}
	config.ClientAuth = tls.VerifyClientCertIfGiven // others sign in by a token
	// A resumed session brings the certificate of an earlier one, whatever the authorities are now.
	config.SessionTicketsDisabled = true
	return config, pair.Leaf.NotAfter, nil
}

func protocols() []string { return []string{"h2", "http/1.1"} }
