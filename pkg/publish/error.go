// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
)

// Kafka's error codes that a caller can act on; each client has its own type
// for them, and all have the same numbers.
const (
	unknownTopicOrPartition = 3
	requestTimedOut         = 7
	messageTooLarge         = 10
	invalidTopic            = 17
	recordListTooLarge      = 18
	notEnoughReplicasAfter  = 20
	topicAuthorization      = 29
	groupAuthorization      = 30
	clusterAuthorization    = 31
	transactionalIDAuth     = 53
	saslAuthentication      = 58
	unknownTopicID          = 100
)

// Refused gives a broker's error code its kind.
func Refused(code int16, cause error) error {
	switch code {
	case unknownTopicOrPartition, unknownTopicID:
		return wire.ErrNoTopic
	case messageTooLarge, recordListTooLarge:
		return &compute.Error{
			Kind: compute.KindInvalid, Message: "the record is too large",
			Remedy: "send less user data or metadata, or raise the client's and the topic's limit", Cause: cause,
		}
	case invalidTopic:
		return &compute.Error{
			Kind: compute.KindInvalid, Message: "Kafka takes no topic of this name",
			Remedy: "check the prefix of the cell", Cause: cause,
		}
	case topicAuthorization, groupAuthorization, clusterAuthorization, transactionalIDAuth, saslAuthentication:
		return Forbidden(cause)
	case requestTimedOut, notEnoughReplicasAfter:
		return &compute.Error{
			Kind: compute.KindTimeout, Message: "it was written, but not confirmed by enough replicas",
			Cause: cause,
		}
	}
	return Unreached(cause)
}

// Forbidden says that the client's Kafka user may not.
func Forbidden(cause error) error {
	return &compute.Error{
		Kind: compute.KindForbidden, Message: "Kafka does not allow it",
		Remedy: "check the ACLs of this process's Kafka user: WRITE and DESCRIBE on the requests topic",
		Cause:  cause,
	}
}

// Unreached is any error that may pass: no broker, no leader, too few replicas.
func Unreached(cause error) error {
	return &compute.Error{Kind: compute.KindUnavailable, Message: "cannot be done now", Cause: cause}
}

// Busy says that more waits for the brokers already than is good.
func Busy(cause error) error {
	return &compute.Error{
		Kind: compute.KindUnavailable, Message: "too many records wait for the brokers already", Cause: cause,
	}
}

// Unfit refuses a client whose settings would lose or misplace requests.
func Unfit(setting, value, remedy string) error {
	return &compute.Error{Op: "publish", Kind: compute.KindInvalid, Field: setting, Value: value, Remedy: remedy}
}
