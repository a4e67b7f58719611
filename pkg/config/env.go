// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/pkg/compute"
)

// Prefix begins every variable: the setting kafka.brokers is BERTH_KAFKA_BROKERS.
const Prefix = "BERTH_"

// Variable is the name of a setting's variable.
func Variable(key string) string {
	return Prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// env takes settings from variables. A list is written a,b and a mapping
// k=v,k=v; a list of sections can be set in a file only. Variables that are no
// setting are left alone, they may be somebody else's; one that nearly is a
// setting gets a warning.
func (l *Loaded) env(environ, others []string) {
	given := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, Prefix) {
			given[name] = value
		}
	}
	var words []string // variables without the prefix
	for _, s := range l.settings {
		name := Variable(s.Key)
		words = append(words, strings.TrimPrefix(name, Prefix))
		if value, ok := given[name]; ok {
			l.text(s, Source{Kind: Env, Name: name}, name, value)
			delete(given, name)
		}
	}
	for name := range given {
		if near := nearest(strings.TrimPrefix(name, Prefix), words); near != "" && !slices.Contains(others, name) {
			l.Warnings = append(l.Warnings,
				fmt.Sprintf("%s is no setting here and changes nothing; did you mean %s%s?", name, Prefix, near))
		}
	}
	slices.Sort(l.Warnings)
}

// set takes key=value from the command line.
func (l *Loaded) set(text string) {
	const flag = "--set"
	key, value, found := strings.Cut(text, "=")
	if !found {
		l.problem(compute.Invalid(flag, text, "give key=value, as in kafka.prefix=test."))
		return
	}
	if s, ok := l.byKey[key]; ok {
		l.text(s, Source{Kind: Flag, Name: flag}, flag+" "+key, value)
		return
	}
	var names, inside []string
	for _, s := range l.settings {
		names = append(names, s.Key)
		if strings.HasPrefix(s.Key, key+".") {
			inside = append(inside, s.Key)
		}
	}
	if len(inside) > 0 {
		l.problem(&compute.Error{
			Kind: compute.KindInvalid, Field: "key", Value: key, Message: flag + ": this is a section",
			Remedy: "set one of " + strings.Join(inside, ", "),
		})
		return
	}
	l.problem(noSuch(flag, "", key, names))
}

// text reads a value as it would be read in a file.
func (l *Loaded) text(s *Setting, source Source, name, value string) {
	node, ok := nodeOf(value, s.value.Kind())
	if !ok || sections(s.value.Type()) || !decode(node, s.value) {
		if s.Secret {
			value = Masked
		}
		l.problem(compute.Invalid(name, value, "give "+textNoun(s.value.Type())))
		s.broken = true
		return
	}
	s.Source, s.broken = source, false
}

// nodeOf is the node that a file would have for a text.
func nodeOf(text string, kind reflect.Kind) (*yaml.Node, bool) {
	switch kind {
	case reflect.String:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}, true
	case reflect.Slice:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range split(text) {
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: item})
		}
		return node, true
	case reflect.Map:
		node := &yaml.Node{Kind: yaml.MappingNode}
		for _, item := range split(text) {
			k, value, found := strings.Cut(item, "=")
			if !found {
				return nil, false
			}
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: k},
				&yaml.Node{Kind: yaml.ScalarNode, Value: value})
		}
		return node, true
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: text}, text != ""
}

func split(text string) []string {
	var out []string
	for _, item := range strings.Split(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
