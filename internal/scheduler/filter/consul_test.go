package filter_test

import (
	"testing"

	"berth/internal/model/consul"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/filter"
)

// TestWhatNeedsConsulIsPlacedWhereItIs: its services, and templates that read it; those of the servers run anywhere.
func TestWhatNeedsConsulIsPlacedWhereItIs(t *testing.T) {
	without, with := &node.Node{}, &node.Node{Attributes: map[string]string{consul.AttributeServices: "1"}}
	for provider, asks := range map[string]bool{job.ProviderConsul: true, job.ProviderServers: false} {
		g := &job.TaskGroup{Tasks: []*job.Task{{Services: []*job.Service{{Provider: provider}}}}}
		f := filter.Consul{}
		if f.Prepare(&filter.Request{Group: g}) != asks {
			t.Errorf("%s: asks is %v", provider, !asks)
		}
		if f.Check(without) != "missing consul" || f.Check(with) != "" {
			t.Errorf("refused by %q and %q", f.Check(without), f.Check(with))
		}
	}
	for text, asks := range map[string]bool{`{{ key "a" }}`: true, `{{ env "key" }}`: false} {
		g := &job.TaskGroup{Tasks: []*job.Task{{}, {Templates: []*job.Template{{EmbeddedTmpl: text}}}}}
		if (filter.Consul{}).Prepare(&filter.Request{Group: g}) != asks {
			t.Errorf("with the template %s asks is %v", text, !asks)
		}
	}
	if why, hint := (filter.Consul{}).Explain(without); why == "" || hint == "" {
		t.Error("nothing is said")
	}
}
