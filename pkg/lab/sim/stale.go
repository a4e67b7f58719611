// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/embedded"
	"github.com/berth-project/berth/pkg/lab/sim/schedule"
)

// stale is what brokers answer that have not heard of the latest: the leaders and coordinators
// before something moved.
type stale struct {
	mu     sync.Mutex
	asked  map[string]bool // groups and transactional ids that anybody looked for
	old    [schedule.MostBrokers]*view
	served map[*view]bool // was told to somebody
}

// view is what a broker knew.
type view struct {
	leaders      *kmsg.MetadataResponse // nil: it knows the newest
	coordinators map[string]int32       // nil: as above
}

// watch has the brokers answer with what they know.
func (s *stale) watch(b *embedded.Broker) {
	b.Answer(kmsg.Metadata, func(node int32, req kmsg.Request) kmsg.Response {
		v := s.of(node)
		if v == nil || v.leaders == nil {
			return nil
		}
		s.tell(v)
		return v.metadata(req.(*kmsg.MetadataRequest))
	})
	b.Answer(kmsg.FindCoordinator, func(node int32, req kmsg.Request) kmsg.Response {
		r := req.(*kmsg.FindCoordinatorRequest)
		s.look(r)
		v := s.of(node)
		if v == nil || v.coordinators == nil {
			return nil
		}
		resp := v.found(r)
		if resp != nil {
			s.tell(v)
			return resp
		}
		return nil
	})
}

func (s *stale) of(node int32) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.old[node]
}

func (s *stale) tell(v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served == nil {
		s.served = map[*view]bool{}
	}
	s.served[v] = true
}

func (s *stale) told(v *view) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[v]
}

// begin has a broker know what it knew, until end.
func (s *stale) begin(node int, v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old[node] = v
}

func (s *stale) end(node int, v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.old[node] == v {
		s.old[node] = nil
	}
}

// keys are the groups and transactional ids that anybody has looked for.
func (s *stale) keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.asked))
}

func (s *stale) look(r *kmsg.FindCoordinatorRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = map[string]bool{}
	}
	for _, k := range append(slices.Clone(r.CoordinatorKeys), r.CoordinatorKey) {
		if k != "" {
			s.asked[k] = true
		}
	}
}

// metadata is what the broker knew, as far as it was asked.
func (v *view) metadata(req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.Brokers, resp.ClusterID, resp.ControllerID = v.leaders.Brokers, v.leaders.ClusterID, v.leaders.ControllerID
	if req.Topics == nil {
		resp.Topics = v.leaders.Topics
		return resp
	}
	for _, t := range req.Topics {
		resp.Topics = append(resp.Topics, v.topic(t))
	}
	return resp
}

func (v *view) topic(want kmsg.MetadataRequestTopic) kmsg.MetadataResponseTopic {
	var none [16]byte
	for _, t := range v.leaders.Topics {
		if want.TopicID != none && t.TopicID == want.TopicID || want.Topic != nil && *t.Topic == *want.Topic {
			return t
		}
	}
	t := kmsg.NewMetadataResponseTopic()
	t.Topic, t.TopicID, t.ErrorCode = want.Topic, want.TopicID, kerr.UnknownTopicOrPartition.Code
	if want.TopicID != none {
		t.ErrorCode = kerr.UnknownTopicID.Code
	}
	return t
}

// brokerHost is where all brokers are, in their own words.
const brokerHost = "127.0.0.1"

// found is which coordinators the broker knew; nil: it was asked for others, too.
func (v *view) found(req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if len(req.CoordinatorKeys) == 0 {
		node, ok := v.coordinators[req.CoordinatorKey]
		if !ok {
			return nil
		}
		resp.NodeID, resp.Host, resp.Port = node, brokerHost, schedule.FirstPort+node
		return resp
	}
	for _, k := range req.CoordinatorKeys {
		node, ok := v.coordinators[k]
		if !ok {
			return nil
		}
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port = k, node, brokerHost, schedule.FirstPort+node
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp
}

// ask sends a request to the brokers from outside.
func ask[T any](w *play, send func(context.Context, *kgo.Client) (T, error)) (resp T, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.World.Seeds()...), kgo.Dialer(w.ours.Dial))
	w.must(err)
	defer cl.Close()
	ctx, cancel := context.WithTimeout(w.ours.Life, askTime)
	defer cancel()
	return send(ctx, cl)
}

// metadata is what there is, and which brokers lead it.
func (w *play) metadata() (*kmsg.MetadataResponse, error) {
	return ask(w, func(ctx context.Context, cl *kgo.Client) (*kmsg.MetadataResponse, error) {
		return kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	})
}
