// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

func (s *Server) routeFleet(api huma.API) {
	route(s, api, huma.Operation{
		OperationID: "list-queues", Method: http.MethodGet, Path: "/v1/queues", Tags: []string{"queues"},
		Summary: "List queues with what waits in them",
		Description: "By name, in pages. What is there throughout a walk from marker to marker is seen exactly " +
			"once; a marker stays good " +
			"when the queue at its place goes, and on every node. A page costs what is on it, however many " +
			"queues there are: each host is judged for each of them, so in a cell of many hosts a page may have fewer " +
			"than its limit, and a marker behind it.",
	}, s.listQueues)
	route(s, api, huma.Operation{
		OperationID: "show-queue", Method: http.MethodGet, Path: "/v1/queues/{queue}", Tags: []string{"queues"},
		Summary: "Show a queue",
	}, s.showQueue)
	hosts := []string{"hosts"}
	route(s, api, huma.Operation{
		OperationID: "list-hosts", Method: http.MethodGet, Path: "/v1/hosts", Tags: hosts, Summary: "List hosts",
	}, s.listHosts)
	route(s, api, huma.Operation{
		OperationID: "show-host", Method: http.MethodGet, Path: "/v1/hosts/{host}", Tags: hosts, Summary: "Show a host",
		Description: "One that is not listed any more is shown as silent for as long as it has instances, or some " +
			"wait for it alone.",
	}, s.showHost)
	route(s, api, huma.Operation{
		OperationID: "list-host-instances", Method: http.MethodGet, Path: "/v1/hosts/{host}/instances", Tags: hosts,
		Summary: "List what a host has, of all projects, oldest first",
	}, s.listHostInstances)
	for _, w := range []struct {
		verb, summary string
		state         compute.HostState
	}{
		{"drain", "Make no more offers, and be emptied", compute.HostDraining},
		{"disable", "Make no more offers; machines stay", compute.HostDisabled},
		{"enable", "Offer again", compute.HostEnabled},
	} {
		route(s, api, huma.Operation{
			OperationID: w.verb + "-host", Method: http.MethodPost, Path: "/v1/hosts/{host}/" + w.verb, Tags: hosts,
			DefaultStatus: http.StatusAccepted, Summary: w.summary,
		}, func(ctx context.Context, in *hostStateInput) (*hostStateOutput, error) {
			return s.setHostState(ctx, in, w.state)
		})
	}
}

type listQueuesInput struct {
	Flavor  compute.FlavorName `query:"flavor" doc:"Only this flavor's."`
	Waiting bool               `query:"waiting" doc:"Only those in which something waits, and those that have an error."`
	Paging
}

type queuesOutput struct{ Body rest.Queues }

func (s *Server) listQueues(ctx context.Context, in *listQueuesInput) (*queuesOutput, error) {
	if in.Flavor != "" {
		if err := in.Flavor.Check(); err != nil {
			return nil, err
		}
	}
	var wanted func(*compute.Queue) bool
	if in.Waiting {
		busy := s.views.instances.busyQueues()
		wanted = func(q *compute.Queue) bool { return q.Error != "" || busy[q.Name] }
	}
	done, err := s.beginJudging(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	in.Limit = min(in.Limit, max(s.judged/max(s.views.hosts.len(), 1), 1))
	page, next := s.views.queues.page(in.Flavor, in.Paging, wanted)
	out := &queuesOutput{Body: rest.Queues{Items: []rest.QueueView{}, Next: next}}
	for _, q := range page {
		if err := ctx.Err(); err != nil {
			return nil, notJudged(err)
		}
		out.Body.Items = append(out.Body.Items, s.queueView(q))
	}
	return out, nil
}

type queueInput struct {
	Queue compute.QueueName `path:"queue"`
}

type queueOutput struct{ Body rest.QueueView }

func (s *Server) showQueue(_ context.Context, in *queueInput) (*queueOutput, error) {
	q := s.views.queues.get(in.Queue)
	if q == nil {
		return nil, compute.NotFound("queue", string(in.Queue), "berth queue list shows all queues")
	}
	return &queueOutput{Body: s.queueView(q)}, nil
}

func (s *Server) queueView(q *compute.Queue) rest.QueueView {
	v := rest.FromQueue(*q)
	v.Queued = s.views.instances.waiting(q.Name)
	w := wantedOf(q)
	capacity := s.views.hosts.capacity(w, s.moment())
	counts := capacity.Counts.Hosts()
	advice, advised := s.views.advice.get(q.Name)
	if advised && v.Queued > 0 { // it knows what all work in the queue avoids
		counts.Avoided = min(advice.Hosts.Avoided, counts.Eligible)
		counts.Eligible -= counts.Avoided
	}
	if s.views.caughtUp[viewHosts].Load() {
		hosts := rest.FromHostCounts(counts)
		v.Hosts = &hosts
		v.Capacity = &rest.Capacity{Room: capacity.Room, Stranded: capacity.Stranded(w), Empty: capacity.Empty}
	}
	if advised {
		v.Advice = rest.FromAdvice(advice.at, advice.QueueAdvice)
	}
	return v
}

type hostsOutput struct{ Body rest.Hosts }

type listHostsInput struct {
	Label []string `query:"label,explode" maxItems:"16" doc:"Only hosts with such labels: rack=a, rack!=a (or no rack), rack (any), !rack (none). Several must all hold." nullable:"false"`
	Paging
}

func (s *Server) listHosts(_ context.Context, in *listHostsInput) (*hostsOutput, error) {
	selector, err := compute.ParseSelector(in.Label)
	if err != nil {
		return nil, err
	}
	page, next := s.views.hosts.page(in.Paging, selector)
	out := &hostsOutput{Body: rest.Hosts{Items: []rest.HostView{}, Next: next}}
	now := s.moment()
	for _, h := range page {
		v := h.view(now)
		v.Instances = s.views.instances.count(v.Host, onHost)
		out.Body.Items = append(out.Body.Items, v)
	}
	return out, nil
}

func onHost(i *compute.Instance) bool { return i.State.OnHost() }

type hostInput struct {
	Host  compute.HostID     `path:"host"`
	Fence compute.FenceEpoch `query:"fence" minimum:"1" maximum:"9000000000000000" doc:"Count only instances that it claimed under a lower one, as given by evacuate."`
}

type hostOutput struct{ Body rest.HostView }

func (s *Server) showHost(_ context.Context, in *hostInput) (*hostOutput, error) {
	v, err := s.hostView(in.Host)
	if err != nil {
		return nil, err
	}
	out := &hostOutput{Body: v}
	out.Body.Instances = s.views.instances.count(in.Host, func(i *compute.Instance) bool {
		return onHost(i) && (in.Fence == 0 || i.Fence < in.Fence)
	})
	return out, nil
}

type hostInstancesInput struct {
	Host compute.HostID `path:"host"`
	Paging
}

// listHostInstances shows operators the machines of a host. What it prepares
// and has not been granted yet is still queued, and not among them.
func (s *Server) listHostInstances(ctx context.Context, in *hostInstancesInput) (*listOutput, error) {
	if _, err := s.hostView(in.Host); err != nil {
		return nil, err
	}
	after, err := parseCursor(in.Marker)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(s.views.instances.onHost(in.Host), func(k entry) bool {
		return !k.instance.State.OnHost()
	})
	return &listOutput{Body: s.presenter(ctx).page(found, after, in.Limit, nil)}, nil
}

func (s *Server) host(name compute.HostID) (lastBeacon, error) {
	h, ok := s.views.hosts.get(name)
	if !ok {
		return lastBeacon{}, compute.NotFound("host", string(name), "berth host list shows all hosts")
	}
	return h, nil
}

// hostView is a host as it is shown. One that is not listed is there for as long as it has something: an operator who
// waits until nothing is left on a dead host asks until then.
func (s *Server) hostView(name compute.HostID) (rest.HostView, error) {
	h, err := s.host(name)
	switch {
	case err == nil:
		return h.view(s.moment()), nil
	case len(s.views.instances.onHost(name)) > 0:
		return rest.UnlistedHost(name, s.views.hosts.unheard(name, s.moment())), nil
	}
	return rest.HostView{}, err
}

// maxClockError is how far a node's clock may be from the log's time and still orders
// wishes better: when each node hears a beacon differs by less.
const maxClockError = 10 * time.Second

// desiredTime is the time that orders what operators want of a host, for agents of versions that go by it: this node's,
// or, where that is wrong, the time of the host's beacons, which all nodes read in one log. A host that is silent has
// none that is recent enough.
func (s *Server) desiredTime(h lastBeacon, now time.Time) time.Time {
	ago := time.Since(h.at)
	if h.beacon.At.IsZero() || ago >= compute.SilentAfter {
		return now
	}
	if log := h.beacon.At.Add(ago); log.Sub(now).Abs() > maxClockError {
		return log
	}
	return now
}

type hostStateInput struct {
	Host        compute.HostID `path:"host"`
	Traceparent string         `header:"traceparent" hidden:"true"`
	Body        *rest.HostWish `required:"false"`
}

type hostStateOutput struct{ Body rest.HostAsked }

// setHostState writes the wish to the host's stream. It is acted on when the host
// reads it, however late; the later one in the stream counts.
func (s *Server) setHostState(
	ctx context.Context, in *hostStateInput, state compute.HostState,
) (*hostStateOutput, error) {
	h, err := s.host(in.Host)
	if err != nil {
		return nil, err
	}
	now := s.config.Now().UTC()
	desired := compute.HostDesired{
		State:   state,
		Version: max(compute.Version(s.desiredTime(h, now).UnixMilli()), h.beacon.DesiredSeen+1),
	}
	if in.Body != nil {
		desired.Reason, desired.Deadline = in.Body.Reason, in.Body.Deadline
	}
	if !desired.Deadline.IsZero() && (state != compute.HostDraining || !desired.Deadline.After(now)) {
		return nil, compute.Invalid("deadline", desired.Deadline.Format(time.RFC3339),
			"give one in the future, and for drain only")
	}
	cmd := compute.Command{Op: compute.CommandHost, Desired: &desired, At: now, Trace: traceOf(in.Traceparent)}
	if err := s.send(ctx, wire.EncodeCommand(cmd).To(s.config.Topics.Host(in.Host), 0)); err != nil {
		return nil, err
	}
	return &hostStateOutput{Body: rest.HostAsked{Host: in.Host, State: state.String(), Version: desired.Version}}, nil
}
