package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"berth/api"
)

// Given servers without an agent of Consul and a job with a gateway, then whoever asks hears that Consul has not heard
// of it, why and since when, and nothing of jobs without one.
func TestWhyConsulHasNotHeardOfAGatewayIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.submit(map[string]any{
		"ID": "edge",
		"TaskGroups": []any{map[string]any{
			"Name":     "g",
			"Networks": []any{map[string]any{"Mode": "bridge"}},
			"Services": []any{map[string]any{
				"Name":      "edge",
				"PortLabel": "8080",
				"Connect": map[string]any{"Gateway": map[string]any{"Ingress": map[string]any{
					"Listeners": []any{map[string]any{
						"Port":     8080,
						"Protocol": "tcp",
						"Services": []any{map[string]any{"Name": "web"}},
					}},
				}}},
			}},
		}},
	})
	var all []*api.ConsulEntryStatus
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if w.get("/v1/job/edge/consul", &all); len(all) == 1 && all[0].Since > 0 {
			break
		}
	}
	if len(all) != 1 || all[0].Kind != "ingress-gateway" || all[0].Name != "edge" || all[0].Written ||
		all[0].Since == 0 || !strings.Contains(all[0].Reason, "consul block") {
		t.Errorf("it tells %+v", all)
	}
	if w.get("/v1/job/none/consul", &all); len(all) > 0 {
		t.Errorf("of a job that is not there: %+v", all)
	}
}
