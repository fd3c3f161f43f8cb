package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"berth/api"
)

// Given a cluster of which nothing was said, when a client says how the servers keep themselves, then that holds, with
// its indexes; who has seen another one than the last changes nothing; and what is impossible, unknown or not Berth's
// is refused, and named.
func TestWhatIsSaidOfTheServersHoldsOrIsRefused(t *testing.T) {
	r := newRig(t)
	const path = "/v1/operator/autopilot/configuration"
	client, err := api.NewClient(api.Config{Address: r.url})
	if err != nil {
		t.Fatal(err)
	}
	c := client.Operator()
	cfg, err := c.AutopilotConfiguration(t.Context(), nil)
	want := api.AutopilotConfiguration{
		CleanupDeadServers:      true,
		LastContactThreshold:    "200ms",
		MaxTrailingLogs:         250,
		ServerStabilizationTime: "10s",
	}
	if err != nil || *cfg != want {
		t.Fatalf("%+v holds, %v", cfg, err)
	}
	cfg.MinQuorum, cfg.LastContactThreshold = 3, "1m30s"
	if holds, err := c.SetAutopilotConfiguration(t.Context(), cfg); !holds || err != nil {
		t.Fatalf("it holds: %t, %v", holds, err)
	}
	again := *cfg
	again.MinQuorum = 5
	if holds, err := c.SetAutopilotConfiguration(t.Context(), &again); holds || err != nil {
		t.Errorf("what was said by who has not seen the last holds: %t, %v", holds, err)
	}
	now, err := c.AutopilotConfiguration(t.Context(), nil)
	if err != nil || now.MinQuorum != 3 || now.LastContactThreshold != "1m30s" || now.ModifyIndex == 0 ||
		now.CreateIndex != now.ModifyIndex {
		t.Errorf("%+v holds, %v", now, err)
	}
	whole := `"LastContactThreshold":"1s","MaxTrailingLogs":9,"ServerStabilizationTime":"0s"`
	if a := r.must("PUT", path, `{`+whole+`}`); strings.TrimSpace(string(a.body)) != "true" || a.index(t) == 0 {
		t.Errorf("without an index it is answered with %q", a.body)
	}
	for body, says := range map[string]string{
		`{` + whole + `,"EnableRedundancyZones":true}`:                            "EnableRedundancyZones",
		`{` + whole + `,"DisableUpgradeMigration":true}`:                          "DisableUpgradeMigration",
		`{` + whole + `,"EnableCustomUpgrades":true}`:                             "EnableCustomUpgrades",
		`{` + whole + `,"Surprise":true}`:                                         "Surprise",
		`{` + whole + `,"MinQuorum":100}`:                                         "MinQuorum is 100",
		`{` + whole + `,"MinQuorum":-1}`:                                          "MinQuorum",
		`{"MaxTrailingLogs":9}`:                                                   "is not said",
		strings.Replace(`{`+whole+`}`, `"1s"`, `"soon"`, 1):                       `"soon" is no duration`,
		strings.Replace(`{`+whole+`}`, `"MaxTrailingLogs":9`, `"MinQuorum":1`, 1): "MaxTrailingLogs is 0",
	} {
		if a := r.try("PUT", path, body); a.status != http.StatusBadRequest && a.status != http.StatusNotImplemented ||
			!strings.Contains(string(a.body), says) {
			t.Errorf("%s: %d %q, want %q", body, a.status, a.body, says)
		}
	}
	if a := r.try("PUT", path+"?cas=soon", `{`+whole+`}`); a.status != http.StatusBadRequest ||
		!strings.Contains(string(a.body), `"soon" is no index`) {
		t.Errorf("%d %q", a.status, a.body)
	}
}
