// Program situations runs franz-go in situations. Its arguments are SERVERS and ADMIN_URL; each line of stdin is a deed
// and rules as JSON, parted by tabs. It prints a line for each: "done", or "failed" with Kafka's error code or a name.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var values = []string{"0", "1", "2"}

const timeout = 20 * time.Second

func main() {
	servers, adminURL := os.Args[1], os.Args[2]
	deeds := map[string]func(context.Context, string) (string, error){
		"produce": func(ctx context.Context, servers string) (string, error) {
			return produce(ctx, servers, kgo.DisableIdempotentWrite())
		},
		"idempotent": func(ctx context.Context, servers string) (string, error) { return produce(ctx, servers) },
		"transact":   transact,
		"consume":    consume,
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		for _, rule := range words[1:] {
			addRule(adminURL, rule)
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		outcome, err := deeds[words[0]](ctx, servers)
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			outcome = "failed " + codeOf(err)
		}
		fmt.Println(outcome)
	}
}

func addRule(adminURL, rule string) {
	answer, err := http.Post(adminURL+"/admin/v1/faults", "application/json", strings.NewReader(rule))
	if err != nil || answer.StatusCode != http.StatusCreated {
		panic(rule)
	}
	answer.Body.Close()
}

func codeOf(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return fmt.Sprint(known.Code)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "DeadlineExceeded"
	}
	return strings.ReplaceAll(err.Error(), " ", "_")
}

func client(servers string, more ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.SeedBrokers(servers),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RequestTimeoutOverhead(3 * time.Second),
		kgo.ProduceRequestTimeout(1 * time.Second),
	}
	return kgo.NewClient(append(common, more...)...)
}

// write writes one after another: the first failure ends it.
func write(ctx context.Context, producer *kgo.Client) error {
	for _, value := range values {
		record := &kgo.Record{Topic: "t", Value: []byte(value)}
		if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func produce(ctx context.Context, servers string, more ...kgo.Opt) (string, error) {
	producer, err := client(servers, more...)
	if err != nil {
		return "", err
	}
	defer producer.Close()
	return "done", write(ctx, producer)
}

func transact(ctx context.Context, servers string) (string, error) {
	producer, err := client(servers, kgo.TransactionalID("x"))
	if err != nil {
		return "", err
	}
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		return "", err
	}
	if err := write(ctx, producer); err != nil {
		return "", err
	}
	return "done", producer.EndTransaction(ctx, kgo.TryCommit)
}

func consume(ctx context.Context, servers string) (string, error) {
	consumer, err := client(servers, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second),
		kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	outcome := "done"
	for found := 0; found < len(values); {
		fetches := consumer.PollFetches(ctx)
		// A member that must join again is told so once, and does so by itself.
		if err := fetches.Err(); err != nil && !errors.Is(err, kerr.UnknownMemberID) {
			return "", err
		}
		for _, record := range fetches.Records() {
			outcome += " " + string(record.Value)
			found++
		}
	}
	return outcome, consumer.CommitUncommittedOffsets(ctx)
}
