package partition_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/partition"
)

// Given a namespace that says which drivers and network modes its jobs may use, when one is asked for, then what is
// disabled is refused even if it is enabled, and a list of what is enabled excludes the rest.
func TestWhatJobsOfANamespaceMayUse(t *testing.T) {
	only := &partition.Namespace{Capabilities: &partition.Capabilities{
		EnabledDrivers:       []string{"exec", "docker"},
		DisabledDrivers:      []string{"docker"},
		DisabledNetworkModes: []string{"host"},
	}}
	free := &partition.Namespace{}
	for _, c := range []struct {
		of   *partition.Namespace
		name string
		want bool
	}{
		{only, "exec", true}, {only, "docker", false}, {only, "raw_exec", false}, {free, "raw_exec", true},
		{&partition.Namespace{Capabilities: &partition.Capabilities{}}, "raw_exec", true},
	} {
		if got := c.of.AllowsDriver(c.name); got != c.want {
			t.Errorf("driver %s: %v, want %v", c.name, got, c.want)
		}
	}
	for mode, want := range map[string]bool{"host": false, "": false, "bridge": true} {
		if got := only.AllowsNetworkMode(mode); got != want {
			t.Errorf("network mode %q: %v, want %v", mode, got, want)
		}
	}
	if !free.AllowsNetworkMode("host") {
		t.Error("a namespace without capabilities refuses a mode")
	}
}

// Given rules for node pools, when a job names one or none, then the pool of the job and whether it is allowed follow:
// the default is, and the pool of all nodes is no way around what is denied.
func TestWhichNodePoolsJobsOfANamespaceMayRunIn(t *testing.T) {
	none := []string{}
	for i, c := range []struct {
		rules    *partition.PoolRules
		named    string
		pool     string
		allowed  bool
		saysAlso string
	}{
		{nil, "", "default", true, ""},
		{nil, "gpu", "gpu", true, ""},
		{&partition.PoolRules{Default: "gpu"}, "", "gpu", true, ""},
		{&partition.PoolRules{Default: "gpu"}, "other", "other", true, ""},
		{&partition.PoolRules{Default: "gpu"}, "all", "all", true, ""},
		{&partition.PoolRules{Default: "gpu", Allowed: none}, "default", "default", false, "allowed are gpu"},
		{&partition.PoolRules{Default: "gpu", Allowed: none}, "", "gpu", true, ""},
		{&partition.PoolRules{Allowed: []string{"gpu-*"}}, "gpu-1", "gpu-1", true, ""},
		{&partition.PoolRules{Allowed: []string{"gpu-*"}}, "", "default", true, ""},
		{&partition.PoolRules{Allowed: []string{"gpu-*"}}, "cpu", "cpu", false, "allowed are default, gpu-*"},
		{&partition.PoolRules{Allowed: []string{"a*"}}, "all", "all", false, ""},
		{&partition.PoolRules{Allowed: []string{"*"}}, "all", "all", true, ""},
		{&partition.PoolRules{Allowed: []string{"all"}}, "all", "all", true, ""},
		{&partition.PoolRules{Denied: []string{"gpu*"}}, "gpu-1", "gpu-1", false, "denied are gpu*, all"},
		{&partition.PoolRules{Denied: []string{"gpu*"}}, "cpu", "cpu", true, ""},
		{&partition.PoolRules{Denied: []string{"gpu*"}}, "all", "all", false, ""},
	} {
		n := &partition.Namespace{Name: "app", Pools: c.rules}
		pool := n.Pool(c.named)
		if pool != c.pool || n.AllowsPool(pool) != c.allowed {
			t.Errorf("%d: %+v, named %q: pool %q allowed %v, want %q %v", i, c.rules, c.named, pool, n.AllowsPool(pool),
				c.pool, c.allowed)
		}
		if c.saysAlso != "" && n.AllowedPools() != c.saysAlso {
			t.Errorf("%d: it says %q, want %q", i, n.AllowedPools(), c.saysAlso)
		}
	}
}

// Given what somebody writes, when it is checked, then what is wrong is refused with its reason, and all that is wrong
// is said at once.
func TestWhatIsRefusedOfANamespace(t *testing.T) {
	many := map[string]string{}
	for i := range 101 {
		many[fmt.Sprint(i)] = ""
	}
	for want, n := range map[string]*partition.Namespace{
		"its name: ":              {Name: "a/b"},
		"nobody changes it":       {Name: ids.ReservedNamespace},
		"its description has 257": {Name: "a", Description: strings.Repeat("é", 257)},
		"its meta has 101":        {Name: "a", Meta: many},
		"an entry without a key":  {Name: "a", Meta: map[string]string{"": "x"}},
		"of 16385 bytes together": {Name: "a", Meta: map[string]string{"k": strings.Repeat("x", 16384)}},
		`its enabled_task_drivers has "": it is empty`: {
			Name:         "a",
			Capabilities: &partition.Capabilities{EnabledDrivers: []string{""}},
		},
		"write one of the lists": {
			Name:  "a",
			Pools: &partition.PoolRules{Allowed: []string{"x"}, Denied: []string{"y"}},
		},
		`default node pool "x" is denied`: {
			Name:  "a",
			Pools: &partition.PoolRules{Default: "x", Denied: []string{"*"}},
		},
		`default node pool is "all"`: {
			Name:  "a",
			Pools: &partition.PoolRules{Default: "all", Denied: []string{"gpu"}},
		},
		`its denied has "a[b"`: {Name: "a", Pools: &partition.PoolRules{Denied: []string{"a[b"}}},
	} {
		err := n.Validate()
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", n, err, want)
		}
	}
	both := &partition.Namespace{Name: "a/b", Description: strings.Repeat("x", 300)}
	if text := both.Validate().Error(); strings.Count(text, "\n") != 1 {
		t.Errorf("not all is said: %q", text)
	}
	good := &partition.Namespace{
		Name:  "app-1",
		Meta:  map[string]string{"owner": "shop"},
		Pools: &partition.PoolRules{Default: "gpu", Allowed: []string{"*-1", "gpu"}},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// Given the pool that somebody writes or a node names, when it is checked, then the pool of all nodes is refused.
func TestWhatIsRefusedOfANodePool(t *testing.T) {
	for want, err := range map[string]error{
		"nobody changes it":       (&partition.NodePool{Name: "all"}).Validate(),
		"its name: ":              (&partition.NodePool{Name: "a b"}).Validate(),
		"without saying so":       partition.OfNode("all"),
		`accept node pool "../x"`: partition.OfNode("../x"),
	} {
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, err := range []error{(&partition.NodePool{Name: "default"}).Validate(), partition.OfNode("gpu")} {
		if err != nil {
			t.Error(err)
		}
	}
}
