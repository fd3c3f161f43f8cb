package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"berth/api"
)

// servers answers about two servers, of which one does not answer.
func (f *fake) servers(path string) any {
	if path == "operator/raft/configuration" {
		return &api.RaftConfiguration{Servers: []*api.RaftServer{{
			ID:           "ash.global",
			Node:         "ash.global",
			Address:      "10.0.0.1:4647",
			Leader:       true,
			Voter:        true,
			RaftProtocol: "3",
		}, {
			ID:           "oak.global",
			Node:         "oak.global",
			Address:      "10.0.0.2:4647",
			RaftProtocol: "3",
		}}}
	}
	return &api.AutopilotHealth{
		FailureTolerance: 0,
		Leader:           "ash.global",
		Servers: []*api.ServerHealth{{
			ID:          "ash.global",
			Name:        "ash.global",
			Address:     "10.0.0.1:4647",
			SerfStatus:  "alive",
			Version:     "9",
			Leader:      true,
			LastContact: "0s",
			LastTerm:    2,
			LastIndex:   71,
			Healthy:     true,
			Voter:       true,
			StableSince: f.now.Add(-time.Hour),
		}, {
			ID:          "oak.global",
			Name:        "oak.global",
			Address:     "10.0.0.2:4647",
			SerfStatus:  "failed",
			LastContact: "40s",
			Voter:       true,
			Reason:      "its log does not answer",
		}},
	}
}

// changeServers takes the word about a server that there is.
func (f *fake) changeServers(path string, r *http.Request) (any, error) {
	name := r.URL.Query().Get("id") + r.URL.Query().Get("node")
	if name != "" && name != "oak.global" && !strings.HasPrefix(path, "agent/") {
		return nil, &refusal{500, `id "` + name + `" was not found in the Raft configuration`}
	}
	if addr := r.URL.Query().Get("address"); addr != "" && addr != "10.0.0.2:4647" {
		return nil, &refusal{500, `address "` + addr + `" was not found in the Raft configuration`}
	}
	return nil, nil
}

// autopilot is how the servers keep themselves.
func (f *fake) autopilot() *api.AutopilotConfiguration {
	return &api.AutopilotConfiguration{
		CleanupDeadServers:      true,
		LastContactThreshold:    "200ms",
		MaxTrailingLogs:         250,
		ServerStabilizationTime: "10s",
		ModifyIndex:             7,
	}
}

// setAutopilot takes what is written where the last was seen.
func (f *fake) setAutopilot(body []byte, r *http.Request) (any, error) {
	var in api.AutopilotConfiguration
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, &refusal{400, err.Error()}
	}
	if r.URL.Query().Get("cas") != "7" {
		return nil, &refusal{400, "the index is not that which was read"}
	}
	if in.MinQuorum == 9 {
		return false, nil // somebody was faster
	}
	want := *f.autopilot()
	want.MinQuorum = 3
	if in != want {
		return nil, &refusal{400, fmt.Sprintf("%+v was written", in)}
	}
	return true, nil
}
