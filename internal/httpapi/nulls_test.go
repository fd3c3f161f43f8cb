package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"berth/internal/testkit/samplejob"
)

// places lists the places of a JSON document, each as a function that puts a value there.
func places(at string, v any, put func(any), visit func(at string, was any, put func(any))) {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			here := at + "." + k
			visit(here, e, func(x any) { t[k] = x })
			places(here, e, func(x any) { t[k] = x }, visit)
		}
	case []any:
		for i, e := range t {
			here := fmt.Sprintf("%s[%d]", at, i)
			visit(here, e, func(x any) { t[i] = x })
			places(here, e, func(x any) { t[i] = x }, visit)
		}
	}
}

// TestOddJobsGetAnAnswer: given a job of each type with everything in it, when null, a list of null, an empty object or
// an empty list stands in the place of one of its members, then each of the routes that take jobs answers.
func TestOddJobsGetAnAnswer(t *testing.T) {
	r := newRig(t)
	data, err := json.Marshal(samplejob.New())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"service", "batch", "system"} {
		var doc any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		doc.(map[string]any)["Type"] = kind
		asked := 0
		places("Job", doc, nil, func(at string, was any, put func(any)) {
			for _, odd := range []any{nil, []any{nil}, map[string]any{}, []any{}} {
				put(odd)
				for _, path := range []string{"/v1/validate/job", "/v1/job/web/plan"} {
					body, err := json.Marshal(map[string]any{"Job": doc})
					if err != nil {
						t.Fatal(err)
					}
					asked++
					req, err := http.NewRequestWithContext(t.Context(), "PUT", r.url+path, bytes.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					resp, err := http.DefaultTransport.RoundTrip(req)
					if err != nil {
						t.Errorf("%s with %s = %v: %v", path, at, odd, err)
						continue
					}
					if err := resp.Body.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			put(was)
		})
		if asked < 500 {
			t.Errorf("%s: only %d were asked", kind, asked)
		}
	}
}
