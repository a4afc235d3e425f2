// What a client does if a broker fails: `odradek run -- go test ./...`.
package example

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestNewLeaderIsRetried(t *testing.T) {
	topic := newTopic(t)
	addFault(t, fields{"api": "Produce", "topic": topic, "times": 2, "error": "NOT_LEADER_OR_FOLLOWER"})
	expect(t, produce(t, newClient(t), topic, "order"), nil)
	expect(t, values(t, topic), []string{"order"})
	expect(t, requests(t, "Produce", t.Name()), 3)
}

func TestLostAnswerMakesNoDuplicate(t *testing.T) {
	topic := newTopic(t)
	addFault(t, fields{"api": "Produce", "topic": topic, "times": 1, "drop_response": true})
	expect(t, produce(t, newClient(t), topic, "order"), nil)
	expect(t, values(t, topic), []string{"order"})
	expect(t, requests(t, "Produce", t.Name()), 2)
}

func TestThrottledProducerWaits(t *testing.T) {
	topic := newTopic(t)
	client := newClient(t)
	expect(t, produce(t, client, topic, "first"), nil)
	addFault(t, fields{"api": "Produce", "topic": topic, "times": 1, "throttle_ms": 300})
	expect(t, produce(t, client, topic, "second"), nil)
	began := time.Now()
	expect(t, produce(t, client, topic, "third"), nil)
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Fatalf("the third took only %v", took)
	}
}

func TestCommitFindsTheNewCoordinator(t *testing.T) {
	topic := newTopic(t)
	expect(t, produce(t, newClient(t), topic, "order"), nil)
	client := newClient(t, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(t.Name()), kgo.DisableAutoCommit())
	expect(t, consume(t, client, 1), []string{"order"})
	addFault(t, fields{"api": "OffsetCommit", "group": t.Name(), "times": 1, "error": "NOT_COORDINATOR"})
	expect(t, client.CommitUncommittedOffsets(within(t)), nil)
	expect(t, requests(t, "OffsetCommit", t.Name()), 2)
}
