// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
)

// labelPages is how many pages of instances are looked through for labels.
const labelPages = 5

// bareLabel is a name or a value of a label that no shell reads as anything but itself.
var bareLabel = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

// labelSets are the labels of all of one kind that meet some requirements.
type labelSets func(ctx context.Context, c *client.Client, requirements []string) ([]map[string]string, error)

func instanceLabels(ctx context.Context, c *client.Client, requirements []string) (all []map[string]string, err error) {
	pages := 0
	for page, err := range c.InstancePages(ctx, client.Filter{Labels: requirements, Fields: []string{"metadata"}}) {
		if err != nil {
			return nil, err
		}
		for _, i := range page {
			all = append(all, i.Metadata)
		}
		if pages++; pages == labelPages {
			break
		}
	}
	return all, nil
}

// hostLabels are those of all hosts: requirements are theirs to meet once the command is given.
func hostLabels(ctx context.Context, c *client.Client, _ []string) (all []map[string]string, err error) {
	hosts, err := c.Hosts(ctx)
	for _, h := range hosts {
		all = append(all, h.Labels)
	}
	return all, err
}

// labelWords completes the --label of a command.
func labelWords(cmd *cobra.Command) names {
	flag := cmd.Flag("label")
	_, selects := flag.Value.(*selector)
	switch {
	case !selects: // gives labels
		return func(ctx context.Context, c *client.Client, typed string) ([]string, error) {
			return requirementWords(ctx, c, instanceLabels, nil, typed)
		}
	case cmd.HasParent() && cmd.Parent().Name() == "host":
		return selectorWords(hostLabels)
	}
	return selectorWords(instanceLabels)
}

// selectorWords completes the last requirement of a selector, by the labels of what meets those before it.
func selectorWords(of labelSets) names {
	return func(ctx context.Context, c *client.Client, typed string) ([]string, error) {
		before, last := "", typed
		if at := strings.LastIndexByte(typed, ','); at >= 0 {
			before, last = typed[:at+1], typed[at+1:]
		}
		var met []string
		if before != "" {
			met = strings.Split(strings.TrimSuffix(before, ","), ",")
		}
		no := ""
		if strings.HasPrefix(last, "!") {
			no, last = "!", last[1:]
		}
		words, err := requirementWords(ctx, c, of, met, last)
		for n, word := range words {
			if no != "" { // "!team" has no value
				word = strings.TrimSuffix(word, "=")
			}
			words[n] = before + no + word
		}
		return words, err
	}
}

// requirementWords are "team=" for each label, or "team=shop" for each value of the one that is typed.
func requirementWords(
	ctx context.Context, c *client.Client, of labelSets, met []string, typed string,
) (words []string, err error) {
	name, _, valued := strings.Cut(typed, "=")
	is := "="
	if bare, not := strings.CutSuffix(name, "!"); not && valued {
		name, is = bare, "!="
	}
	if valued {
		met = append(slices.Clone(met), name)
	}
	sets, err := of(ctx, c, met)
	for _, labels := range sets {
		if value, has := labels[name]; valued && has && bareLabel.MatchString(value) {
			words = append(words, name+is+value)
		}
		for label := range labels {
			if !valued && bareLabel.MatchString(label) {
				words = append(words, label+"=")
			}
		}
	}
	return words, err
}
