// Prints as JSON how long franz-go's in-process mock of Kafka takes to start, and to start and end
// for each of many tests with as many topics: that is how its users give every test a clean state.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

const (
	tests      = 200
	seedTopics = 100
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func milliseconds(took time.Duration) float64 {
	return float64(took.Microseconds()) / 1000
}

func main() {
	began := time.Now()
	first, err := kfake.NewCluster(kfake.NumBrokers(1))
	check(err)
	started := time.Since(began)
	first.Close()

	names := make([]string, seedTopics)
	for number := range names {
		names[number] = fmt.Sprintf("seeded-%d", number)
	}
	took := make([]time.Duration, tests)
	for number := range took {
		began = time.Now()
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names...))
		check(err)
		cluster.Close()
		took[number] = time.Since(began)
	}
	slices.Sort(took)
	check(json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"start_ms": milliseconds(started),
		"test_ms":  milliseconds(took[tests*95/100]),
	}))
}
