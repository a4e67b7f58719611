// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/explain"
	"github.com/berth-project/berth/pkg/wire/rest"
)

const placementsDescription = "Takes one boot as POST /v1/instances does, with a count, or a mix of them, and says: " +
	"what the quota would be used, how many of them hosts have room for now, all kinds together and behind what " +
	"waits in their queues, what is short, and which machines would have to go so that one more fits. What waits in " +
	"other queues for the same hosts is not counted, nor what was accepted and is not decided yet. What a boot is " +
	"refused for is refused here in the same words; in a mix the field says in which kind. With atomic they are one " +
	"set, of which the quota and hosts take all or none. It is worked out from what hosts said last. Nothing is " +
	"booted, reserved or written: what is true now may not be when they are booted."

func (s *Server) routePlacements(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "ask-placements", Method: http.MethodPost, Path: "/v1/placements", Tags: []string{"instances"},
		DefaultStatus: http.StatusOK, MaxBodyBytes: maxBootBody, Metadata: map[string]any{readsOnly: true},
		Summary: "Say what would become of boots, without booting", Description: placementsDescription,
	}, s.askPlacements)
}

type placementsInput struct {
	Project compute.Project `query:"project" doc:"Whose instances they would be, if the body does not say."`
	Key     string          `header:"Idempotency-Key" doc:"As of a boot; of one machine alone."`
	Body    rest.Mix

	keys []string
}

// Resolve takes the key as it was sent.
func (in *placementsInput) Resolve(ctx huma.Context) []error {
	in.keys = keysIn(ctx)
	return nil
}

type placementsOutput struct{ Body rest.Placements }

func (s *Server) askPlacements(ctx context.Context, in *placementsInput) (*placementsOutput, error) {
	asked, err := in.asked()
	if err != nil {
		return nil, err
	}
	var kinds []kind
	catchUp := s.catchUpOnce(ctx) // for all ids
	for i, a := range asked {
		boot := &bootInput{Project: in.Project, Body: a.Boot, keys: in.keys}
		k, err := s.readKind(ctx, "ask-placements", boot, cmp.Or(a.Count, 1), catchUp)
		if err == nil {
			err = checkBeside(asked[:i], kinds, a, k)
		}
		if err != nil && len(in.Body.Mix) > 0 {
			err = inMix(err, i)
		}
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	if in.Body.Atomic {
		if err := checkSet(asked, kinds); err != nil {
			return nil, err
		}
	}
	if err := s.checkNamesHosts(ctx, asked, kinds, in.Body.Atomic); err != nil {
		return nil, err
	}
	out, err := s.placements(ctx, kinds, in.Body.Atomic)
	if err != nil {
		return nil, err
	}
	return &placementsOutput{Body: out}, nil
}

// checkBeside refuses a kind that cannot be in one mix with those before it.
func checkBeside(before []rest.MixKind, kinds []kind, a rest.MixKind, k kind) error {
	if len(kinds) > 0 && k.asks.Project != kinds[0].asks.Project {
		return compute.Invalid("project", string(k.asks.Project), "ask for one project at a time")
	}
	if at := slices.IndexFunc(before, func(b rest.MixKind) bool { return a.ID != "" && b.ID == a.ID }); at >= 0 {
		return compute.Invalid("id", string(a.ID),
			fmt.Sprintf("an id names one machine, and mix[%d] has it already: give it once", at))
	}
	return nil
}

// checkNamesHosts refuses a question that names hosts and is about several machines, but for callers that see what
// hosts have: from how many fit on one host, or on all others, a project would learn what other projects have there.
// The group of a set names no host while no member is on one.
func (s *Server) checkNamesHosts(ctx context.Context, asked []rest.MixKind, kinds []kind, atomic bool) error {
	var all int64
	for _, a := range asked {
		all += cmp.Or(a.Count, 1)
	}
	if all == 1 || callerOf(ctx).ReadsAll() {
		return nil
	}
	sh, at := s.presenter(ctx), -1
	for i, a := range asked {
		g := sh.group(kinds[i].asks)
		if a.Host != "" || len(a.Avoid) > 0 || a.Group != "" && !(atomic && g != nil && g.All == 0) {
			at = i
			break
		}
	}
	if at < 0 {
		return nil
	}
	e := compute.Invalid("avoid", fmt.Sprintf("%d machines", all), "ask about one machine, or without host and avoid")
	switch {
	case asked[at].Host != "":
		e.Field = "host"
	case asked[at].Group != "":
		e.Field, e.Remedy = "group", "ask about one machine, or without the group"
	}
	e.Message = "how many machines have room on hosts that are named is for operators"
	if len(asked) > 1 {
		return inMix(e, at)
	}
	return e
}

// asked are the kinds that are asked about, which are not more than may be.
func (in *placementsInput) asked() ([]rest.MixKind, error) {
	asked, mixed := in.Body.Kinds()
	if alone := in.Body; mixed {
		alone.Mix, alone.Atomic = nil, false
		if !reflect.ValueOf(alone).IsZero() {
			return nil, compute.Invalid("mix", fmt.Sprintf("%d kinds", len(asked)), "give a mix or one boot, not both")
		}
		if len(asked) > compute.MaxKinds {
			return nil, compute.Invalid("mix", fmt.Sprintf("%d kinds", len(asked)),
				fmt.Sprintf("give at most %d kinds", compute.MaxKinds))
		}
		if len(in.keys) > 0 {
			return nil, compute.Invalid(keyHeader, in.keys[0], "a key names one machine: leave it out, or the mix")
		}
	}
	var all int64
	for i, a := range asked {
		if all += cmp.Or(a.Count, 1); a.Count < 0 || a.Count > compute.MaxBoots || all > compute.MaxBoots {
			err := error(compute.Invalid("count", fmt.Sprint(a.Count),
				fmt.Sprintf("give 1 to %d, in all", compute.MaxBoots)))
			if mixed {
				err = inMix(err, i)
			}
			return nil, err
		}
	}
	return asked, nil
}

// inMix says in which kind of a mix a refused field is.
func inMix(err error, at int) error {
	var e *compute.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Field = strings.TrimSuffix(fmt.Sprintf("mix[%d].%s", at, e.Field), ".")
	return &out
}

// kind is a boot that was read, and would be taken.
type kind struct {
	asks   *compute.Instance // as it would be queued
	count  int64             // of new ones
	exists *rest.Existing
}

// readKind reads a boot that somebody asks about, and refuses it for what it would be refused for.
func (s *Server) readKind(
	ctx context.Context, op string, in *bootInput, count int64, catchUp func(compute.Project) error,
) (kind, error) {
	req, err := s.request(in)
	if err != nil {
		return kind{}, err
	}
	if err := s.checkCaller(ctx, op, in, req); err != nil {
		return kind{}, err
	}
	if in.own() && count > 1 {
		return kind{}, compute.Invalid("count", fmt.Sprint(count),
			"an id or a key names one machine: leave it out, or the count")
	}
	at := instanceKey{req.Project, req.Instance}
	if in.own() {
		k, found, err := s.findExisting(at, catchUp)
		if err == nil && found {
			err = s.checkRepeat(k, req, in)
		}
		if err != nil {
			return kind{}, err
		}
		if found {
			return s.existing(ctx, k), nil
		}
	}
	if n := req.Boot.Reservation(); n != "" {
		return kind{}, compute.Invalid("reservation", string(n),
			"leave it out: GET /v1/reservations/"+string(n)+" says what it holds")
	}
	if err := s.checkNew(ctx, at, *req.Boot, in); err != nil {
		return kind{}, err
	}
	written, err := s.sealBoot(req)
	if err != nil {
		return kind{}, err
	}
	if count == 1 { // of several, each may get another value
		if *written.Boot, err = s.asAdmitted(at.project, *written.Boot); err != nil {
			return kind{}, err
		}
	}
	q := s.views.queues.of(*written.Boot)
	if q == nil {
		return kind{}, compute.NotFound("queue", string(req.Boot.Flavor), "it was removed just now")
	}
	return kind{count: count, asks: &compute.Instance{
		Project: req.Project, State: compute.StateQueued, Boot: written.Boot.WithDefaults(), Queue: q.Name,
		Resources: q.Resources, Required: q.Required, Forbidden: q.Forbidden, Attempt: 1, QueuedAt: s.moment().log,
	}}, nil
}

// existing is a boot that was asked for before: nothing new comes of it.
func (s *Server) existing(ctx context.Context, e entry) kind {
	i := compute.Instance{
		State: compute.StateQueued, Project: e.key().project, Boot: e.boot().WithDefaults(), Queue: e.queue(),
	}
	if e.instance != nil {
		i.Resources, i.Required, i.Forbidden = e.instance.Resources, e.instance.Required, e.instance.Forbidden
	} else if q := s.views.queues.of(i.Boot); q != nil {
		i.Resources, i.Required, i.Forbidden = q.Resources, q.Required, q.Forbidden
	}
	state := rest.State(s.presenter(ctx).state(e).String())
	return kind{asks: &i, exists: &rest.Existing{ID: e.key().id, State: state}}
}

// judgedForAKind is how often a host is judged for one kind: when hosts are filled, before it, and after it.
const judgedForAKind = 6

// placements says what would become of kinds of one project, of which there is at least one, by themselves or as a set.
func (s *Server) placements(ctx context.Context, kinds []kind, atomic bool) (rest.Placements, error) {
	done, err := s.beginJudging(ctx)
	if err != nil {
		return rest.Placements{}, err
	}
	defer done()
	sh, project := s.presenter(ctx), kinds[0].asks.Project
	mix, ahead := make([]explain.Kind, len(kinds)), sh.ahead(kinds)
	for i, k := range kinds {
		mix[i] = explain.Kind{Wanted: sh.wanted(k.asks), Priority: k.asks.Boot.Priority(), Count: k.count}
	}
	hosts, oldest := sh.hosts()
	if err := s.checkJudged(judgedForAKind*len(kinds), len(hosts), "mix", fmt.Sprintf("%d kinds", len(kinds)),
		"ask about fewer kinds at a time"); err != nil {
		return rest.Placements{}, err
	}
	filled := explain.Fill(ahead, mix, hosts)
	quota, limits, used := s.quotaSteps(project, mix)
	admitted := explain.Admit(limits, used, mix)
	told := explain.Mix{Kinds: make([]explain.MixKind, len(kinds))}
	out := rest.Placements{
		Project: project, Quota: quota, Kinds: []rest.Placement{}, YouCan: []string{},
		MayBoot: s.door.open() || s.door.needs["boot"].Check(callerOf(ctx), project) == nil,
		Oldest:  oldest.Round(time.Millisecond).Seconds(),
	}
	for _, k := range ahead {
		told.Ahead += k.Count
	}
	for i, k := range kinds {
		if err := ctx.Err(); err != nil {
			return rest.Placements{}, notJudged(err)
		}
		p, before := sh.placement(k.asks, overQuota(limits, used, one(mix[i])))
		if over := overQuota(limits, used, mix[i:i+1]); over != nil {
			p.Refused = rest.FromReason(over)
		}
		p.Exists, p.Count, p.Fits, p.Alone = k.exists, k.count, filled.Fits[i], min(k.count, before.Room)
		if p.Place != nil { // what waits there is of the same size
			p.Alone = min(k.count, max(0, before.Room-int64(p.Place.Depth)))
		}
		after, more := before, mix[i].Wanted
		if p.Fits < p.Count { // else nothing is said of it
			more = filled.OneMore(i, more)
			after = explain.Hosts(more, filled.Left)
		}
		open := sh.seesAmounts(k.asks.Boot)
		if open && p.Fits < p.Count {
			p.ToGo = sh.toGo(more, after, filled.Left)
		}
		p.Starts = p.Exists == nil && admitted[i] == p.Count && p.Fits == p.Count
		if p.Exists != nil {
			p.Summary = fmt.Sprintf("it is there already, and is %s: nothing new would be booted", p.Exists.State)
			p.YouCan, p.OperatorsCan = []string{}, nil
		}
		told.Kinds[i] = explain.MixKind{
			Name: fmt.Sprintf("%d %s", p.Count, p.Queue), Boot: k.asks.Boot, Count: p.Count, Fits: p.Fits, Alone: p.Alone,
			Before: before, After: after, Group: mix[i].Group, Sums: open,
		}
		out.Kinds = append(out.Kinds, p)
		out.Count, out.Fits, out.Admitted = out.Count+p.Count, out.Fits+p.Fits, out.Admitted+admitted[i]
	}
	out.Starts = out.Count > 0 && out.Admitted == out.Count && out.Fits == out.Count
	over := overQuota(limits, used, mix)
	if atomic {
		sh.tell(&out, told, nil)
		sh.asSet(&out, kinds, hosts, over)
	} else {
		sh.tell(&out, told, over)
	}
	return out, nil
}

// tell puts the whole answer into words. One machine is told about as when it waits.
func (s *presenter) tell(out *rest.Placements, mix explain.Mix, over *compute.Reason) {
	first := out.Kinds[0]
	if len(out.Kinds) == 1 && (first.Count == 1 || first.Exists != nil) {
		out.Summary, out.Refused = first.Summary, first.Refused
		out.YouCan, out.OperatorsCan = first.YouCan, first.OperatorsCan
	} else {
		t := explain.TellMix(mix)
		out.Summary, out.YouCan = t.Summary, append(out.YouCan, t.Asker...)
		if s.names {
			out.OperatorsCan = t.Operators
		}
		if over != nil {
			out.Refused = rest.FromReason(over)
			out.Summary = fmt.Sprintf("of %d the quota allows %d (%s); %s",
				out.Count, out.Admitted, out.Refused.Message, t.Summary)
			out.YouCan = append([]string{quotaRemedy}, out.YouCan...)
		}
	}
	for _, k := range out.Kinds {
		if g := k.ToGo; g != nil && s.names {
			out.OperatorsCan = append(out.OperatorsCan,
				fmt.Sprintf("host %s takes one more of %s without %s", g.Host, k.Queue, goingNames(g.Instances)))
		}
	}
}

func goingNames(all []rest.GoingInstance) string {
	const most = 4 // the answer has all
	var names []string
	for _, i := range all[:min(most, len(all))] {
		names = append(names, cmp.Or(i.Name, string(i.ID))+" of "+string(i.Project))
	}
	if more := len(all) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// ahead is what waits in the queues of some kinds, for any host.
func (s *presenter) ahead(kinds []kind) (out []explain.Kind) {
	seen := map[compute.QueueName]bool{}
	for _, k := range kinds {
		q := s.views.queues.of(k.asks.Boot)
		if k.asks.Boot.Host != "" || k.exists != nil || q == nil || seen[q.Name] {
			continue
		}
		seen[q.Name] = true
		if n := s.views.instances.inLine(q.Name); n > 0 {
			out = append(out, explain.Kind{Wanted: wantedOf(q), Count: int64(n)})
		}
	}
	return out
}

// toGo are machines without which one more would fit, on the nearest of the hosts that are full; nil: none would help.
func (s *presenter) toGo(w explain.Wanted, after explain.Answer, left []explain.Host) *rest.ToGo {
	for _, v := range after.Nearest {
		at, _ := slices.BinarySearchFunc(left, v.Host, func(h explain.Host, name compute.HostID) int {
			return cmp.Compare(h.Beacon.Host, name)
		})
		gone := explain.ToGo(w, left[at], s.mayGo(v.Host))
		if len(gone) == 0 {
			continue
		}
		out := &rest.ToGo{Machines: len(gone)}
		if !s.names { // what one machine has is its flavor, and its project's business
			return out
		}
		out.Host, out.Resources = v.Host, compute.Resources{}
		for _, i := range gone {
			out.Resources.Add(i.Resources)
			out.Instances = append(out.Instances, rest.GoingInstance{
				ID: i.ID, Project: i.Project, Name: i.Boot.Name, Resources: i.Resources,
			})
		}
		return out
	}
	return nil
}

// mayGo are the instances on a host that free something if they alone go, and do not go already. A placeholder and what
// has its room do not: the other one holds it on.
func (s *presenter) mayGo(h compute.HostID) (there []*compute.Instance) {
	held, taken := map[compute.InPlaceholder]bool{}, map[compute.InPlaceholder]bool{}
	on := s.views.instances.onHost(h)
	for _, k := range on {
		held[compute.InPlaceholder{ID: k.instance.ID, Attempt: k.instance.Attempt}] = k.instance.HoldsRoom()
		taken[k.instance.Boot.In()] = true
	}
	for _, k := range on {
		i := k.instance
		alone := !held[i.Boot.In()] && !(i.IsPlaceholder() && taken[compute.InPlaceholder{ID: i.ID, Attempt: i.Attempt}])
		if alone && (i.State == compute.StateStarting || i.State == compute.StateActive) {
			there = append(there, i)
		}
	}
	return there
}

// quotaSteps is what the quota of a project would be used for a mix, with its limits and what it uses now.
func (s *Server) quotaSteps(
	p compute.Project, mix []explain.Kind,
) (steps []rest.QuotaStep, limits, used compute.PartAmounts) {
	asks, view := explain.Uses(mix), s.quotaView(p)
	steps, limits, used = []rest.QuotaStep{}, compute.PartAmounts{}, compute.PartAmounts{}
	add := func(part compute.QuotaPart, class string, all []rest.QuotaResource) {
		limits[part], used[part] = compute.Resources{}, compute.Resources{}
		steps = append(steps, partSteps(class, all, asks[part], limits[part], used[part])...)
	}
	add(compute.QuotaWhole, "", view.Resources)
	for _, c := range view.Priorities {
		if class, err := compute.ParsePriority(c.Priority); err == nil {
			limited := slices.DeleteFunc(slices.Clone(c.Resources), func(r rest.QuotaResource) bool {
				return r.Limit == nil // what has no limit of its own is told of the whole
			})
			add(compute.QuotaOf(class), c.Priority, limited)
		}
	}
	for _, c := range asks[compute.QuotaWhole].Classes() { // which nobody limits, and the project does not use
		if n := asks[compute.QuotaWhole][c]; n > 0 {
			steps = append(steps, rest.QuotaStep{Class: c, Asked: n, Would: n})
		}
	}
	slices.SortStableFunc(steps, func(a, b rest.QuotaStep) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Class, b.Class))
	})
	return steps, limits, used
}

// partSteps are the steps of one part; it fills in limits and what is used, and takes out of asks what it has told.
func partSteps(class string, all []rest.QuotaResource, asks, limits, used compute.Resources) (steps []rest.QuotaStep) {
	for _, r := range all {
		used[r.Class] = r.Used
		if r.Limit != nil {
			limits[r.Class] = *r.Limit
		}
		if asked := asks[r.Class]; asked > 0 {
			would := r.Used + asked
			steps = append(steps, rest.QuotaStep{
				Class: r.Class, Priority: class, Used: r.Used, Asked: asked, Would: would, Limit: r.Limit,
				Over: r.Limit != nil && would > *r.Limit,
			})
			delete(asks, r.Class)
		}
	}
	return steps
}

// overQuota says which limit keeps out some of a mix; nil: none.
func overQuota(limits, used compute.PartAmounts, mix []explain.Kind) *compute.Reason {
	all := explain.Uses(mix)
	for _, part := range compute.AllQuotaParts() {
		limits, used, asks := limits[part], used[part], all[part]
		for _, c := range limits.Classes() {
			if asks[c] > 0 && used[c]+asks[c] > limits[c] {
				return &compute.Reason{
					Code: compute.QuotaExceeded, Resource: c, Part: part, Limit: limits[c], Used: used[c], Asked: asks[c],
				}
			}
		}
	}
	return nil
}

// one is one of a kind by itself, if it is not there already.
func one(k explain.Kind) []explain.Kind {
	k.Count = min(k.Count, 1)
	return []explain.Kind{k}
}

const quotaRemedy = "delete something of this project, or ask for more quota"

// placement says what would become of an instance that is not there, and what every host is to it.
func (s *presenter) placement(i *compute.Instance, over *compute.Reason) (rest.Placement, explain.Answer) {
	f := explain.Facts{
		Now: s.now.log, Instance: i, Before: true, Name: s.host, Amounts: s.names, Sums: s.seesAmounts(i.Boot),
	}
	var e rest.Explanation
	s.situate(&f, &e)
	f.Position = f.Depth // behind all that wait
	told := explain.Tell(f)
	out := rest.Placement{
		Project: i.Project, Flavor: i.Boot.Flavor, With: i.Boot.With, Queue: i.Queue, Resources: i.Resources, Place: e.Place,
		Summary: told.Summary, YouCan: append([]string{}, told.Asker...),
	}
	if e.Hosts != nil {
		out.Hosts = *e.Hosts
	}
	if s.names {
		out.OperatorsCan = told.Operators
	}
	if out.Place != nil {
		out.Place.Position = f.Position
	}
	if over != nil {
		out.Refused = rest.FromReason(over)
		out.Summary = "it would be refused: " + out.Refused.Message + "; beyond that, " + out.Summary
		out.YouCan = append([]string{quotaRemedy}, out.YouCan...)
	}
	return out, f.Hosts
}
