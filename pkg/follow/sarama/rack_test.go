// SPDX-License-Identifier: Apache-2.0

package sarama

import (
	"testing"

	"github.com/IBM/sarama"

	"github.com/berth-project/berth/pkg/follow"
)

// A broker that only names a replica which is nearer has said nothing about records; an error it says is one.
func TestAnAnswerThatNamesAnotherReplica(t *testing.T) {
	for name, v := range map[string]struct {
		err     sarama.KError
		replica int32
		whole   bool
	}{
		"no replica":          {sarama.ErrNoError, -1, true},
		"another replica":     {sarama.ErrNoError, 3, false},
		"replica 0":           {sarama.ErrNoError, 0, false},
		"an error, replica 0": {sarama.ErrNotLeaderForPartition, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &sarama.FetchResponseBlock{
				Err: v.err, HighWaterMarkOffset: 9, LastStableOffset: 9, PreferredReadReplica: v.replica,
			}
			if part, whole := parse(topic, 0, b); whole != v.whole {
				t.Errorf("whole: %v, %+v", whole, part)
			}
		})
	}
}

// A leader that is told of no rack names no replica.
func TestNoRackIsSent(t *testing.T) {
	b, client := listens(t)
	defer b.Close()
	const fetch = 1
	resp := &sarama.FetchResponse{Version: 11}
	resp.AddError(topic, 0, sarama.ErrNoError)
	b.SetHandlerByMap(map[string]sarama.MockResponse{
		"ApiVersionsRequest": sarama.NewMockApiVersionsResponse(t).
			SetApiKeys([]sarama.ApiVersionsResponseKey{{ApiKey: fetch, MaxVersion: 11}}),
		"FetchRequest": sarama.NewMockWrapper(resp),
	})
	client.Config().RackID = "north"
	a := &adapter{client: client, brokers: map[key]*broker{}, addrs: map[int32]string{1: b.Addr()}}
	if _, err := a.Fetch(t.Context(), 1, topic, map[int32]int64{0: 5}, follow.Room{Bytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	sent := 0
	for _, h := range b.History() {
		if req, ok := h.Request.(*sarama.FetchRequest); ok {
			sent++
			if req.Version != 11 || req.RackID != "" {
				t.Errorf("version %d, rack %q", req.Version, req.RackID)
			}
		}
	}
	if sent != 1 {
		t.Errorf("%d questions were sent", sent)
	}
}
