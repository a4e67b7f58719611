// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Prompt sends requests through a client, and waits for no longer than their contexts last: while a client connects, it
// does not heed them itself. The client may have a request until it has connected, or ends, so nothing in it may be
// changed or used again; it is not sent any more then.
func Prompt(through kmsg.Requestor) kmsg.Requestor { return prompt{through} }

type prompt struct{ through kmsg.Requestor }

func (p prompt) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	type answer struct {
		resp kmsg.Response
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		resp, err := p.through.Request(ctx, req)
		answers <- answer{resp, err}
	}()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
