// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/sealed"
	"github.com/berth-project/berth/pkg/wire"
)

// keyHeader is how a caller without an id of its own makes a boot repeatable.
const keyHeader = "Idempotency-Key"

// What keys look like: printable ASCII, so many bytes at most.
const (
	maxKey     = 255
	keyPattern = "^[ -~]+$"
)

// Resolve takes the key as it was sent: a key that is given and empty is a
// mistake, not the absence of one.
func (in *bootInput) Resolve(ctx huma.Context) []error {
	in.keys = keysIn(ctx)
	return nil
}

func keysIn(ctx huma.Context) (keys []string) {
	ctx.EachHeader(func(name, value string) {
		if strings.EqualFold(name, keyHeader) {
			keys = append(keys, value)
		}
	})
	return keys
}

// keyedID is the id that the key stands for; empty without a key.
func (in *bootInput) keyedID(p compute.Project) (compute.InstanceID, error) {
	if len(in.keys) == 0 {
		return "", nil
	}
	key := in.keys[0]
	refuse := func(message string) (compute.InstanceID, error) {
		return "", &compute.Error{
			Kind: compute.KindInvalid, Field: keyHeader, Value: key, Message: message,
			Remedy: "give 1 to 255 printable ASCII characters, the same for every repetition of one request and " +
				"for nothing else",
		}
	}
	switch {
	case len(in.keys) > 1:
		return refuse("is given more than once")
	case key == "":
		return refuse("is empty")
	case len(key) > maxKey:
		return refuse("is too long")
	case strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }):
		return refuse("has characters that are not printable ASCII")
	}
	id := wire.KeyedInstance(p, key)
	if in.Body.ID != "" && in.Body.ID != id {
		return "", compute.Invalid("id", string(in.Body.ID),
			"the "+keyHeader+" stands for "+string(id)+": leave the id out, or the header")
	}
	return id, nil
}

// findExisting finds the instance that a caller's own id belongs to, on whatever
// node it was accepted. What other nodes accepted is read first, so that the
// second of two requests is told when it differs from the first.
func (s *Server) findExisting(at instanceKey, catchUp func(compute.Project) error) (entry, bool, error) {
	if k, ok := s.views.instances.get(at); ok {
		return k, true, nil
	}
	if err := catchUp(at.project); err != nil {
		return entry{}, false, err
	}
	if err := s.views.instances.checkReadable(at); err != nil {
		return entry{}, false, err
	}
	k, ok := s.views.instances.get(at)
	return k, ok, nil
}

// answerRepeat answers a repeated request: the same one is already done, another one
// under the same id is a mistake.
func (s *Server) answerRepeat(
	ctx context.Context, k entry, req *compute.Request, in *bootInput,
) (*acceptedOutput, error) {
	if err := s.checkRepeat(k, req, in); err != nil {
		return nil, err
	}
	s.metrics.repeated()
	return s.acceptedAnswer(ctx, k), nil
}

// checkRepeat refuses another request under the id of an instance.
func (s *Server) checkRepeat(k entry, req *compute.Request, in *bootInput) error {
	before, err := s.openBoot(k)
	if err != nil {
		return err
	}
	now := in.withGone(*req.Boot, before)
	if k.instance != nil && k.instance.State.Ended() { // its user data is not kept
		before.DropUserData()
		now.DropUserData()
	}
	differs := k.differences(before, now)
	if len(differs) == 0 || neverBooted(k) {
		return nil
	}
	field, value := "id", string(req.Instance)
	if len(in.keys) > 0 {
		field, value = keyHeader, in.keys[0]
	}
	e := compute.Conflict(field, value, "was given with another request, which differs in "+strings.Join(differs, ", "),
		"repeat that request as it was, or give a new one; GET "+location(k.key())+" shows what became of it")
	e.Reason = &compute.Reason{Code: compute.RequestDiffers, Detail: strings.Join(differs, ", ")}
	return e
}

// withGone is a boot with the hosts of the one before it where ids stand for none any more: they may have been theirs.
func (in *bootInput) withGone(now, before compute.Boot) compute.Boot {
	if before.Host != "" && slices.Contains(in.gone, now.Host) {
		now.Host = before.Host
	}
	if len(now.Avoid) == len(before.Avoid) {
		now.Avoid = slices.Clone(now.Avoid)
		for i, h := range now.Avoid {
			if slices.Contains(in.gone, h) {
				now.Avoid[i] = before.Avoid[i]
			}
		}
	}
	return now
}

// readBack answers a request under an id of the caller's own once it is written. Another
// node may have written another request under that id since this one looked, and the
// conductor keeps the one that comes first in the log. What is before a record is
// there once that record is, so reading up to here says which it is (decision 0043).
//
// was is what is written, and req what the caller wants: its user data is not sealed.
func (s *Server) readBack(
	ctx context.Context, was asked, req *compute.Request, in *bootInput,
) (*acceptedOutput, error) {
	at := instanceKey{req.Project, req.Instance}
	ctx = context.WithoutCancel(ctx) // what was begun is finished, for the next request
	if err := s.catchUp(ctx, at.project); err != nil {
		return nil, errUnsettled(at.id, err)
	}
	s.views.instances.accept([]asked{was}, nil) // it was read: nothing, unless the conductor will refuse it
	k, ok := s.views.instances.get(at)
	switch {
	case !ok:
		return nil, s.errNotKept(ctx, at)
	case len(k.differences(*k.boot(), *was.Boot)) == 0:
		// It is this one, or the very same; when it came the log says by its own clock.
		s.metrics.accepted()
		return s.acceptedAnswer(ctx, entry{request: was.Request}), nil
	}
	return s.answerRepeat(ctx, k, req, in)
}

// errNotKept is why a request that was written made no instance that this node knows.
func (s *Server) errNotKept(ctx context.Context, at instanceKey) error {
	if err := s.views.instances.checkReadable(at); err != nil {
		return err // a repetition at a newer node says whether it is this one
	}
	if err := s.views.instances.checkRefused(at); err != nil {
		return err
	}
	return errIDTaken(ctx, at)
}

// errUnsettled is of a request that was written, and of which it could not be found out whether it is the one that
// counts.
func errUnsettled(id compute.InstanceID, cause error) error {
	return &compute.Error{
		Op: "settle", Kind: compute.KindTimeout, Field: "id", Value: string(id),
		Message: "the request was kept, but it is not known whether another one under the same id came before it",
		Remedy:  "ask for instance " + string(id) + ", or repeat the request with this id", Cause: cause,
	}
}

// sealBoot is a request as it is written: its user data is sealed, where this node has a key.
func (s *Server) sealBoot(req *compute.Request) (*compute.Request, error) {
	if s.config.UserData == nil || len(req.Boot.UserData) == 0 {
		return req, nil
	}
	data, err := s.config.UserData.Seal(sealed.Owner{Project: req.Project, Instance: req.Instance},
		[]byte(req.Boot.UserData))
	if err != nil {
		return nil, err
	}
	out, boot := *req, *req.Boot
	boot.UserData, boot.Sealed = "", data
	out.Boot = &boot
	return &out, nil
}

// openBoot is a boot as it was asked for: each sealing is other bytes, so what is sealed compares with nothing. What
// was never sealed for this instance stays as it is, and differs from what anybody asks for.
func (s *Server) openBoot(k entry) (compute.Boot, error) {
	boot, at := *k.boot(), k.key()
	data, err := s.config.UserData.Open(sealed.Owner{Project: at.project, Instance: at.id}, boot.Sealed)
	switch {
	case err != nil && compute.KindOf(err) != compute.KindInvalid:
		return compute.Boot{}, err
	case err == nil && boot.Sealed != "":
		boot.UserData, boot.Sealed = compute.UserData(data), ""
	}
	return boot, nil
}

// neverBooted is an instance that was deleted before any request to boot it was
// read: nobody knows what it would have been.
func neverBooted(k entry) bool {
	return k.instance != nil && k.instance.State == compute.StateDeleted && k.instance.Boot.Flavor == ""
}

// differences names the fields in which a request is not the one that the instance was booted by, whose user data is
// opened. Where its name or metadata were changed since, what they were is known by their fingerprint alone.
func (k entry) differences(before, now compute.Boot) []string {
	before = before.Asked()
	if k.instance == nil || k.instance.BootedAs == 0 {
		return differences(before, now)
	}
	same := now.Fingerprint() == k.instance.BootedAs
	before.Name, before.Metadata = now.Name, now.Metadata
	out := differences(before, now)
	if !same {
		out = append(out, "name or metadata")
	}
	return out
}

// differences names the fields in which two requests are not the same.
func differences(a, b compute.Boot) []string {
	a, b = normalized(a), normalized(b)
	var out []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"name", a.Name == b.Name}, {"flavor", a.Flavor == b.Flavor}, {"with", reflect.DeepEqual(a.With, b.With)},
		{"image", a.Image == b.Image}, {"metadata", reflect.DeepEqual(a.Metadata, b.Metadata)},
		{"ssh_keys", slices.Equal(a.SSHKeys, b.SSHKeys)},
		{"user_data", a.UserData == b.UserData && a.Sealed == b.Sealed}, {"attempts", a.Attempts == b.Attempts},
		{"deadline", a.Deadline == b.Deadline}, {"on_no_capacity", a.OnNoCapacity == b.OnNoCapacity},
		{"host", a.Host == b.Host}, {"avoid", slices.Equal(a.Avoid, b.Avoid)},
		{"group", a.Group() == b.Group()}, {"set", a.Set().Same(b.Set())},
		{"priority", a.Priority() == b.Priority()}, {"preemptible", a.Preemptible() == b.Preemptible()},
		{"reservation", a.Reservation() == b.Reservation()},
	} {
		if !f.same {
			out = append(out, f.name)
		}
	}
	return out
}

// normalized is a request as it compares: defaults filled in, empty and absent alike.
func normalized(b compute.Boot) compute.Boot {
	b = b.WithDefaults()
	if len(b.With) == 0 {
		b.With = nil
	}
	if len(b.Metadata) == 0 {
		b.Metadata = nil
	}
	return b
}

// instanceLocks lets requests for one instance come one after the other, so that of two
// that arrive together the second sees what became of the first. It bounds how
// many wait.
type instanceLocks struct {
	limit int

	mu      sync.Mutex
	busy    map[instanceKey]chan struct{} // closed when the one before is done
	waiting int                           // for any instance
}

func newInstanceLocks(most int) *instanceLocks {
	return &instanceLocks{limit: most, busy: map[instanceKey]chan struct{}{}}
}

// lock waits for the instance's turn, unless too many wait for theirs. done must
// be called.
func (t *instanceLocks) lock(ctx context.Context, at instanceKey) (done func(), err error) {
	mine := make(chan struct{})
	before, err := t.tryLock(at, mine, true)
	if err != nil {
		return nil, err
	}
	if before != nil {
		defer t.doneWaiting()
	}
	for before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			return nil, &compute.Error{
				Kind: compute.KindTimeout, Field: "id", Value: string(at.id),
				Message: "an earlier request for it is still under way",
				Remedy:  "ask for it, or repeat the request", Cause: ctx.Err(),
			}
		}
		if before, err = t.tryLock(at, mine, false); err != nil {
			return nil, err
		}
	}
	return func() {
		t.mu.Lock()
		delete(t.busy, at)
		t.mu.Unlock()
		close(mine)
	}, nil
}

// tryLock takes the turn if it is free; otherwise it answers what to wait for. A
// newcomer then counts as waiting until it calls doneWaiting.
func (t *instanceLocks) tryLock(at instanceKey, mine chan struct{}, newcomer bool) (before chan struct{}, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, taken := t.busy[at]
	switch {
	case !taken:
		t.busy[at] = mine
	case newcomer && t.waiting >= t.limit:
		return nil, tooMany("limits.publishing", strconv.Itoa(t.limit),
			"so many wait for earlier requests with their id or key already")
	case newcomer:
		t.waiting++
	}
	return before, nil
}

func (t *instanceLocks) doneWaiting() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
}
