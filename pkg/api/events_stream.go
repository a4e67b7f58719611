// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	"github.com/berth-project/berth/pkg/sse"
	"github.com/berth-project/berth/pkg/tlsfiles"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// stream tells one listener what it wants to hear, until one of both is over. No lock is held while it writes.
type stream struct {
	*events.Listener
	server  *Server
	in      *eventsInput
	wish    events.Wish
	show    *presenter
	w       http.ResponseWriter
	control *http.ResponseController
	present []*compute.Instance // that are to be told
	held    int                 // places among the presents
}

// endsBecause is what the last event of a stream says for people.
func endsBecause(why string) string {
	switch why {
	case "caught-up":
		return "all that there is was told"
	case "slow":
		return "you did not keep up, and what comes next is forgotten here: go on with id, and a gap is told"
	case "stopping":
		return "this node stops: go on with id at another one"
	}
	return "what you signed in with does not count any more, or is to be shown anew: sign in, and go on with id"
}

func (s *Server) stream(h huma.Context, in *eventsInput, w events.Wish) {
	r, to := humago.Unwrap(h)
	t := &stream{
		server: s, in: in, wish: w, show: s.presenter(h.Context()), w: to, control: http.NewResponseController(to),
	}
	defer t.leave()
	if err := t.listen(h.Context()); err != nil {
		s.answer(h, s.refuse(h.Context(), followEvents, err))
		return
	}
	for name, value := range map[string]string{
		"Content-Type": sse.ContentType, "Cache-Control": "no-store",
		"X-Accel-Buffering": "no", // proxies that would wait until there is more
	} {
		h.SetHeader(name, value)
	}
	h.SetStatus(http.StatusOK)
	why, err := t.tell(h.Context(), func() error { return s.stillMay(h, r) })
	if err == nil {
		err = t.write(rest.EventEnd, t.id(), rest.EventsEnd{ID: t.id(), Why: why, Message: endsBecause(why)})
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded): // which ends the request's context too
		why = "blocked"
	case h.Context().Err() != nil:
		why = "left"
	case err != nil:
		why = "blocked"
	}
	s.metrics.listenerEnded(why)
}

// stillMay refuses a caller that has signed out since, or lost the role. Whether a certificate is trusted is found out
// when a connection begins: once the authorities may be others, its caller has to begin anew.
func (s *Server) stillMay(h huma.Context, r *http.Request) error {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && tlsfiles.Changed(r.Context()) {
		return auth.Unauthenticated("the certificates of this node were replaced", "connect anew")
	}
	caller, err := s.caller(h.Context(), r)
	if err != nil {
		return err
	}
	return s.door.checkEarly(s.door.needs[followEvents], caller, h)
}

// listen begins to listen, with the present or without.
func (t *stream) listen(ctx context.Context) (err error) {
	begin := func() (err error) {
		t.Listener, err = t.server.events.Listen(t.wish)
		return err
	}
	if !t.in.Present || t.in.LastEventID != "" {
		return begin()
	}
	t.wish.Since = time.Time{}
	return t.list(ctx, begin)
}

// list lists the present, and begins to listen at it.
func (t *stream) list(ctx context.Context, begin func() error) (err error) {
	all := &t.server.present
	select {
	case all.listing <- struct{}{}:
		defer func() { <-all.listing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	found, err := t.server.views.instances.present(t.wish.Wanted, begin)
	if err == nil {
		err = all.hold(len(found))
	}
	if err != nil {
		return err
	}
	t.present, t.held = found, len(found)
	return nil
}

// leave ends it for the others, however far it is.
func (t *stream) leave() {
	t.presented()
	if t.Listener != nil {
		t.Close()
	}
}

// presented has nothing more of the present to be told.
func (t *stream) presented() {
	t.server.present.letGo(t.held)
	t.present, t.held = nil, 0
}

// tell answers why it is over; with an error the listener cannot be told.
func (t *stream) tell(ctx context.Context, may func() error) (why string, err error) {
	again := comeAgain + rand.N(spread) // #nosec G404 -- jitter
	if err := t.block(sse.Event{Retry: again, ID: t.id()}); err != nil {
		return "", err
	}
	beat := time.NewTicker(t.server.config.KeepOpen)
	defer beat.Stop()
	for {
		more, why, err := t.some(ctx)
		if err != nil || why != "" {
			return why, err
		}
		wait := t.Wait()
		if more {
			wait = closed()
		} else if err := t.flush(); err != nil {
			return "", err
		} else if !t.in.Follow {
			return "caught-up", nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-beat.C:
			if err := may(); err != nil && compute.KindOf(err) != compute.KindUnavailable {
				return "signed-out", nil
			}
			if err := t.beat(); err != nil {
				return "", err
			}
		case <-wait:
		}
	}
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// some tells a part of what there is, and says whether there may be more.
func (t *stream) some(ctx context.Context) (more bool, why string, err error) {
	for range tellAtOnce {
		if t.presenting() {
			if err := t.tellPresent(); err != nil {
				return false, "", err
			}
			continue
		}
		switch i := t.Next(); i.Kind {
		case events.Nothing:
			return false, "", nil
		case events.Stopped:
			return false, "stopping", nil
		case events.Slow:
			return false, "slow", nil
		case events.Gap:
			why, err = t.gap(ctx, "forgotten", "changes before this may be missing: this node does not have them")
		case events.Foreign:
			why, err = t.gap(ctx, "another-log",
				"the Last-Event-ID is none of this log: it is of another cell, or of one that was made anew")
		case events.Change:
			name := rest.EventChange
			if i.Event.Removed {
				name = rest.EventRemoved
			}
			id := t.At().String()
			err = t.write(name, id, t.show.event(i.Event, id))
		}
		if err != nil || why != "" {
			return false, why, err
		}
	}
	return true, "", nil
}

// id is where a listener goes on that is cut off now; empty while it has not been told all of the present, or that its
// own id is of another log.
func (t *stream) id() string {
	if t.presenting() || t.Foreign() {
		return ""
	}
	return t.At().String()
}

// presenting says that the end of the present is not told yet.
func (t *stream) presenting() bool { return t.present != nil }

// tellPresent tells of one instance how it is; after the last, that it was that.
func (t *stream) tellPresent() error {
	if len(t.present) == 0 {
		t.presented()
		id := t.At().String()
		return t.write(rest.EventPresented, id, rest.EventsGap{ID: id})
	}
	i := t.present[0]
	t.present[0], t.present = nil, t.present[1:]
	return t.write(rest.EventPresent, "", t.show.event(events.Present(i), ""))
}

// gap says that something is missing. The present then is what the listener needs: where it cannot be told, it is over.
func (t *stream) gap(ctx context.Context, missing, message string) (why string, err error) {
	if t.in.Present {
		if err := t.list(ctx, func() error { t.Renew(); return nil }); err != nil {
			t.present = []*compute.Instance{} // it is not told to its end: the last id is the one of before
			return "slow", ctx.Err()
		}
	}
	return "", t.write(rest.EventGap, t.id(), rest.EventsGap{ID: t.At().String(), Why: missing, Message: message})
}

func (t *stream) write(name, id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.put(sse.Event{ID: id, Name: name, Data: data})
}

// put writes an event, which waits for more to be flushed with.
func (t *stream) put(e sse.Event) error {
	if err := t.hurry(); err != nil {
		return err
	}
	return e.Write(t.w)
}

// block writes one that is told at once.
func (t *stream) block(e sse.Event) error {
	if err := t.put(e); err != nil {
		return err
	}
	return t.flush()
}

// beat keeps the connection open, and says how far it is.
func (t *stream) beat() error {
	if err := t.hurry(); err != nil {
		return err
	}
	if err := sse.Comment(t.w, "still here"); err != nil {
		return err
	}
	if err := (sse.Event{ID: t.id()}).Write(t.w); err != nil {
		return err
	}
	return t.flush()
}

// hurry has the next write fail where the listener takes nothing.
func (t *stream) hurry() error {
	err := t.control.SetWriteDeadline(time.Now().Add(t.server.config.Blocked))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

func (t *stream) flush() error {
	if err := t.hurry(); err != nil {
		return err
	}
	return t.control.Flush()
}
