// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/berth-project/berth/pkg/audit"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeReservations(api huma.API) {
	op := func(id, method, path, summary, description string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, Description: description,
			Tags: []string{"reservations"}, DefaultStatus: http.StatusOK,
		}
	}
	route(s, api, op("list-reservations", http.MethodGet, "/v1/reservations", "List a project's reservations",
		"Those that have not ended."), s.listReservations)
	ask := op("create-reservation", http.MethodPost, "/v1/reservations", "Reserve room",
		"Hosts hold room for so many machines, as soon as they have it; a boot with the name of the reservation "+
			"gets that room. Quota admits all of it or none, and from then on it counts, whether it has begun or "+
			"not. Answered once the request cannot be lost; the state of the reservation says whether it was "+
			"refused. Asked for again as it is, it is no change; another one of the same name that has not ended is "+
			"refused with 409. Of two that nodes accept at the same moment the first in the log is made; the name "+
			"then shows that one, with the other in refused.")
	ask.DefaultStatus = http.StatusAccepted
	route(s, api, ask, s.reserve)
	route(s, api, op("show-reservation", http.MethodGet, "/v1/reservations/{reservation}", "Show a reservation",
		"The one that has not ended, or else the last of that name, for as long as its records are kept."), s.showReservation)
	end := op("delete-reservation", http.MethodDelete, "/v1/reservations/{reservation}", "End a reservation",
		"Its room is free again, but for what was booted into it: that goes on. What waits for its room and never "+
			"ran ends in error. Of several requests for the name that no conductor has decided each is ended. "+
			"Answered once the requests cannot be lost; repeating it is harmless.")
	end.DefaultStatus = http.StatusAccepted
	route(s, api, end, s.deleteReservation)
}

type reservationsOutput struct{ Body rest.Reservations }

func (s *Server) listReservations(ctx context.Context, in *projectPage) (*reservationsOutput, error) {
	project := orDefault(in.Project)
	if err := project.Check(); err != nil {
		return nil, err
	}
	page, next := pageOfNames(in.Paging, s.views.instances.reservations(project),
		func(n compute.ReservationName) compute.ReservationName { return n })
	out := &reservationsOutput{Body: rest.Reservations{Items: []rest.ReservationView{}, Next: next}}
	sh := s.presenter(ctx)
	for _, n := range page {
		if v, ok := sh.reservation(compute.ReservationKey{Project: project, Name: n}, false); ok {
			out.Body.Items = append(out.Body.Items, v)
		}
	}
	return out, nil
}

type reservationInput struct {
	Project     compute.Project         `query:"project" doc:"Left out, \"default\"."`
	Reservation compute.ReservationName `path:"reservation" example:"nightly"`
}

type reservationOutput struct{ Body rest.ReservationView }

func (s *Server) showReservation(ctx context.Context, in *reservationInput) (*reservationOutput, error) {
	v, err := s.findReservation(ctx, compute.ReservationKey{Project: orDefault(in.Project), Name: in.Reservation})
	return &reservationOutput{Body: v}, err
}

// findReservation shows one. On a miss, or if it has ended, it reads first what other nodes have accepted: the name may
// be that of a new one.
func (s *Server) findReservation(ctx context.Context, key compute.ReservationKey) (rest.ReservationView, error) {
	if err := key.Name.Check(); err != nil {
		return rest.ReservationView{}, err
	}
	v, ok := s.presenter(ctx).reservation(key, true)
	if !ok || v.State == reservationEnded {
		if err := s.catchUp(ctx, key.Project); err != nil {
			return v, err
		}
		v, ok = s.presenter(ctx).reservation(key, true)
	}
	if !ok {
		return v, errNoReservation(key)
	}
	return v, nil
}

func errNoReservation(key compute.ReservationKey) error {
	e := compute.NotFound("reservation", string(key.Name), fmt.Sprintf(
		"berth reservation list --project %s shows what there is; berth reserve %s makes it", key.Project, key.Name,
	))
	e.Reason = &compute.Reason{Code: compute.NoSuchReservation, Detail: string(key.Name)}
	return e
}

type reserveInput struct {
	Project compute.Project `query:"project" doc:"Left out, \"default\"."`
	Body    rest.Reservation
}

func (s *Server) reserve(ctx context.Context, in *reserveInput) (*reservationOutput, error) {
	project := orDefault(in.Project)
	if err := project.Check(); err != nil {
		return nil, err
	}
	v, err := in.Body.Compute(s.moment().log)
	if err != nil {
		return nil, err
	}
	key := compute.ReservationKey{Project: project, Name: v.Name}
	audit.Target(ctx, "reservation", v.Name, string(v.Name))
	for range max(1, in.Body.Count) {
		v.Instances = append(v.Instances, compute.InstanceID(uuid.NewString()))
	}
	req := &compute.Request{
		Op: compute.OpReserve, Project: project, Instance: v.Instances[0], Reserve: &v, At: s.config.Now().UTC(),
	}
	if err := req.Check(); err != nil {
		return nil, err
	}
	mine := compute.InstanceID("reservation " + string(v.Name)) // no instance has that id
	done, err := s.locks.lock(ctx, instanceKey{project, mine})
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.catchUp(ctx, key.Project); err != nil {
		return nil, err
	}
	if was, ok := s.presenter(ctx).reservation(key, false); ok && was.State != reservationEnded {
		return sameReservation(was, in.Body, s.moment().log)
	}
	if err := s.findOffered(ctx, project, v.Boot); err != nil {
		return nil, err
	}
	if err := s.checkBoot(v.Boot); err != nil {
		return nil, err
	}
	offset, err := s.publish(ctx, req)
	if err != nil {
		return nil, askAfterTimeout(err, "reservation", string(v.Name), "repeat it as it was")
	}
	var each []asked
	for _, b := range req.Boots() {
		b.At = req.At.Add(-s.clock.Ahead()) // as other nodes read it: this one's clock may be wrong
		each = append(each, asked{Request: &b, origin: origin{offset: offset}})
	}
	s.views.instances.accept(each, nil)
	s.metrics.accepted()
	var made []entry // whatever else this node has heard of under that name
	for _, a := range each {
		if k, ok := s.views.instances.get(instanceKey{project, a.Instance}); ok {
			made = append(made, k)
		}
	}
	if len(made) == 0 {
		return s.showReservation(ctx, &reservationInput{Project: project, Reservation: v.Name})
	}
	return &reservationOutput{Body: s.presenter(ctx).reservationOf(key, made, true)}, nil
}

// sameReservation answers a repeated request: the same one is done already, another one of the name is a mistake.
func sameReservation(was rest.ReservationView, body rest.Reservation, now time.Time) (*reservationOutput, error) {
	priority := body.Priority
	if priority == compute.PriorityNormal.String() {
		priority = ""
	}
	same := was.Flavor == body.Flavor && maps.Equal(was.With, body.With) && was.Count == max(1, body.Count) &&
		was.Priority == priority && sameSpan(was, body, now)
	if same {
		return &reservationOutput{Body: was}, nil
	}
	e := compute.Conflict("name", string(body.Name), "is that of another reservation, which has not ended",
		"give another name, or end that one: berth reservation delete "+string(body.Name))
	e.Reason = &compute.Reason{Code: compute.RequestDiffers, Detail: "reservation"}
	return nil, e
}

// movedBy is by how much a reservation that begins at once is shorter than was asked for, at most: the conductor has it
// begin when the request was accepted, by its clock, and end when it was to end.
const movedBy = 15 * time.Second

// sameSpan says whether a reservation is from and until when it is asked for. A time that has passed and none are the
// same as what has begun.
func sameSpan(was rest.ReservationView, body rest.Reservation, now time.Time) bool {
	begun, long := !was.From.After(now), time.Duration(body.For)
	if body.From.IsZero() {
		less := long - was.Until.Sub(was.From)
		return begun && less >= 0 && less <= movedBy
	}
	return was.Until.Equal(body.From.Add(long)) && (was.From.Equal(body.From) || begun && body.From.Before(was.From))
}

func (s *Server) deleteReservation(ctx context.Context, in *reservationInput) (*reservationOutput, error) {
	key := compute.ReservationKey{Project: orDefault(in.Project), Name: in.Reservation}
	audit.Target(ctx, "reservation", key.Name, string(key.Name))
	if err := key.Name.Check(); err != nil {
		return nil, err
	}
	// Other nodes may have accepted requests for the name that come before this one in the log.
	if err := s.catchUp(ctx, key.Project); err != nil {
		return nil, err
	}
	v, err := s.findReservation(ctx, key)
	if err != nil {
		return nil, err
	}
	all := s.views.instances.notEnded(key)
	slices.SortStableFunc(all, freeFirst)
	for n, k := range all {
		_, err := s.publish(ctx, &compute.Request{
			Project: key.Project, Instance: k.key().id, Op: compute.OpDelete, At: s.config.Now().UTC(),
		})
		if err != nil {
			return nil, deletedInPart(err, key.Name, n, len(all))
		}
	}
	return &reservationOutput{Body: v}, nil
}

// deletedInPart says of an error that the whole may be asked for again. Once some placeholders are to end, it is a
// time-out whatever it was.
func deletedInPart(err error, name compute.ReservationName, ended, all int) error {
	if ended == 0 {
		return askAfterTimeout(err, "reservation", string(name), "repeat it as it was")
	}
	return &compute.Error{
		Op: "publish", Kind: compute.KindTimeout, Field: "reservation", Value: string(name),
		Message: fmt.Sprintf("%d of its %d placeholders are told to end, and others may not be", ended, all),
		Remedy:  "repeat it as it was", Cause: err,
	}
}

// freeFirst is the order in which placeholders are deleted: what waits for one that is taken would go on in one that
// is free.
func freeFirst(a, b entry) int {
	taken := func(k entry) int {
		if k.boot().Placeholder().Taker != "" {
			return 1
		}
		return 0
	}
	return cmp.Compare(taken(a), taken(b))
}

// checkReservation refuses a boot into a reservation that is not there, or is of something else.
func (s *Server) checkReservation(ctx context.Context, p compute.Project, b compute.Boot) error {
	name := b.Reservation()
	if name == "" {
		return nil
	}
	v, err := s.findReservation(ctx, compute.ReservationKey{Project: p, Name: name})
	if err != nil {
		return err
	}
	e := compute.NotFound("reservation", string(name), "")
	e.Reason = &compute.Reason{Code: compute.NoSuchReservation, Detail: string(name)}
	switch {
	case v.State == reservationEnded:
		e.Message, e.Remedy = "has ended", fmt.Sprintf("reserve again: berth reserve %s", name)
	case compute.NameQueue(v.Flavor, v.With) != compute.NameQueue(b.Flavor, b.With):
		e.Message = fmt.Sprintf("is of %s, and the request is for %s", compute.NameQueue(v.Flavor, v.With), b.BaseQueue())
		e.Remedy = "give the flavor and the choices of the reservation"
	default:
		return nil
	}
	return e
}
