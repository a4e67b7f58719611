// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	pb "github.com/berth-project/berth/pkg/wire/berthv1"
)

// CatalogEntry is what one record of the catalog says. Exactly one of
// FlavorName, Axis and Project is set, from the key, and GroupName with Project if it
// is about a group; unless it is Removed, so is the word that belongs to it.
type CatalogEntry struct {
	FlavorName compute.FlavorName
	Axis       compute.AxisName
	Project    compute.Project
	GroupName  compute.GroupName

	Removed    bool
	Flavor     *compute.Flavor
	Capability *compute.Capability
	Quota      *compute.Quota
	Group      *compute.Group
}

// EncodeFlavor makes the record of a flavor; its key is KeyFlavor.
func EncodeFlavor(f compute.Flavor) Record {
	return seal(KeyFlavor(f.Name), &pb.Flavor{
		Name:         text(f.Name),
		Resources:    amounts(f.Resources),
		Required:     texts(f.Required),
		Forbidden:    texts(f.Forbidden),
		Capabilities: texts(f.Capabilities),
	}, "")
}

// EncodeCapability makes the record of an axis; its key is KeyCapability.
func EncodeCapability(c compute.Capability) Record {
	m := &pb.Capability{Axis: text(c.Axis)}
	for _, v := range c.Values {
		m.Values = append(m.Values, &pb.CapabilityValue{
			Value:    text(v.Value),
			Requires: texts(v.Requires),
			Consumes: amounts(v.Consumes),
		})
	}
	return seal(KeyCapability(c.Axis), m, "")
}

// EncodeQuota makes the record of a quota; its key is KeyQuota.
func EncodeQuota(q compute.Quota) Record {
	return seal(KeyQuota(q.Project), &pb.Quota{
		Project: text(q.Project),
		Limits:  amounts(q.Limits),
		Classes: classLimitsTo(q.Classes),
		Weight:  q.Weight,
	}, "")
}

// EncodeGroup makes the record of a group; its key is KeyGroup.
func EncodeGroup(g compute.Group) Record {
	return seal(KeyGroup(g.Project, g.Name), &pb.Group{
		Project: text(g.Project),
		Name:    text(g.Name),
		Policy:  groupPolicies.out(g.Policy),
		Most:    g.Most,
		Over:    text(g.Over),
		Spread:  text(g.Spread),
		Skew:    g.Skew,
	}, "").inLeastSchema(says{spread: g.Spread != ""})
}

// DecodeCatalog reads a record of the catalog: the key says what it is, and a
// tombstone that it was removed.
func DecodeCatalog(rec Record) (CatalogEntry, error) {
	if rec.Unread != nil {
		return CatalogEntry{}, refused("catalog", rec.Unread)
	}
	kind, name, _ := strings.Cut(string(rec.Key), "/")
	var entry CatalogEntry
	switch {
	case name == "":
	case kind+"/" == flavorPrefix:
		entry.FlavorName = compute.FlavorName(name)
	case kind+"/" == capabilityPrefix:
		entry.Axis = compute.AxisName(name)
	case kind+"/" == quotaPrefix:
		entry.Project = compute.Project(name)
	case kind+"/" == groupPrefix:
		if project, group, ok := strings.Cut(name, "/"); ok && project != "" && group != "" {
			entry.Project, entry.GroupName = compute.Project(project), compute.GroupName(group)
		}
	}
	if entry == (CatalogEntry{}) {
		return CatalogEntry{}, refused(
			"catalog",
			compute.Invalid(
				"key",
				string(rec.Key),
				"give flavor/, capability/ or quota/ and a name, or group/, a project, a slash and a name",
			),
		)
	}
	if rec.Value == nil {
		entry.Removed = true
		return entry, nil
	}
	var err error
	switch {
	case entry.FlavorName != "":
		entry.Flavor, err = decode(kind, rec, &pb.Flavor{}, flavorFrom)
	case entry.Axis != "":
		entry.Capability, err = decode(kind, rec, &pb.Capability{}, capabilityFrom)
	case entry.GroupName != "":
		entry.Group, err = decode(kind, rec, &pb.Group{}, groupFrom)
	default:
		entry.Quota, err = decode(kind, rec, &pb.Quota{}, quotaFrom)
	}
	if err != nil {
		return CatalogEntry{}, err
	}
	return entry, nil
}

func flavorFrom(r *reader, m *pb.Flavor) *compute.Flavor {
	f := &compute.Flavor{
		Name:         compute.FlavorName(m.GetName()),
		Resources:    resources(m.GetResources()),
		Required:     words[compute.Trait](m.GetRequired()),
		Forbidden:    words[compute.Trait](m.GetForbidden()),
		Capabilities: words[compute.AxisName](m.GetCapabilities()),
	}
	r.flavor(*f)
	r.key(KeyFlavor(f.Name))
	return f
}

func capabilityFrom(r *reader, m *pb.Capability) *compute.Capability {
	c := &compute.Capability{Axis: compute.AxisName(m.GetAxis())}
	for _, v := range m.GetValues() {
		c.Values = append(c.Values, compute.CapabilityValue{
			Value:    compute.AxisValue(v.GetValue()),
			Requires: words[compute.Trait](v.GetRequires()),
			Consumes: resources(v.GetConsumes()),
		})
	}
	r.capability(*c)
	r.key(KeyCapability(c.Axis))
	return c
}

func quotaFrom(r *reader, m *pb.Quota) *compute.Quota {
	q := &compute.Quota{
		Project: compute.Project(m.GetProject()),
		Limits:  resources(m.GetLimits()),
		Classes: classLimitsFrom(r, m.GetClasses()),
		Weight:  m.GetWeight(),
	}
	r.quota(*q)
	r.key(KeyQuota(q.Project))
	return q
}

func classLimitsTo(limits compute.ClassLimits) []*pb.ClassLimits {
	var out []*pb.ClassLimits
	for _, p := range compute.Priorities() {
		if of := limits[p]; len(of) > 0 {
			out = append(out, &pb.ClassLimits{Priority: quotaParts.out(compute.QuotaOf(p)), Limits: amounts(of)})
		}
	}
	return out
}

func classLimitsFrom(r *reader, list []*pb.ClassLimits) compute.ClassLimits {
	out := compute.ClassLimits{}
	for _, m := range list {
		p := priorities.in(r, "classes.priority", m.GetPriority())
		if _, twice := out[p]; twice {
			r.refuse(compute.Invalid("classes.priority", p.String(), "give each class once"))
		}
		out[p] = resources(m.GetLimits())
	}
	return out.Tidy()
}

func groupFrom(r *reader, m *pb.Group) *compute.Group {
	g := &compute.Group{
		Project: compute.Project(m.GetProject()),
		Name:    compute.GroupName(m.GetName()),
		Policy:  groupPolicies.in(r, "policy", m.GetPolicy()),
		Most:    m.GetMost(),
		Over:    compute.AxisName(m.GetOver()),
		Spread:  needsSchema(r, "spread", schemaSpread, compute.AxisName(m.GetSpread())),
		Skew:    m.GetSkew(),
	}
	r.check(g.Check())
	r.key(KeyGroup(g.Project, g.Name))
	return g
}
