// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
)

// Classify gives an error of the client or a broker its kind: what a caller
// can do about it. nil stays nil; what has a kind already keeps it.
//
// needs are the rights that the request needed, in the order in which a broker looks at them. Where ACLs refuse it,
// the error says which this process lacks, and how it is given it; a right that Lacking has noted goes first.
func (c Config) Classify(op string, err error, needs ...access.Right) error {
	if err == nil {
		return nil
	}
	var ours *compute.Error
	switch {
	case errors.As(err, &ours):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &compute.Error{Op: op, Kind: compute.KindTimeout, Message: "no answer came in time", Cause: err}
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return &compute.Error{
			Op:      op,
			Kind:    compute.KindForbidden,
			Message: "Kafka does not let " + c.As.Name() + " sign in",
			Remedy:  "check kafka.sasl in this process's settings, and the user at the brokers",
			Cause:   err,
		}
	case IsForbidden(err):
		return c.As.Denied(op, err, lacked(err, needs))
	}
	var code *kerr.Error
	if errors.As(err, &code) && !code.Retriable && code != kerr.UnknownServerError {
		return &compute.Error{Op: op, Kind: compute.KindInternal, Message: "Kafka refused", Cause: err}
	}
	return compute.Unavailable(op, err)
}

// refusals are the answers of a broker that does not allow a request, and what each is about.
var refusals = []struct {
	code *kerr.Error
	kind access.Kind
}{
	{kerr.TopicAuthorizationFailed, access.Topic},
	{kerr.GroupAuthorizationFailed, access.Group},
	{kerr.TransactionalIDAuthorizationFailed, access.TransactionalID},
	{kerr.ClusterAuthorizationFailed, access.Cluster},
}

// lacking is an error of ACLs with the right that is missing.
type lacking struct {
	error
	right access.Right
}

func (l *lacking) Unwrap() error { return l.error }

// Lacking notes which right a broker has refused, where that is still known. It leaves other errors as they are, and
// those that have a right already.
func Lacking(err error, needs ...access.Right) error {
	var known *lacking
	if !IsDenied(err) || errors.As(err, &known) {
		return err
	}
	return &lacking{err, lacked(err, needs)}
}

// lacked is the right that an error of ACLs is about: the one noted, or the first needed of the kind that the code
// names. To be given a producer id, which is asked of the cluster, is to be allowed to write to some topic: so
// without one of that kind it is the first at all.
func lacked(err error, needs []access.Right) access.Right {
	var known *lacking
	if errors.As(err, &known) {
		return known.right
	}
	kind := access.Cluster
	for _, r := range refusals {
		if errors.Is(err, r.code) {
			kind = r.kind
		}
	}
	for _, need := range needs {
		if need.Kind == kind {
			return need
		}
	}
	if len(needs) > 0 {
		return needs[0]
	}
	return access.To("use", kind, "(which one is not told)")
}

// IsDenied says whether ACLs refuse this process, which has signed in.
func IsDenied(err error) bool {
	for _, r := range refusals {
		if errors.Is(err, r.code) {
			return true
		}
	}
	return false
}

// IsForbidden says whether Kafka refuses this process: its ACLs, or its sign-in.
func IsForbidden(err error) bool {
	return IsDenied(err) || errors.Is(err, kerr.SaslAuthenticationFailed)
}

// IsFatal says whether trying again cannot help: the answer is a refusal.
func IsFatal(err error) bool {
	var ours *compute.Error
	if errors.As(err, &ours) {
		return ours.Kind != compute.KindUnavailable && ours.Kind != compute.KindTimeout
	}
	var code *kerr.Error
	return errors.As(err, &code) && !code.Retriable && code != kerr.UnknownServerError
}

// Answered says whether an error is a broker's answer.
func Answered(err error) bool {
	var code *kerr.Error
	return errors.As(err, &code)
}
