// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/berth-project/berth/pkg/compute"
)

// Classify gives an error of the client or a broker its kind: what a caller
// can do about it. nil stays nil; what has a kind already keeps it.
func Classify(op string, err error) error {
	if err == nil {
		return nil
	}
	var ours *compute.Error
	switch {
	case errors.As(err, &ours):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &compute.Error{Op: op, Kind: compute.KindTimeout, Message: "no answer came in time", Cause: err}
	case IsForbidden(err):
		return &compute.Error{
			Op:      op,
			Kind:    compute.KindForbidden,
			Message: "Kafka does not allow it",
			Remedy:  "check the ACLs of this process's Kafka user",
			Cause:   err,
		}
	}
	var code *kerr.Error
	if errors.As(err, &code) && !code.Retriable && code != kerr.UnknownServerError {
		return &compute.Error{Op: op, Kind: compute.KindInternal, Message: "Kafka refused", Cause: err}
	}
	return compute.Unavailable(op, err)
}

// IsForbidden says whether Kafka's ACLs refuse this process.
func IsForbidden(err error) bool {
	for _, e := range []error{
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.TransactionalIDAuthorizationFailed, kerr.SaslAuthenticationFailed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
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
