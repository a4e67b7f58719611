// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/kafka/access"
)

// anyHost says that a principal may come from any address.
const anyHost = "*"

// kinds are the kinds of things in Kafka's protocol.
var kinds = map[access.Kind]kmsg.ACLResourceType{
	access.Topic: kmsg.ACLResourceTypeTopic, access.Group: kmsg.ACLResourceTypeGroup,
	access.TransactionalID: kmsg.ACLResourceTypeTransactionalId, access.Cluster: kmsg.ACLResourceTypeCluster,
}

// Allow gives rights to a principal ("User:name"). What it has already stays. The
// caller must be a super user of the brokers, or have ALTER on the cluster.
func (a *Admin) Allow(ctx context.Context, principal string, rights []access.Right) error {
	const op = "set ACLs"
	req := kmsg.NewPtrCreateACLsRequest()
	for _, r := range rights {
		for _, operation := range r.Operations {
			o, err := kmsg.ParseACLOperation(string(operation))
			if err != nil {
				return compute.Invalid("operation", string(operation), "give one that Kafka knows")
			}
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.ResourcePatternType = kinds[r.Kind], r.Name, kmsg.ACLResourcePatternTypeLiteral
			if r.Prefixed {
				c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
			}
			c.Principal, c.Host, c.Operation, c.PermissionType = principal, anyHost, o, kmsg.ACLPermissionTypeAllow
			req.Creations = append(req.Creations, c)
		}
	}
	resp, err := req.RequestWith(ctx, a.client)
	if err != nil {
		return a.cfg.Classify(op, err, access.To("Alter", access.Cluster, access.ClusterName))
	}
	for _, r := range resp.Results {
		if err := refusedACL(r.ErrorCode, r.ErrorMessage); err != nil {
			return a.cfg.Classify(op, err, access.To("Alter", access.Cluster, access.ClusterName))
		}
	}
	return nil
}

// Allowed are the rights that ACLs give to a principal. A right that an ACL denies is not told
// of: Berth gives none such.
func (a *Admin) Allowed(ctx context.Context, principal string) ([]access.Right, error) {
	const op = "read ACLs"
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Principal, req.Operation, req.PermissionType = &principal, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAllow
	resp, err := req.RequestWith(ctx, a.client)
	if err == nil {
		err = refusedACL(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, a.cfg.Classify(op, err, access.To(access.Describe, access.Cluster, access.ClusterName))
	}
	var out []access.Right
	for _, r := range resp.Resources {
		right := access.Right{Name: r.ResourceName, Prefixed: r.ResourcePatternType == kmsg.ACLResourcePatternTypePrefixed}
		for kind, is := range kinds {
			if is == r.ResourceType {
				right.Kind = kind
			}
		}
		for _, acl := range r.ACLs {
			right.Operations = append(right.Operations, operation(acl.Operation))
		}
		out = append(out, right)
	}
	return out, nil
}

// operation is an operation in the words of kafka-acls.sh.
func operation(o kmsg.ACLOperation) access.Operation {
	var b strings.Builder
	for word := range strings.SplitSeq(o.String(), "_") {
		b.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return access.Operation(b.String())
}

// refusedACL is what a broker says of one ACL.
func refusedACL(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		err = errors.Join(err, errors.New(*message))
	}
	return err
}
