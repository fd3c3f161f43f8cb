package httpapi_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"berth/internal/httpapi/access"
	"berth/internal/httpapi/bodies"
)

// TestGaugesOfANameStandTogether: with their labels, in the form that Prometheus reads; in the other form each is one
// line of the list.
func TestGaugesOfANameStandTogether(t *testing.T) {
	w := newWorld(t)
	text := string(w.must("GET", "/v1/metrics?format=prometheus", nil).body)
	want := `# HELP berth_client_volume_age_seconds Seconds since the volume was measured on the node.
# TYPE berth_client_volume_age_seconds gauge
berth_client_volume_age_seconds{namespace="n",volume="d\"b"} 1
# HELP berth_client_volume_used_bytes Bytes of the volume that are used.
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

// Given jobs, allocations, volumes and plugins, then the metrics count them under names of our own and under those that
// readers of this API's metrics know, each with a help.
func TestWhatThereIsIsCounted(t *testing.T) {
	w := newWorld(t)
	text := string(w.must("GET", "/v1/metrics?format=prometheus", nil).body)
	for _, want := range []string{
		`nomad_nomad_job_summary_running{job="web",namespace="default",task_group="g"} 1`,
		`nomad_nomad_job_summary_queued{job="huge",namespace="default",task_group="g"} 1`,
		`berth_job_allocs{job="fails",namespace="default",state="failed",task_group="g"} 1`,
		`nomad_nomad_blocked_evals_total_blocked 1`,
		`berth_evals_count{status="blocked"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	for _, want := range []string{
		"nomad_nomad_job_status_running ", "berth_jobs_count{", "nomad_client_allocations_running{",
		"berth_client_allocs{", "nomad_client_allocated_memory{", "nomad_client_unallocated_cpu{",
		"berth_volumes_count{", "berth_volumes_capacity_bytes{", "berth_plugins_healthy{",
		"berth_plugins_expected{", "berth_claims_count{",
		"berth_client_orphans{",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("nothing is counted by %s", want)
		}
	}
	name := ""
	for line := range strings.Lines(text) {
		if help, is := strings.CutPrefix(line, "# HELP "); is {
			name, help, _ = strings.Cut(help, " ")
			if len(help) < 10 {
				t.Errorf("%s has no help", name)
			}
		} else if !strings.Contains(line, name) {
			t.Errorf("a line stands under the help of %s: %s", name, line)
		}
	}
}

// TestWhatWasRefusedIsCounted: by both families of names, requests by their answers, and entries by the log's word.
func TestWhatWasRefusedIsCounted(t *testing.T) {
	r := newRig(t)
	h := r.handler.Handler(access.Network{})
	for _, ends := range []error{&bodies.TooMany{MiB: 64, OfAClient: true}, &bodies.TooMany{MiB: 64, OfAClient: true},
		&bodies.TooMany{MiB: 128}, errors.New("it broke")} {
		h.ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequest(http.MethodPut, "http://localhost/v1/jobs", iotest.ErrReader(ends)))
	}
	text := string(r.must("GET", "/v1/metrics?format=prometheus", nil).body)
	for _, want := range []string{`http_requests_refused{status="429"} 2`, `http_requests_refused{status="503"} 1`,
		"raft_refused_disk_full 0"} {
		for _, family := range []string{"berth_", "nomad_"} {
			if !strings.Contains(text, "\n"+family+want+"\n") {
				t.Errorf("no line %s%s", family, want)
			}
		}
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
