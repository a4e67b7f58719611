// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/berth-project/berth/pkg/compute"
)

// uploader posts spans as OTLP over HTTP. OpenTelemetry's own client does the same, and brings all of gRPC along.
type uploader struct {
	to     string
	client *http.Client
	log    *zap.Logger

	mu     sync.Mutex
	warned time.Time // when it was last said that spans are lost
}

const (
	// uploadWithin is how long a collector may take for one batch.
	uploadWithin = 10 * time.Second
	// warnEvery is how often the log says at most that spans are lost.
	warnEvery = time.Minute
)

func newUploader(o Options) *uploader {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// What a collector answers is for it alone: spans go nowhere else than where the operator said.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Transport: transport, Timeout: uploadWithin, CheckRedirect: stay}
	u := &uploader{to: withPath(o.Endpoint), client: client, log: o.Log}
	if u.log == nil {
		u.log = zap.NewNop()
	}
	return u
}

// CheckEndpoint refuses what no spans can be posted to. Empty is allowed: there are no traces.
func CheckEndpoint(field, endpoint string) error {
	u, err := url.Parse(endpoint)
	if endpoint == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil {
		return nil
	}
	return compute.Invalid(field, endpoint,
		"give the URL of a collector that takes OTLP over HTTP, as in http://127.0.0.1:4318, or nothing")
}

// withPath is where a collector takes traces, if it does not say otherwise.
func withPath(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err == nil && (u.Path == "" || u.Path == "/") {
		u.Path = "/v1/traces"
		return u.String()
	}
	return endpoint
}

// Start does nothing: connections are made when there is something to send.
func (u *uploader) Start(context.Context) error { return nil }

// Stop closes the connections.
func (u *uploader) Stop(context.Context) error {
	u.client.CloseIdleConnections()
	return nil
}

// UploadTraces posts one batch. Spans that the collector does not take are lost: nothing waits for them.
func (u *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if err := u.post(ctx, spans); err != nil {
		u.warn(err)
	}
	return nil
}

func (u *uploader) post(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // on the wire it is an ExportTraceServiceRequest
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := u.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 == 2 {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // so that the connection can be used again
		return err
	}
	why, _ := io.ReadAll(io.LimitReader(resp.Body, 256))
	return fmt.Errorf("%s: %s %q", u.to, resp.Status, why)
}

func (u *uploader) warn(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); now.Sub(u.warned) >= warnEvery {
		u.warned = now
		u.log.Warn("traces could not be sent, and are lost", zap.Error(err))
	}
}
