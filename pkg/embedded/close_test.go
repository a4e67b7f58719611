// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"net"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/berth-project/berth/pkg/unpack/unpacktest"
)

// What an idempotent producer sends again after a restart, because the broker went away before it answered, is in the log
// once: also if the broker was just looking at it.
func TestSentAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network Network
		o := Options{DataDir: t.TempDir(), Listen: func(n, address string) (net.Listener, error) {
			return network.Listen(t.Context(), n, address)
		}}
		begin := func() (*Broker, *kgo.Client) {
			t.Helper()
			b, err := Start(o)
			if err != nil {
				t.Fatal(err)
			}
			client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.Dialer(network.Dial), kgo.RequestRetries(0))
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b, client
		}
		b, client := begin()
		topics, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "log")
		if err != nil {
			t.Fatal(err)
		}
		of, err := producerOf(t, client)
		if err != nil {
			t.Fatal(err)
		}
		send := func(c *kgo.Client, seq int32) error { return produce(t, c, topics.ID, of, seq) }
		if err := send(client, 0); err != nil {
			t.Fatal(err)
		}
		looks, over := make(chan struct{}), make(chan struct{})
		b.Observe(kmsg.Produce, func(kmsg.Request) {
			close(looks)
			<-over
		})
		answered := make(chan error, 1)
		go func() { answered <- send(client, 1) }()
		<-looks
		b.Close()
		close(over)
		synctest.Wait() // it has done with that what it does
		if err := <-answered; err == nil {
			t.Error("a broker that has ended answers")
		}
		client.Close()

		b, client = begin()
		defer b.Close()
		defer client.Close()
		if err := send(client, 1); err != nil {
			t.Error(err)
		}
		ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), "log")
		if err != nil || ends["log"][0].Offset != 2 {
			t.Errorf("two records were written, and the log ends at %d: %v", ends["log"][0].Offset, err)
		}
	})
}

// producerOf is a producer id, as conductors have them.
func producerOf(t *testing.T, c *kgo.Client) (*kmsg.InitProducerIDResponse, error) {
	t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr("one"), 1000
	resp, err := req.RequestWith(t.Context(), c)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	return resp, err
}

// produce sends the record of a sequence number.
func produce(t *testing.T, c *kgo.Client, topic [16]byte, of *kmsg.InitProducerIDResponse, seq int32) error {
	t.Helper()
	numbered := func(b *kmsg.RecordBatch) {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = of.ProducerID, of.ProducerEpoch, seq
	}
	req, rt, rp := kmsg.NewPtrProduceRequest(), kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	rp.Records = unpacktest.Batch(kgo.CodecNone, 0, 1, unpacktest.Records([]byte("x")), numbered)
	rt.Topic, rt.TopicID, rt.Partitions = "log", topic, []kmsg.ProduceRequestTopicPartition{rp}
	req.Acks, req.TimeoutMillis, req.Topics = -1, 1000, []kmsg.ProduceRequestTopic{rt}
	resp, err := c.Broker(0).Request(t.Context(), req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}
