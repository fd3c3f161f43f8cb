package autopilot_test

import (
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/model/autopilot"
)

// TestWhatNoClusterCanBeKeptByIsRefused: each bound, on both of its sides.
func TestWhatNoClusterCanBeKeptByIsRefused(t *testing.T) {
	if err := autopilot.Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		says   string // empty: it is good
		change func(*autopilot.Config)
	}{
		{"LastContactThreshold is 9ms", func(c *autopilot.Config) { c.LastContact = 9 * time.Millisecond }},
		{"", func(c *autopilot.Config) { c.LastContact = autopilot.ShortestContact }},
		{"", func(c *autopilot.Config) { c.LastContact = autopilot.LongestContact }},
		{"LastContactThreshold", func(c *autopilot.Config) { c.LastContact = autopilot.LongestContact + 1 }},
		{"ServerStabilizationTime is -1ns", func(c *autopilot.Config) { c.Stabilization = -1 }},
		{"", func(c *autopilot.Config) { c.Stabilization = 0 }},
		{"ServerStabilizationTime", func(c *autopilot.Config) { c.Stabilization = autopilot.Longest + 1 }},
		{"MaxTrailingLogs is 0", func(c *autopilot.Config) { c.MaxTrailing = 0 }},
		{"MaxTrailingLogs", func(c *autopilot.Config) { c.MaxTrailing = autopilot.MostTrailing + 1 }},
		{"", func(c *autopilot.Config) { c.MinQuorum = autopilot.MostServers }},
		{"MinQuorum is 100", func(c *autopilot.Config) { c.MinQuorum = autopilot.MostServers + 1 }},
	} {
		cfg := autopilot.Default()
		c.change(cfg)
		err := cfg.Validate()
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%+v: %v", cfg, err)
		case c.says != "" && (!fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%+v: %v, want %q", cfg, err, c.says)
		}
	}
}

func TestAServerIsWellWithinBothBounds(t *testing.T) {
	c := autopilot.Default()
	for _, s := range []struct {
		contact  time.Duration
		trailing uint64
		says     string
	}{
		{c.LastContact, c.MaxTrailing, ""},
		{c.LastContact + time.Millisecond, 0, "answered 201ms ago"},
		{0, c.MaxTrailing + 1, "lacks 251 entries"},
	} {
		if why := c.Unwell(s.contact, s.trailing); (why == "") != (s.says == "") || !strings.Contains(why, s.says) {
			t.Errorf("%s, %d: %q, want %q", s.contact, s.trailing, why, s.says)
		}
	}
}
