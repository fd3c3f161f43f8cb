package measures_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/internal/agent/measures"
	"berth/internal/client/remote"
	"berth/internal/model/alloc"
	"berth/internal/port/driver"
)

// TestTheNumbersOfATaskAreItsOwn: given what a task uses, then each number has its name, in its unit, and all say whose
// they are.
func TestTheNumbersOfATaskAreItsOwn(t *testing.T) {
	got, want := map[string]float64{}, map[string]float64{
		"berth.client.task.memory_bytes":         1,
		"berth.client.task.memory_rss_bytes":     2,
		"berth.client.task.memory_max_bytes":     3,
		"berth.client.task.cpu_seconds":          5,
		"berth.client.task.throttled_seconds":    6,
		"berth.client.task.processes":            7,
		"nomad.client.allocs.memory.usage":       1,
		"nomad.client.allocs.memory.rss":         2,
		"nomad.client.allocs.memory.max_usage":   3,
		"nomad.client.allocs.memory.cache":       4,
		"nomad.client.allocs.cpu.throttled_time": 6e9,
	}
	labels := map[string]string{
		"namespace":  "n",
		"job":        "j",
		"task_group": "g",
		"alloc_id":   "a",
		"task":       "t",
		"node_id":    "node",
	}
	for _, g := range measures.Tasks("node", []remote.TaskUse{{
		Alloc: &alloc.Alloc{ID: "a", Namespace: "n", Job: "j", TaskGroup: "g"},
		Task:  "t",
		Stats: driver.Stats{
			MemoryUsage:    1,
			MemoryRSS:      2,
			MemoryMax:      3,
			MemoryCache:    4,
			CPUNanos:       5e9,
			ThrottledNanos: 6e9,
			PIDs:           7,
		},
	}}) {
		got[g.Name] = g.Value
		if !maps.Equal(g.Labels, labels) {
			t.Errorf("%s is of %v", g.Name, g.Labels)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
