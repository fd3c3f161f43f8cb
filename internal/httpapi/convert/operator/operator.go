// Package operator owns the public forms of what operators ask about a cluster as a whole: whether the agent is well,
// how the scheduler works, and how the servers keep themselves. Only package httpapi imports it.
package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/model/autopilot"
	"berth/internal/wire"
)

// Health shows how the halves of an agent are, or the one that is asked for; well: all that are shown are.
func Health(halves map[string]error, only string) (out *api.AgentHealthResponse, well bool) {
	out, well = &api.AgentHealthResponse{}, true
	for half, err := range halves {
		if only != "" && only != half {
			continue
		}
		h := &api.AgentHealth{Ok: err == nil, Message: "ok"}
		if err != nil {
			h.Message, well = err.Error(), false
		}
		if half == "server" {
			out.Server = h
		} else {
			out.Client = h
		}
	}
	return out, well
}

// Scheduler describes how the scheduler works; it cannot be changed. Nodes honour memory_max, up to what their
// operators allow.
func Scheduler() *api.SchedulerConfigurationResponse {
	return &api.SchedulerConfigurationResponse{
		SchedulerConfig: &api.SchedulerConfiguration{
			SchedulerAlgorithm:            "binpack",
			MemoryOversubscriptionEnabled: true,
			CreateIndex:                   1,
			ModifyIndex:                   1,
		},
		QueryMeta: api.QueryMeta{Index: 1, KnownLeader: true},
	}
}

// Autopilot is the public form of how the servers keep themselves.
func Autopilot(c *autopilot.Config) *api.AutopilotConfiguration {
	return &api.AutopilotConfiguration{
		CleanupDeadServers:      c.CleanupDead,
		LastContactThreshold:    c.LastContact.String(),
		MaxTrailingLogs:         c.MaxTrailing,
		MinQuorum:               c.MinQuorum,
		ServerStabilizationTime: c.Stabilization.String(),
		CreateIndex:             c.CreateIndex,
		ModifyIndex:             c.ModifyIndex,
	}
}

// ToAutopilot reads a whole configuration that by writes. cas is the index of the last one that he has seen, if not
// empty. What Berth has nothing of is refused, and so is what nobody knows.
func ToAutopilot(body []byte, cas, by string) (*wire.AutopilotPutRequest, error) {
	var in api.AutopilotConfiguration
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return nil, refuse("its text", err.Error(), "see docs/reference/api.md")
	}
	for name, set := range map[string]bool{
		"EnableRedundancyZones":   in.EnableRedundancyZones,
		"DisableUpgradeMigration": in.DisableUpgradeMigration,
		"EnableCustomUpgrades":    in.EnableCustomUpgrades,
	} {
		if set {
			return nil, refuse(name, "Berth has no zones of servers, and moves no votes for an upgrade",
				"leave it out, or false")
		}
	}
	out := &wire.AutopilotPutRequest{
		Config: autopilot.Config{
			CleanupDead: in.CleanupDeadServers,
			MaxTrailing: in.MaxTrailingLogs,
			MinQuorum:   in.MinQuorum,
		},
		By: by,
	}
	var err error
	if out.Config.LastContact, err = duration("LastContactThreshold", in.LastContactThreshold); err != nil {
		return nil, err
	}
	if out.Config.Stabilization, err = duration("ServerStabilizationTime", in.ServerStabilizationTime); err != nil {
		return nil, err
	}
	if cas != "" {
		out.Checked = true
		if out.Last, err = strconv.ParseUint(cas, 10, 64); err != nil {
			return nil, refuse("cas", fmt.Sprintf("%q is no index", cas), "write the ModifyIndex that was read")
		}
	}
	return out, nil
}

func duration(what, text string) (time.Duration, error) {
	if text == "" {
		return 0, refuse(what, "it is not said: a configuration is written as a whole",
			"read it first, and change what is to change")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, refuse(what, fmt.Sprintf("%q is no duration", text), `write it like "10s"`)
	}
	return d, nil
}

func refuse(what, why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "configure autopilot by", what, why), hint)
}

// AutopilotSet is the answer to who wrote: whether it holds.
func AutopilotSet(out *wire.AutopilotPutReply) (index uint64, holds any) { return out.Index, out.Holds }
