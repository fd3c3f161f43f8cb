package httpapi_test

import (
	"strings"
	"testing"
)

// TestGaugesOfANameStandTogether: with their labels, in the form that Prometheus reads; in the other form each is one
// line of the list.
func TestGaugesOfANameStandTogether(t *testing.T) {
	w := newWorld(t)
	text := string(w.must("GET", "/v1/metrics?format=prometheus", nil).body)
	want := `# TYPE berth_client_volume_age_seconds gauge
berth_client_volume_age_seconds{namespace="n",volume="d\"b"} 1
# TYPE berth_client_volume_used_bytes gauge
berth_client_volume_used_bytes{namespace="n",volume="d\"b"} 5
berth_client_volume_used_bytes{volume="web"} 7
`
	if !strings.Contains(text, want) {
		t.Errorf("the metrics are\n%s", text)
	}
	var list struct {
		Gauges []struct {
			Name   string
			Value  float64
			Labels map[string]string
		}
	}
	w.get("/v1/metrics", &list)
	found := 0
	for _, g := range list.Gauges {
		if g.Name == "berth.client.volume.used_bytes" && (g.Value == 5 && g.Labels["volume"] == `d"b` || g.Value == 7) {
			found++
		}
	}
	if found != 2 {
		t.Errorf("the metrics are %+v", list.Gauges)
	}
}

// TestTheUsageOfAVolumeThatDoesNotExist is that of none.
func TestTheUsageOfAVolumeThatDoesNotExist(t *testing.T) {
	w := newWorld(t)
	status, text := w.begin("GET", "/v1/volume/csi/none/usage")
	if status != 404 || !strings.Contains(text, "not found") {
		t.Errorf("%d %q", status, text)
	}
}
