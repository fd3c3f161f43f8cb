package httpapi_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"berth/internal/httpapi"
)

// wrong are values that stand where others should.
var wrong = []any{nil, "x", -1, []any{nil}, map[string]any{}}

// inside are words that only a failure of the servers themselves has.
var inside = regexp.MustCompile(
	`panic|bug|runtime error|nil pointer|out of range|Go struct|Go value|cbor:|json:|reflect|EOF`)

// Given every route that takes a body, when a value of it is another than it should be, or all of it is, then what is
// answered is a refusal in words, also where clients know it with the status of a failure: nothing that a caller writes
// is a failure of the servers.
func TestAMistakeOfTheCallersIsNoFailureOfTheServers(t *testing.T) {
	w := newWorld(t)
	asked := 0
	failed := map[string]bool{}
	for _, route := range httpapi.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if method == http.MethodGet || strings.HasPrefix(path, "/v1/operator/snapshot") {
			continue
		}
		id := idFor(w, path)
		send := func(at string, v, body any) {
			data, err := json.Marshal(body)
			if err != nil {
				return // 1e300 is no number of some
			}
			asked++
			got := w.try(method, w.asked(path, id), data)
			if got.status >= 500 && (inside.Match(got.body) || len(got.body) == 0) && !failed[route+at] {
				failed[route+at] = true
				t.Errorf("%s with %s = %v: %d %s", route, at, v, got.status, got.body)
			}
		}
		for _, v := range wrong {
			send("all", v, v)
		}
		var doc any
		data, err := json.Marshal(bodyOf(route, id))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		places("", doc, nil, func(at string, was any, put func(any)) {
			for _, v := range wrong {
				put(v)
				send(at, v, doc)
			}
			put(was)
		})
	}
	if asked < 5_000 {
		t.Errorf("only %d were asked", asked)
	}
}
