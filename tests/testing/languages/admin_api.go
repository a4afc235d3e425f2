// Drives brokers by the admin API, with Go's standard library: `go run admin_api.go URL`.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

var url string

func show(answer *http.Response, err error) {
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.StatusCode, string(body))
}

func get(path string) {
	show(http.Get(url + path))
}

func post(path, json string) {
	show(http.Post(url+path, "application/json", strings.NewReader(json)))
}

func main() {
	url = os.Args[1] + "/admin/v1/"
	post("topics", `{"name": "t", "replication_factor": 2}`)
	post("topics/t/records", `{"records": [{"key": "k", "value": "é"}]}`)
	get("topics/t/records")
	post("brokers/1/kill", `{"expire": true}`)
	post("brokers/1/start", "")
	post("brokers/1/stop", `{"now": true}`)
	get("groups/nosuch")
}
