package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-project/berth/pkg/compute"
)

// Prefix begins every variable: the setting kafka.brokers is BERTH_KAFKA_BROKERS.
const Prefix = "BERTH_"

// Env overrides settings from the environment. A list is written a,b and a
// mapping k=v,k=v. Lists of sections can be set in a file only. Variables that
// are no setting are left alone: they may be somebody else's.
func Env(lookup func(string) (string, bool), target any) error {
	return fromEnv(lookup, Prefix, reflect.ValueOf(target).Elem())
}

func fromEnv(lookup func(string) (string, bool), prefix string, v reflect.Value) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = strings.ToLower(field.Name)
		}
		variable := prefix + strings.ToUpper(name)
		if field.Type.Kind() == reflect.Struct {
			inner := variable + "_"
			if strings.Contains(options, "inline") {
				inner = prefix
			}
			if err := fromEnv(lookup, inner, v.Field(i)); err != nil {
				return err
			}
			continue
		}
		if text, ok := lookup(variable); ok {
			if err := set(variable, text, v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// set reads text as the field's type would be read in a file.
func set(variable, text string, field reflect.Value) error {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	switch field.Kind() {
	case reflect.String:
		node.Tag = "!!str"
	case reflect.Slice:
		node = &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range split(text) {
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: item})
		}
	case reflect.Map:
		node = &yaml.Node{Kind: yaml.MappingNode}
		for _, item := range split(text) {
			k, value, found := strings.Cut(item, "=")
			if !found {
				return compute.Invalid(variable, text, "give it as k=v,k=v")
			}
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: k}, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
		}
	}
	fresh := reflect.New(field.Type())
	if err := node.Decode(fresh.Interface()); err != nil {
		return compute.Invalid(variable, text, "give "+nounOf(field.Type()))
	}
	field.Set(fresh.Elem())
	return nil
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
