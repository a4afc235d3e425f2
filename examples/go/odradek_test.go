// A client of Odradek's admin API, for tests that `odradek run` starts.
package example

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type fields map[string]any

// ask sends a request to the admin API, and returns its answer; the test fails if it is refused.
func ask(t *testing.T, method, path string, body any) fields {
	t.Helper()
	content := []byte{}
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequest(
		method, os.Getenv("ODRADEK_ADMIN_URL")+"/admin/v1/"+path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode >= 400 {
		t.Fatalf("%s %s: %s", method, path, answer)
	}
	found := fields{}
	if err := json.Unmarshal(answer, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// newTopic makes a topic with one partition, named after the test.
func newTopic(t *testing.T) string {
	t.Helper()
	ask(t, "POST", "topics", fields{"name": t.Name()})
	return t.Name()
}

// addFault adds a rule that must act before the test ends.
func addFault(t *testing.T, rule fields) {
	t.Helper()
	path := "faults/" + ask(t, "POST", "faults", rule)["id"].(string)
	t.Cleanup(func() {
		if ask(t, "GET", path, nil)["hits"].(float64) == 0 {
			t.Errorf("the rule %v never acted", rule)
		}
		ask(t, "DELETE", path, nil)
	})
}

// values reads what a topic has.
func values(t *testing.T, topic string) []string {
	t.Helper()
	found := []string{}
	for _, record := range ask(t, "GET", "topics/"+topic+"/records", nil)["records"].([]any) {
		found = append(found, record.(map[string]any)["value"].(string))
	}
	return found
}

// requests counts what the journal has of an API and a client.
func requests(t *testing.T, api, client string) int {
	t.Helper()
	query := url.Values{"api": {api}, "client_id": {client}}.Encode()
	return len(ask(t, "GET", "journal?"+query, nil)["requests"].([]any))
}

// newClient connects a client whose id is the test's name.
func newClient(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	usual := []kgo.Opt{
		kgo.SeedBrokers(os.Getenv("KAFKA_BOOTSTRAP_SERVERS")),
		kgo.ClientID(t.Name()),
		kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	}
	client, err := kgo.NewClient(append(usual, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// within is a context that ends with the test, at the latest after half a minute.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// produce writes a value, and returns the error of it.
func produce(t *testing.T, client *kgo.Client, topic, value string) error {
	return client.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr()
}

// consume reads so many values.
func consume(t *testing.T, client *kgo.Client, count int) []string {
	t.Helper()
	found := []string{}
	for ctx := within(t); len(found) < count; {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("only %v came", found)
		}
		fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	}
	return found
}

func expect(t *testing.T, found, wanted any) {
	t.Helper()
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		t.Fatalf("%v instead of %v", found, wanted)
	}
}
