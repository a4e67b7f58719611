// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
)

func newHistory(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "history NAME|ID|PREFIX",
		Short: "Tell what became of an instance, and who asked for what",
		Long: `Tell what became of an instance, from its record, and who asked for what, from the audit where API nodes keep
one. The record stays 15 days after the instance ended. berth events shows each single change, as long as nodes know them.`,
		Args: cobra.ExactArgs(1),
		RunE: s.about(func(cmd *cobra.Command, c *client.Client, out Format, i client.Instance) error {
			story, err := c.Story(cmd.Context(), i.ID)
			if err != nil {
				return err
			}
			switch out {
			case FormatJSON, FormatYAML:
				return PrintData(cmd.OutOrStdout(), out, story)
			}
			if err := storySheet().List(cmd.OutOrStdout(), out, story.Items); err != nil {
				return err
			}
			if note := unasked(story.Asked); note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "berth: "+note)
			}
			return nil
		}),
	}
}

// unasked is what is not known of who asked; empty: all is.
func unasked(asked string) string {
	switch asked {
	case "off":
		return "who asked is not known: API nodes keep no audit (audit: true in their settings)"
	case "partly":
		return "not all of who asked is shown: the audit is too long since then; admins see it with berth audit"
	}
	return ""
}

func storySheet() Sheet[client.StoryStep] {
	return Sheet[client.StoryStep]{
		Name: func(s client.StoryStep) string { return s.What },
		none: "Nothing is known of it.",
		Columns: []Column[client.StoryStep]{
			{Title: "TIME", Cell: func(s client.StoryStep) string { return ShownTime(s.At) }},
			{Title: "WHAT", Cell: became},
			{Title: "WHO", Cell: func(s client.StoryStep) string { return s.Who }},
			{Title: "HOST", Cell: func(s client.StoryStep) string { return string(s.Host) }},
			{Title: "WHY", Cell: func(s client.StoryStep) string { return s.Message }},
		},
	}
}

// became is one step of a story in plain words.
func became(s client.StoryStep) string {
	if s.Source == "audit" {
		what := strings.TrimSuffix(s.What, "-instance") + " asked for"
		if s.Status >= 400 {
			what += fmt.Sprintf(", refused: %d %s", s.Status, s.Kind)
		}
		return what
	}
	switch s.What {
	case "accepted":
		return "accepted"
	case "admitted":
		return "admitted, queued"
	case "attempt-failed":
		return fmt.Sprintf("attempt %d failed", s.Attempt)
	case "granted":
		return fmt.Sprintf("attempt %d granted", s.Attempt)
	case "active":
		return "it ran"
	case "noticed":
		return "notice: it is taken away"
	case "preempted":
		return "taken away, queued again"
	case "power-asked":
		return s.Op + " under way"
	case "power-answered":
		if s.Message != "" {
			return s.Op + " failed"
		}
		return s.Op + " done"
	}
	return s.What
}
