// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/kafka"
	"github.com/berth-project/berth/pkg/kafka/access"
	"github.com/berth-project/berth/pkg/kafka/internal/fetch"
	"github.com/berth-project/berth/pkg/kafka/internal/pace"
)

// stand-ins for the rest of a name of which only the beginning is given a right: nothing in a cell is called so, and
// no member or transaction either. What is asked about them changes nothing.
const (
	anyTopic  = "rights-check"
	anyGroup  = "0" // as the first share group: its ACL may be of that name alone
	anyMember = "rights-check"
)

// Lacking are those of some rights that brokers do not give this process. It asks what each client may ask about
// itself, and needs no right for it:
//
//	topic              Metadata, which tells the operations on each; CreateTopics, validating only, where CREATE is
//	                   not among them, for the right to create on the cluster does as well
//	group              DescribeGroups (DESCRIBE), a Heartbeat of no member (READ), IncrementalAlterConfigs, validating
//	                   only (ALTER_CONFIGS)
//	transactional id   EndTxn of no transaction (WRITE)
//
// ACLs are looked at before anything else, by every broker: an answer about anything else is as good as a yes. Other
// operations, and those on the cluster, are not asked about. A broker without an authorizer allows everything. The
// error is that of asking.
func (a *Admin) Lacking(ctx context.Context, needed []access.Right) ([]access.Right, error) {
	lacking, _, err := a.lackingAt(ctx, a.client, needed)
	return lacking, a.cfg.Classify(askRights, err)
}

// LackingAnywhere is Lacking of every broker: each hears of a right that was given just now in its own time, and a
// process that goes on before all have is refused by the others. One that does not answer is left out.
func (a *Admin) LackingAnywhere(ctx context.Context, needed []access.Right) ([]access.Right, error) {
	lacking, brokers, err := a.lackingAt(ctx, a.client, needed)
	for _, id := range brokers {
		if err != nil || len(lacking) > 0 {
			break
		}
		lacking, err = a.lackingOf(ctx, id, needed)
	}
	return lacking, a.cfg.Classify(askRights, err)
}

// lackingOf asks one broker, which may be frozen, for no longer than it takes one that is well.
func (a *Admin) lackingOf(ctx context.Context, id int32, needed []access.Right) ([]access.Right, error) {
	within, cancel := context.WithTimeout(ctx, pace.AskTimeout)
	defer cancel()
	lacking, _, silent := a.lackingAt(within, a.client.Broker(int(id)), needed)
	return lacking, cmp.Or(ctx.Err(), answered(silent))
}

// answered is an error that a broker answered with.
func answered(err error) error {
	var code *kerr.Error
	if errors.As(err, &code) {
		return err
	}
	return nil
}

const askRights = "ask for this process's rights"

// lackingAt asks one broker, or the client for any, and answers the ids of all brokers too.
func (a *Admin) lackingAt(
	ctx context.Context, whom kmsg.Requestor, needed []access.Right,
) (lacking []access.Right, brokers []int32, err error) {
	told, brokers, err := toldOperations(ctx, whom, needed)
	if err != nil {
		return nil, nil, err
	}
	broker := whom
	if whom == kmsg.Requestor(a.client) && len(brokers) > 0 {
		broker = a.client.Broker(int(brokers[0]))
	}
	for _, r := range needed {
		var missing []access.Operation
		for _, o := range r.Operations {
			allowed, err := a.allowed(ctx, broker, told, r, o)
			if err != nil {
				return nil, nil, err
			}
			if !allowed {
				missing = append(missing, o)
			}
		}
		if len(missing) > 0 {
			r.Operations = missing
			lacking = append(lacking, r)
		}
	}
	return lacking, brokers, nil
}

// allowed says whether brokers let this process do one thing.
func (a *Admin) allowed(
	ctx context.Context, broker kmsg.Requestor, told map[string]int32, r access.Right, o access.Operation,
) (bool, error) {
	name := wholeName(r)
	switch {
	case r.Kind == access.Topic:
		ok := tells(told[name], o)
		if ok || o != access.Create {
			return ok, nil
		}
		return answers(ctx, a.client, createRequest(name))
	case r.Kind == access.Group && o == access.Describe:
		return answers(ctx, broker, describeGroupRequest(name))
	case r.Kind == access.Group && o == access.Read:
		return answers(ctx, broker, memberRequest(name))
	case r.Kind == access.Group && o == access.AlterConfigs:
		return answers(ctx, a.client, groupConfigRequest(name))
	case r.Kind == access.TransactionalID && o == access.Write:
		return answers(ctx, broker, endRequest(name))
	}
	return true, nil
}

// wholeName is a name that a right is about.
func wholeName(r access.Right) string {
	switch {
	case !r.Prefixed:
		return r.Name
	case r.Kind == access.Group:
		return r.Name + anyGroup
	}
	return r.Name + anyTopic
}

// notTold is what a broker answers that does not say which operations it allows.
const notTold = math.MinInt32

// toldOperations are the operations on topics that a broker says that it allows, as bits, and the ids of all brokers.
func toldOperations(
	ctx context.Context, whom kmsg.Requestor, needed []access.Right,
) (told map[string]int32, brokers []int32, err error) {
	var topics []string
	for _, r := range needed {
		if r.Kind == access.Topic {
			topics = append(topics, wholeName(r))
		}
	}
	slices.Sort(topics)
	told = map[string]int32{}
	for piece := range pieces(slices.Compact(topics)) {
		m, err := fetch.Allowed(ctx, whom, piece...)
		if err != nil {
			return nil, nil, err
		}
		for _, t := range m.Topics {
			told[*t.Topic] = t.AuthorizedOperations
			if t.ErrorCode == kerr.TopicAuthorizationFailed.Code { // it may not even know that it is there
				told[*t.Topic] = 0
			}
		}
		brokers = brokers[:0]
		for _, b := range m.Brokers {
			brokers = append(brokers, b.NodeID)
		}
	}
	return told, brokers, nil
}

// tells says whether an operation is among those that a broker tells.
func tells(bits int32, o access.Operation) bool {
	op, err := kmsg.ParseACLOperation(string(o))
	return err != nil || bits == notTold || bits&(1<<uint(op)) != 0
}

// answers says whether a request is not refused by ACLs. What else is wrong with it is no matter: it has no effect.
func answers(ctx context.Context, whom kmsg.Requestor, req kmsg.Request) (bool, error) {
	resp, err := whom.Request(ctx, req)
	if err == nil {
		err = kerr.ErrorForCode(codeOf(resp))
	}
	var code *kerr.Error
	switch {
	case kafka.IsDenied(err):
		return false, nil
	case err == nil, errors.As(err, &code):
		return true, nil
	}
	return false, err
}

// codeOf is the error of the one thing that a request was about.
func codeOf(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range r.Topics {
			return t.ErrorCode
		}
	case *kmsg.DescribeGroupsResponse:
		for _, g := range r.Groups {
			return g.ErrorCode
		}
	case *kmsg.IncrementalAlterConfigsResponse:
		for _, x := range r.Resources {
			return x.ErrorCode
		}
	case *kmsg.HeartbeatResponse:
		return r.ErrorCode
	case *kmsg.EndTxnResponse:
		return r.ErrorCode
	}
	return 0
}

func createRequest(topic string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly, req.TimeoutMillis = true, 10_000
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
	req.Topics = append(req.Topics, rt)
	return req
}

func describeGroupRequest(group string) *kmsg.DescribeGroupsRequest {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	return req
}

func memberRequest(group string) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID = group, anyMember
	return req
}

func groupConfigRequest(group string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = true
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Op = kmsg.IncrementalAlterConfigOpSet
	rc.Name, rc.Value = "share.record.lock.duration.ms", kmsg.StringPtr(lockMillis)
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	return req
}

func endRequest(id string) *kmsg.EndTxnRequest {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, -1, -1
	return req
}
