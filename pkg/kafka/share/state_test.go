// SPDX-License-Identifier: Apache-2.0

package share

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/wire"
)

// topics are made of letters: "ab" is the topics a and b.
func topicsNamed(names string) []topicUUID {
	var ts []topicUUID
	for _, n := range names {
		ts = append(ts, topicUUID{byte(n)})
	}
	return ts
}

// say writes a fetch as the broker understands it: "1 +a +b:5=1 -c" is epoch 1,
// topic a listed, b named with an accept of offset 5, c forgotten.
func say(req *kmsg.ShareFetchRequest) string {
	words := []string{fmt.Sprint(req.ShareSessionEpoch)}
	for _, t := range req.Topics {
		w := "+" + string(rune(t.TopicID[0]))
		for _, b := range t.Partitions[0].AcknowledgementBatches {
			w += fmt.Sprintf(":%d=%d", b.FirstOffset, b.AcknowledgeTypes[0])
		}
		words = append(words, w)
	}
	for _, t := range req.ForgottenTopicsData {
		words = append(words, "-"+string(rune(t.TopicID[0])))
	}
	return strings.Join(words, " ")
}

func sayAcks(req *kmsg.ShareAcknowledgeRequest) string {
	if req == nil {
		return "nothing"
	}
	words := []string{fmt.Sprint(req.ShareSessionEpoch)}
	if req.IsRenewAck {
		words = append(words, "renewing")
	}
	for _, t := range req.Topics {
		w := string(rune(t.TopicID[0]))
		for _, b := range t.Partitions[0].AcknowledgementBatches {
			w += fmt.Sprintf(":%d=%d", b.FirstOffset, b.AcknowledgeTypes[0])
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// fetchOf is one answered fetch.
func fetchOf(s *sessionState, names string) string {
	req, _ := s.fetch(topicsNamed(names), time.Second)
	s.fetched(topicsNamed(names))
	return say(req)
}

func TestSessionSaysOnlyWhatChanged(t *testing.T) {
	s := newSessionState("g")
	var got []string
	for _, names := range []string{"ab", "ab", "abc", "c", "ad", "ad"} {
		got = append(got, fetchOf(s, names))
	}
	s.lose()
	got = append(got, fetchOf(s, "ad"))
	want := []string{"0 +a +b", "1", "2 +c", "3 -a -b", "4 +a +d -c", "5", "0 +a +d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSessionEpochsGoRound(t *testing.T) {
	s := newSessionState("g")
	s.epoch = math.MaxInt32 - 1
	s.answered()
	if s.epoch != math.MaxInt32 {
		t.Errorf("epoch %d", s.epoch)
	}
	if s.answered(); s.epoch != 1 {
		t.Errorf("after the last epoch comes %d, want 1: 0 would open another session", s.epoch)
	}
}

// hold acquires an offset of a topic.
func hold(s *sessionState, name byte, offset int64) delivery {
	d := delivery{topicUUID{name}, offset}
	s.acquire(d)
	return d
}

func TestAcksRideOnTheFetch(t *testing.T) {
	for _, c := range []struct {
		name, listed, next, want string
	}{
		{"of a topic that stays", "ab", "ab", "1 +a:5=1:9=2"},
		{"of a topic that goes", "ab", "b", "1 +a:5=1:9=2 -a"},
		{"of a topic that went before", "b", "b", "1 +a:5=1:9=2 -a"},
		{"of a topic that comes", "b", "ab", "1 +a:5=1:9=2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSessionState("g")
			fetchOf(s, c.listed)
			nine, five := hold(s, 'a', 9), hold(s, 'a', 5)
			if !s.ack(1, nine, wire.AckRelease) || !s.ack(1, five, wire.AckAccept) {
				t.Fatal("an ack of what is held was not taken")
			}
			if got := fetchOf(s, c.next); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := fetchOf(s, c.next); got != "2" {
				t.Errorf("then %q, want nothing said twice", got)
			}
		})
	}
}

func TestTheFirstLastWordCounts(t *testing.T) {
	s := newSessionState("g")
	fetchOf(s, "a")
	d := hold(s, 'a', 5)
	for _, c := range []struct {
		incarnation uint64
		how         wire.Ack
		taken       bool
	}{
		{1, wire.AckRenew, true}, {2, wire.AckAccept, false}, {1, wire.AckRelease, true},
		{1, wire.AckAccept, false}, {1, wire.AckRenew, false},
	} {
		if got := s.ack(c.incarnation, d, c.how); got != c.taken {
			t.Errorf("ack %d of incarnation %d: taken %t, want %t", c.how, c.incarnation, got, c.taken)
		}
	}
	req, sent := s.acknowledge()
	if got := sayAcks(req); got != "1 a:5=2" || sent.all() != 1 {
		t.Errorf("sent %q (%d acks)", got, sent.all())
	}
	if s.ack(1, delivery{topicUUID{'a'}, 6}, wire.AckAccept) {
		t.Error("an ack of what was never pulled was taken")
	}
}

func TestRenewalsGoByThemselves(t *testing.T) {
	s := newSessionState("g")
	fetchOf(s, "ab")
	d, e := hold(s, 'a', 5), hold(s, 'b', 7)
	s.ack(1, d, wire.AckRenew)
	s.ack(1, e, wire.AckAccept)
	if !s.renewing() {
		t.Fatal("a renewal waits and it does not know")
	}
	req, _ := s.acknowledge()
	s.answered()
	if got, want := sayAcks(req), "1 renewing a:5=4 b:7=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.renewing() || !s.ack(1, d, wire.AckAccept) {
		t.Error("a renewed record is not held any more, or still renewed")
	}
	req, _ = s.acknowledge()
	if got, want := sayAcks(req), "2 a:5=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if req, _ = s.acknowledge(); req != nil {
		t.Errorf("said again: %q", sayAcks(req))
	}
}

func TestLostSessionForgets(t *testing.T) {
	s := newSessionState("g")
	fetchOf(s, "a")
	d, e := hold(s, 'a', 5), hold(s, 'a', 6)
	s.ack(1, d, wire.AckAccept)
	if dropped := s.lose(); dropped != 1 {
		t.Errorf("%d acks were dropped, want 1", dropped)
	}
	if s.ack(1, e, wire.AckAccept) || s.ack(2, e, wire.AckAccept) {
		t.Error("what the lost session held is held by the next")
	}
	if got := fetchOf(s, "a"); got != "0 +a" {
		t.Errorf("began with %q", got)
	}
}

func TestEndReleasesAll(t *testing.T) {
	s := newSessionState("g")
	if req := s.end(); req != nil {
		t.Errorf("ended what was never begun: %q", sayAcks(req))
	}
	fetchOf(s, "a")
	if got := sayAcks(s.end()); got != "-1" {
		t.Errorf("got %q", got)
	}
	hold(s, 'a', 5)
	s.ack(1, hold(s, 'b', 1), wire.AckAccept)
	s.ack(1, hold(s, 'b', 2), wire.AckRenew)
	if got, want := sayAcks(s.end()), "-1 a:5=2 b:1=1:2=2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
