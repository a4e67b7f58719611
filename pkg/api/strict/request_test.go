// SPDX-License-Identifier: Apache-2.0

package strict_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berth-project/berth/pkg/api/strict"
)

// A request without a body that takes longer than a body may take to come goes on, and so does the next one of its
// connection.
func TestWithoutABody(t *testing.T) {
	const toRead = 50 * time.Millisecond
	mux := http.NewServeMux()
	api := humago.New(mux, huma.DefaultConfig("test", "1"))
	api.UseMiddleware(strict.Requests(api))
	huma.Register(api, huma.Operation{OperationID: "slow", Method: http.MethodPost, Path: "/slow", BodyReadTimeout: toRead},
		func(ctx context.Context, _ *struct {
			Body *struct{} `required:"false"`
		},
		) (*struct{}, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(10 * toRead):
				return nil, nil
			}
		})
	served := httptest.NewServer(mux)
	defer served.Close()
	for n := range 2 {
		answer, err := served.Client().Post(served.URL+"/slow", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusNoContent || err != nil || answer.Body.Close() != nil {
			t.Errorf("request %d: %s %s, %v", n+1, answer.Status, text, err)
		}
	}
}
