// SPDX-License-Identifier: Apache-2.0

package capabilities

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/wire"
	"github.com/berth-project/berth/pkg/wire/rest"
)

// Offer is what differs between cells and between versions of the API.
type Offer struct {
	API     string
	Reads   compute.Schema // the newest schema of records that the node reads
	Flavors []compute.Flavor
	Axes    []compute.Capability
	Limits  []rest.Limit    // besides those of the words themselves
	Names   []rest.NameRule // likewise
}

// Document is what is valid, in an order that does not change.
func Document(o Offer) rest.Capabilities {
	defaults := compute.Boot{}.WithDefaults()
	doc := rest.Capabilities{
		Items: []rest.Capability{}, Flavors: []rest.Flavor{}, Limits: slices.Concat(bootLimits(), flavorLimits(), o.Limits),
		Names: slices.Concat(names(), o.Names), OnNoCapacity: noCapacities(), States: states(), PowerStates: powerStates(),
		Reasons: reasons(),
		Defaults: rest.Defaults{
			Project: rest.DefaultProject, Attempts: defaults.Attempts, Deadline: rest.Duration(defaults.Deadline),
			OnNoCapacity: defaults.OnNoCapacity.String(),
		},
		Versions: rest.Versions{
			Berth: build(), API: o.API,
			Records: rest.SchemaReading{First: compute.FirstSchema, Newest: max(o.Reads, wire.Schema)},
		},
	}
	for _, a := range o.Axes {
		doc.Items = append(doc.Items, rest.FromCapability(a))
	}
	for _, f := range o.Flavors {
		doc.Flavors = append(doc.Flavors, rest.FromFlavor(f))
	}
	return doc
}

// bootLimits are those that a request to the API can meet: with has as many choices as its flavor has axes, and user
// data is sealed behind the API.
func bootLimits() []rest.Limit {
	var out []rest.Limit
	for _, l := range compute.BootLimits() {
		if l.Field != "with" && l.Field != "sealed_user_data" {
			out = append(out, rest.Limit{Request: "boot", Field: l.Field, Unit: l.Unit, Most: l.Most})
		}
	}
	return out
}

func flavorLimits() []rest.Limit {
	return []rest.Limit{
		{Request: "flavor", Field: "resources", Unit: "classes", Most: compute.MaxClasses},
		{Request: "flavor", Field: "resources", Unit: "of a class", Most: compute.MaxAmount},
		{Request: "flavor", Field: "required", Unit: "traits", Most: compute.MaxTraits},
		{Request: "flavor", Field: "forbidden", Unit: "traits", Most: compute.MaxTraits},
	}
}

// Tagged is the limit that a field of an input has in its tag, from which the check of requests comes too.
func Tagged(request string, input reflect.Type, field, unit string) rest.Limit {
	l := rest.Limit{Request: request, Unit: unit}
	f, _ := input.FieldByName(field)
	for _, tag := range []string{"query", "json"} {
		if name, _, _ := strings.Cut(f.Tag.Get(tag), ","); name != "" {
			l.Field = name
		}
	}
	for _, tag := range []string{"maximum", "maxLength", "maxItems"} {
		if most, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64); err == nil {
			l.Most = most
		}
	}
	l.Least, _ = strconv.ParseInt(f.Tag.Get("minimum"), 10, 64) // 0 without one
	return l
}

func names() []rest.NameRule {
	var out []rest.NameRule
	for _, r := range compute.NameRules() {
		out = append(out, rest.NameRule{Of: r.Of, Pattern: r.Pattern, Most: r.Most})
	}
	return out
}

// build is which Berth this is.
func build() string {
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}

// Tag is the entity tag of a document: strong, for equal documents are equal bytes.
func Tag(doc rest.Capabilities) (string, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return `"` + hex.EncodeToString(sum[:16]) + `"`, nil
}

// Known says whether a caller has the document with this tag already, by its If-None-Match.
func Known(tag, has string) bool {
	return slices.ContainsFunc(strings.Split(has, ","), func(h string) bool {
		h = strings.TrimPrefix(strings.TrimSpace(h), "W/") // how it was sent does not matter, only whether it is the same
		return h == tag || h == "*"
	})
}
