// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/berth-project/berth/pkg/api/docs"
	"github.com/berth-project/berth/pkg/api/strict"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/events"
	"github.com/berth-project/berth/pkg/ratelimit"
	"github.com/berth-project/berth/pkg/ui"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Server is one API node. Records may be fed to it before and while it serves.
type Server struct {
	config      Config
	log         *zap.Logger
	views       views
	clock       wire.Clock // the time of the log
	syncs       sharedSyncs
	catalogSync sharedSync
	door        door
	locks       *instanceLocks
	writes      *breaker // before publications
	reads       *breaker // before catching up
	asks        *consoleAsks
	rates       *ratelimit.Limiter // of principals
	pages       chan struct{}      // holds one for each page of a topic that is read for a caller of the cell

	projectPages   chan struct{} // and for one of a project
	judging        chan struct{} // holds one for each answer to a caller of the cell for which all hosts are judged
	projectJudging chan struct{} // and to one of a project
	judged         int           // how often a host may be judged for one answer
	meant          int           // most instances that a word may mean
	events         *events.Log   // what has changed
	present        presents      // what listeners are still to be told of it
	open           sync.Once     // the word that user data lies open here, and need not
	metrics        *Metrics
	unshown        func() // ends what the metrics ask
	http           http.Handler
}

// New makes a node; what it serves is its Handler.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	told := events.NewLog(events.NameOf(c.InstancesID), c.Events, c.Partitions)
	s := &Server{
		config: c, log: c.Log, views: newViews(c.Partitions, c.Log, told), events: told,
		syncs:       newSharedSyncs(c.Syncer, c.Partitions),
		catalogSync: newSharedSync(func(ctx context.Context) error { return c.Offered.Sync(ctx) }),
		door:        newDoor(c), locks: newInstanceLocks(c.Publishing), asks: newConsoleAsks(c.OpenAsks),
		writes: newBreaker("publishing", c.Publishing), reads: newBreaker("catching_up", c.CatchingUp),
		metrics: NewMetrics(c.Metrics), rates: ratelimit.New(ratelimit.Options{PerSecond: c.PrincipalRate}),
		pages: make(chan struct{}, auditPages), projectPages: make(chan struct{}, auditPages),
		judging: make(chan struct{}, judgingAtOnce), projectJudging: make(chan struct{}, judgingAtOnce),
		judged: mostJudged, meant: mostMeant,
		present: presents{listing: make(chan struct{}, listAtOnce), most: mostPresent, few: fewPresent},
	}
	s.views.instances.tellFrom = s.tellFrom
	s.views.tokensRead.Store(s.door.tokens == nil)
	s.http = s.routes()
	s.unshown = s.metrics.show(s)
	return s, nil
}

// Handler answers HTTP requests.
func (s *Server) Handler() http.Handler { return s.http }

// Close takes the node out of the metrics. A second call does nothing.
func (s *Server) Close() { s.unshown() }

// version is the API's own: the first element of its paths.
const version = "1"

// maxBody is how large a request's body may be, in bytes. A boot may carry
// user data and metadata, in base64 and JSON.
const (
	maxBody     = 64 << 10
	maxBootBody = 1 << 20
)

// routes builds the handler with everything the node answers.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	api := humago.New(mux, humaConfig(s.transformProblem))
	api.UseMiddleware(s.metrics.count, s.audited, s.guard, s.limitPrincipals, strict.Requests(api))
	s.routeInstances(api)
	s.routePower(api)
	s.routeChange(api)
	s.routeConsole(api)
	s.routeCatalog(api)
	s.routeGroups(api)
	s.routeSets(api)
	s.routeReservations(api)
	s.routeFleet(api)
	s.routeDeadHosts(api)
	s.routeTokens(api)
	s.routeAudit(api)
	s.routeRejected(api)
	s.routeExplain(api)
	s.routePlacements(api)
	s.routeEvents(api)
	s.routeCapacity(api)
	s.routeStory(api)
	s.routeHealth(api)
	s.metrics.begin(api.OpenAPI())
	routeDocs(mux, openAPI(api))
	mux.Handle("GET /ui/", ui.Handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.notFound(mux, w, r) })
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(refuseCrossOrigin))
	return guard.Handler(mux)
}

// humaConfig leaves out what huma would serve by itself: its documentation page
// loads from elsewhere, and its document is built while requests race for it.
func humaConfig(transform huma.Transformer) huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:   "Berth",
				Version: version,
				Description: "Boot machines on hosts that pull their work. " +
					"Every refusal is a problem document (RFC 9457) with a stable kind and, where there is " +
					"one, a reason with its numbers.\n\n" +
					"The examples are for a shell that has the address of a node in `BERTH_API`, as after " +
					"`export BERTH_API=http://127.0.0.1:7070`, and, where callers sign in, a token in `BERTH_TOKEN`.",
				License: &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"},
			},
			Tags: docs.Tags(),
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),

				SecuritySchemes: securitySchemes(),
			},
		},
		Formats:                      map[string]huma.Format{"application/json": strict.JSON(), "json": strict.JSON()},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{transform},
	}
}

// route registers an operation. All of them answer a problem when they refuse,
// and refuse while the node has not caught up.
func route[I, O any](s *Server, api huma.API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op = s.secured(op)
	op.Responses = problems(api, op.Responses)
	op.MaxBodyBytes = max(op.MaxBodyBytes, maxBody) + 1 // huma refuses as much as its bound
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		if behind := s.behind(); len(behind) > 0 {
			return nil, s.refuse(ctx, op.OperationID, notCaughtUp(behind))
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.refuse(ctx, op.OperationID, s.presenter(ctx).refusal(err))
		}
		if err := s.config.Audit.Settle(ctx); err != nil {
			return nil, s.refuse(ctx, op.OperationID, err)
		}
		return out, nil
	})
}

func notCaughtUp(behind []string) error {
	return &compute.Error{
		Kind: compute.KindUnavailable, Message: "this node is still reading " + strings.Join(behind, ", "),
		Remedy: "try again in a moment",
	}
}

// notFound answers for paths and methods that no operation has.
func (s *Server) notFound(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	e := compute.NotFound("path", r.URL.Path, "see /docs for what there is")
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 || slices.Contains(allowed, r.Method) {
		s.metrics.unrouted(http.StatusNotFound, e.Kind)
		rest.NewProblem(e).Answer(w)
		return
	}
	s.metrics.unrouted(http.StatusMethodNotAllowed, compute.KindInvalid)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	p := rest.NewProblem(compute.Invalid("method", r.Method, "use "+strings.Join(allowed, " or ")))
	p.Status, p.Title = http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed)
	p.Answer(w)
}

// refuseCrossOrigin answers a web page of another origin.
func refuseCrossOrigin(w http.ResponseWriter, _ *http.Request) {
	rest.NewProblem(&compute.Error{
		Kind: compute.KindForbidden, Message: "requests from pages of another origin are refused",
		Remedy: "open this node's own pages, or ask from outside a browser",
	}).Answer(w)
}
