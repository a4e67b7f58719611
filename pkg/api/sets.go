// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeSets(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "boot-set", Method: http.MethodPost, Path: "/v1/sets", Tags: []string{"instances"},
		DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxBootBody, Summary: "Boot several machines, all or none",
		Description: "None starts before each of them has a host that has prepared it; quota admits all of them or " +
			"none. If one fails for good or waits until its deadline before each has run, or is deleted before all " +
			"have a host, the others end with the reason SetFailed. Answered once the request cannot be lost; " +
			"refused, for what any of them is refused for, as one. With an Idempotency-Key K they have the ids that " +
			"the keys K-1, K-2 and so on stand for, and the request may be repeated as a boot may. The body is at " +
			"most 512 KiB as it is written to Kafka.",
	}, s.bootSet)
	route(s, api, huma.Operation{
		OperationID: "boot-group", Method: http.MethodPost, Path: "/v1/groups/{group}/boot", Tags: []string{"groups"},
		DefaultStatus: http.StatusAccepted, MaxBodyBytes: maxBootBody,
		Summary: "Boot several machines into a group, all or none",
		Description: "As POST /v1/sets, and each of them is a member of this group, which a boot may leave out. All on " +
			"one host, where the policy is affinity.",
	}, s.bootGroup)
}

// SetInput is exported for huma, which takes no fields of an embedded type that is not.
type SetInput struct {
	Project     compute.Project `query:"project" doc:"Whose instances they are, if the boots do not say."`
	Key         string          `header:"Idempotency-Key" example:"deploy-42" doc:"1 to 250 printable ASCII characters. Repeated with the same body it answers the instances of the first request; with another body, 409."`
	Traceparent string          `header:"traceparent" doc:"W3C trace context; it travels with the instances."`
	Body        rest.BootSet

	keys []string // the header as often as it was given
}

// Resolve takes the key as it was sent, as of a boot.
func (in *SetInput) Resolve(ctx huma.Context) []error {
	in.keys = keysIn(ctx)
	return nil
}

type groupSetInput struct {
	Group compute.GroupName `path:"group" example:"web"`
	SetInput
}

// bootGroup is bootSet of members of one group.
func (s *Server) bootGroup(ctx context.Context, in *groupSetInput) (*setOutput, error) {
	for i := range in.Body.Boots {
		boot := &in.Body.Boots[i]
		if boot.Group != "" && boot.Group != in.Group {
			return nil, inBoot(i, compute.Invalid("group", string(boot.Group),
				"leave it out, or give "+string(in.Group)+", as the path does"))
		}
		boot.Group = in.Group
	}
	return s.bootSet(ctx, &in.SetInput)
}

type setOutput struct{ Body rest.Instances }

// bootSet accepts boots that start all or not at all. It answers once they cannot be lost.
func (s *Server) bootSet(ctx context.Context, in *SetInput) (*setOutput, error) {
	boots, set, err := s.setRequest(in)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "instance", set.Instance, string(set.Instance))
	each := set.Boots()
	for i := range each {
		if err := s.checkCaller(ctx, "boot-set", boots[i], &each[i]); err != nil {
			return nil, inBoot(i, err)
		}
		set.Set[i].Boot = *each[i].Boot
	}
	done, err := s.locks.lock(ctx, instanceKey{set.Project, set.Instance})
	if err != nil {
		return nil, err
	}
	defer done()
	switch answer, known, err := s.repeatedSet(ctx, boots, each); {
	case err != nil:
		return nil, err
	case known:
		s.metrics.repeated()
		return answer, nil
	}
	for i, boot := range each {
		at := instanceKey{boot.Project, boot.Instance}
		if err := s.checkNew(ctx, at, *boot.Boot, boots[i]); err != nil {
			return nil, inBoot(i, err)
		}
	}
	written := *set
	written.Set = nil
	for i, boot := range each {
		sealed, err := s.sealBoot(&boot)
		if err != nil {
			return nil, inBoot(i, err)
		}
		written.Set = append(written.Set, compute.SetBoot{Instance: boot.Instance, Boot: *sealed.Boot})
	}
	return s.publishSet(ctx, in, boots, &written)
}

// setRequest is what the caller wants, checked as far as needs no catalog, and each boot as if it came alone.
func (s *Server) setRequest(in *SetInput) ([]*bootInput, *compute.Request, error) {
	if n := len(in.Body.Boots); n < 2 || n > compute.MaxSet {
		return nil, nil, compute.Invalid("boots", fmt.Sprint(n), fmt.Sprintf("give 2 to %d", compute.MaxSet))
	}
	var boots []*bootInput
	var set *compute.Request
	for i, body := range in.Body.Boots {
		one := &bootInput{Project: in.Project, Traceparent: in.Traceparent, Body: body}
		for _, key := range in.keys {
			one.keys = append(one.keys, numberedKey(key, i))
		}
		req, err := s.request(one)
		if err == nil {
			err = req.Boot.CheckInSet()
		}
		switch {
		case err != nil:
			return nil, nil, inBoot(i, err)
		case set == nil:
			set = req
		case req.Project != set.Project:
			return nil, nil, inBoot(i, compute.Invalid("project", string(req.Project),
				"all of a set are of one project: give "+string(set.Project)))
		}
		set.Set = append(set.Set, compute.SetBoot{Instance: req.Instance, Boot: *req.Boot})
		boots = append(boots, one)
	}
	set.Op, set.Boot = compute.OpBootSet, nil
	if given := ownOf(boots); given > 0 && given < len(boots) {
		return nil, nil, compute.Invalid("boots", fmt.Sprintf("%d with an id", given), "give each of them an id, or none")
	}
	return boots, set, set.Check()
}

// ownOf is how many of a set have ids of the caller's own.
func ownOf(boots []*bootInput) (n int) {
	for _, b := range boots {
		if b.own() {
			n++
		}
	}
	return n
}

// numberedKey is the key of one boot of a set, counted from 0. An empty key stays one, to be refused.
func numberedKey(key string, i int) string {
	if key == "" {
		return ""
	}
	return fmt.Sprintf("%s-%d", key, i+1)
}

// repeatedSet answers a set that is known: the same one is done already, and another one under the ids of its instances
// is a mistake.
func (s *Server) repeatedSet(
	ctx context.Context, boots []*bootInput, each []compute.Request,
) (answer *setOutput, known bool, err error) {
	answer = &setOutput{Body: rest.Instances{Items: []rest.Instance{}}}
	catchUp, ended, deleted := s.catchUpOnce(ctx), false, 0
	for i, req := range each {
		if !boots[i].own() {
			continue
		}
		at := instanceKey{req.Project, req.Instance}
		k, ok, err := s.findExisting(at, catchUp)
		switch {
		case err != nil:
			return nil, false, err
		case !ok:
			continue
		case neverBooted(k): // it is one of the set for all that is known
			deleted++
			continue
		}
		if err := s.checkRepeat(k, &req, boots[i]); err != nil {
			return nil, false, inBoot(i, err)
		}
		ended = ended || k.state().Ended()
		answer.Body.Items = append(answer.Body.Items, s.presenter(ctx).instance(k, nil))
	}
	n := len(answer.Body.Items)
	if n > 0 && n+deleted < len(each) && !ended { // where some have ended, others may be forgotten
		e := compute.Conflict("boots", fmt.Sprint(len(each)),
			fmt.Sprintf("are not the set that was booted: it has %d of them", n),
			"repeat that request as it was, or give new ids or a new key")
		e.Reason = &compute.Reason{Code: compute.RequestDiffers, Detail: "set"}
		return nil, false, e
	}
	return answer, n > 0, nil
}

// publishSet returns once the set is safe, and where ids are the caller's, once it is known that it was the first to
// have them (readBack says why).
func (s *Server) publishSet(
	ctx context.Context, in *SetInput, boots []*bootInput, written *compute.Request,
) (*setOutput, error) {
	offset, err := s.publish(ctx, written)
	each, own := written.Boots(), ownOf(boots) > 0
	first := string(each[0].Instance)
	switch {
	case err == nil:
	case own:
		err = askAfterTimeout(err, "id", first, "ask for "+first+", the first of the set, or repeat the request as it was")
	default:
		err = askAfterTimeout(err, "id", first, "ask for "+first+", the first of the set; repeat it only under an "+keyHeader+
			", since without one a repetition is another set")
	}
	s.traceBoot(&each[0], traceOf(in.Traceparent), err) // which is the trace of all
	if err != nil {
		return nil, err
	}
	var was []asked
	for i := range each {
		each[i].At = written.At.Add(-s.clock.Ahead()) // as other nodes read it: this one's clock may be wrong
		was = append(was, asked{Request: &each[i], origin: origin{offset: offset}})
	}
	if own {
		if err := s.catchUp(context.WithoutCancel(ctx), written.Project); err != nil {
			return nil, errUnsettled(each[0].Instance, err)
		}
	}
	s.views.instances.accept(was, nil)
	out := &setOutput{Body: rest.Instances{Items: []rest.Instance{}}}
	for i := range each {
		k := entry{request: &each[i]}
		if known, ok := s.views.instances.get(k.key()); ok {
			if k = known; own {
				if err := s.checkRepeat(k, s.asWanted(boots[i], each[i]), boots[i]); err != nil {
					return nil, inBoot(i, err)
				}
			}
		} else if own {
			return nil, inBoot(i, s.errNotKept(ctx, k.key()))
		}
		out.Body.Items = append(out.Body.Items, s.presenter(ctx).instance(k, nil))
	}
	s.metrics.accepted()
	return out, nil
}

// asWanted is a boot of a set as its caller wants it: its user data is not sealed.
func (s *Server) asWanted(in *bootInput, written compute.Request) *compute.Request {
	boot := *written.Boot
	boot.UserData, boot.Sealed = compute.UserData(in.Body.UserData), ""
	written.Boot = &boot
	return &written
}

// inBoot says which boot of a set is refused.
func inBoot(i int, err error) error {
	var later *retryLater
	var e *compute.Error
	if !errors.As(err, &e) || errors.As(err, &later) && later.why == e {
		return err
	}
	out := *e
	if out.Field = strings.TrimSuffix(fmt.Sprintf("boots[%d].%s", i, e.Field), "."); out.Message == "" {
		out.Message = "is not valid"
	}
	return &out
}
