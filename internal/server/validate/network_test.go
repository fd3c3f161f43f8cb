package validate

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/network"
	"berth/internal/server/state"
)

// Given networks that nobody can make, and such as an older server of the cluster would not know the record of, then
// they are refused by the name of job and group; those that every server knows are not.
func TestNetworksAreJudgedBeforeTheyAreRecorded(t *testing.T) {
	at := func(schema uint64) *state.Snap {
		store := state.New()
		if err := store.Write(state.Stamp{Index: 1}, func(tx *state.Tx) error {
			tx.PutMeta(&state.Meta{Schema: schema})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return store.Snapshot()
	}
	of := func(n *job.NetworkResource) *job.Job {
		return &job.Job{Namespace: ids.DefaultNamespace, ID: "web", TaskGroups: []*job.TaskGroup{
			{Name: "g", Networks: []*job.NetworkResource{n}},
		}}
	}
	for what, c := range map[string]struct {
		net     job.NetworkResource
		refusal string
	}{
		"another mode":   {job.NetworkResource{Mode: "brigde"}, `mode "brigde" is none; there are host, bridge, none`},
		"no network":     {job.NetworkResource{Mode: "cni/../x"}, `mode "cni/../x" names no network`},
		"one of plugins": {job.NetworkResource{Mode: "cni/lab", CNI: &job.CNI{Args: map[string]string{"A": "b"}}}, ""},
		"args of two": {job.NetworkResource{Mode: "cni/lab", CNI: &job.CNI{Args: map[string]string{"A": "b;C=d"}}},
			"neither name nor value may have ;"},
		"args of none": {job.NetworkResource{Mode: "bridge", CNI: &job.CNI{}}, "cni is of networks of mode cni/NAME"},
		"a port of several": {job.NetworkResource{Mode: "host",
			ReservedPorts: []job.Port{{Label: "web", Value: 80, IgnoreCollision: true}}}, ""},
		"one that nobody knows": {job.NetworkResource{Mode: "host",
			DynamicPorts: []job.Port{{Label: "web", IgnoreCollision: true}}}, `port "web": ignore_collision is for`},
		"a bridge's of several": {job.NetworkResource{Mode: "bridge",
			ReservedPorts: []job.Port{{Label: "web", Value: 80, IgnoreCollision: true}}}, "on the host's network"},
		"a bad resolver": {job.NetworkResource{Mode: "bridge", DNS: &job.DNS{Servers: []string{"x"}}}, "no IP address"},
		"a long name":    {job.NetworkResource{Hostname: strings.Repeat("a", job.MaxExpanded+1)}, "is too long"},
		"mode bridge":    {job.NetworkResource{Mode: "bridge"}, ""},
		"the node's own": {job.NetworkResource{Mode: "host"}, ""},
	} {
		errs := networked(at(network.Schema), of(&c.net))
		switch {
		case c.refusal == "" && len(errs) > 0:
			t.Errorf("%s: %v", what, errs)
		case c.refusal != "" && (len(errs) != 1 || !fault.Has(errs[0], fault.Invalid) ||
			!strings.Contains(errs[0].Error(), `job "web": group "g"`) ||
			!strings.Contains(errs[0].Error(), c.refusal)):
			t.Errorf("%s: %v, want %q", what, errs, c.refusal)
		}
	}
	older := at(network.Schema - 1)
	for what, n := range map[string]*job.NetworkResource{
		"mode bridge":    {Mode: "bridge"},
		"a name":         {Mode: "host", Hostname: "web"},
		"a host network": {Mode: "host", DynamicPorts: []job.Port{{Label: "p", HostNetwork: "lan"}}},
	} {
		if errs := networked(older, of(n)); len(errs) != 1 || !fault.Has(errs[0], fault.Unsupported) {
			t.Errorf("beside an older server, %s: %v", what, errs)
		}
	}
	plain := &job.NetworkResource{Mode: "host", ReservedPorts: []job.Port{{Label: "p", Value: 80, To: -1}}}
	if errs := networked(older, of(plain)); len(errs) > 0 {
		t.Errorf("what every server knows: %v", errs)
	}
}
