// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/pkg/client"
	"github.com/berth-project/berth/pkg/compute"
)

// TestRefusedIsNoEmptyList: a command that did nothing to any instance prints its error alone.
func TestRefusedIsNoEmptyList(t *testing.T) {
	node := func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			problem(w, http.StatusConflict, compute.KindConflict)
			return
		}
		i := client.Instance{ID: ownID, Name: "web", State: "active"}
		answer(w, http.StatusOK, map[string]any{"items": []client.Instance{i}})
	}
	stop := func(s *settings) *cobra.Command { return newPower(s, compute.OpStop) }
	for _, command := range []func(*settings) *cobra.Command{newDelete, stop} {
		for _, format := range []string{"table", "json"} {
			out, _, err := typed(t.Context(), t, node, command, "web", "-o", format)
			if out != "" || codeOf(err) != exitConflict {
				t.Errorf("%s: %v (%d), prints %q", format, err, codeOf(err), out)
			}
		}
	}
}

// TestWhatIsActedUponIsFresh: a name that a command acts upon is looked up once the API node has read what others have
// accepted. One that is only looked at is what that node knows.
func TestWhatIsActedUponIsFresh(t *testing.T) {
	reboot := func(s *settings) *cobra.Command { return newPower(s, compute.OpReboot) }
	for _, c := range []struct {
		command func(*settings) *cobra.Command
		args    []string
		fresh   string
	}{
		{newDelete, []string{"web"}, "true"}, {newDelete, []string{"we", "--prefix"}, "true"},
		{newDelete, []string{"--label", "team=a", "--yes"}, "true"}, {reboot, []string{"web"}, "true"},
		{newShow, []string{"web"}, ""},
	} {
		var asked []string
		node := func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				problem(w, http.StatusConflict, compute.KindConflict)
				return
			}
			if r.URL.Path == "/v1/instances" {
				asked = append(asked, r.URL.Query().Get("fresh"))
			}
			i := client.Instance{ID: ownID, Name: "web", State: "active"}
			answer(w, http.StatusOK, map[string]any{"items": []client.Instance{i}})
		}
		_, _, err := typed(t.Context(), t, node, c.command, c.args...)
		if len(asked) == 0 || asked[0] != c.fresh {
			t.Errorf("%v: asked for fresh=%q, %v", c.args, asked, err)
		}
	}
}

// TestOnceForEachWord: a word that is given again is taken once, and two words for one instance do nothing.
func TestOnceForEachWord(t *testing.T) {
	for _, c := range []struct {
		words []string
		posts int
		code  exitCode
	}{
		{[]string{"web", "web"}, 1, 0}, {[]string{"web", "db", "web", "db"}, 2, 0},
		{[]string{"web", ownID}, 0, exitConflict},
	} {
		posts := 0
		node := func(w http.ResponseWriter, r *http.Request) {
			i := client.Instance{ID: ownID, Name: "web", State: "active"}
			if r.URL.Query().Get("ref") == "db" {
				i = client.Instance{ID: "22222222-2222-4222-8222-222222222222", Name: "db", State: "active"}
			}
			if r.Method == http.MethodPost {
				posts++
				answer(w, http.StatusAccepted, client.PowerAsked{})
				return
			}
			answer(w, http.StatusOK, map[string]any{"items": []client.Instance{i}})
		}
		reboot := func(s *settings) *cobra.Command { return newPower(s, compute.OpReboot) }
		if _, _, err := typed(t.Context(), t, node, reboot, c.words...); codeOf(err) != c.code || posts != c.posts {
			t.Errorf("%v: asked %d times, %v", c.words, posts, err)
		}
	}
}
