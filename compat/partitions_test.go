package compat

import (
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// divided is the life of a node pool and of a namespace, up to its end with a job in it.
func divided(a *agent) {
	pools := a.NodePools()
	_, err := pools.Register(&api.NodePool{Name: "gpu", Description: "d", Meta: map[string]string{"k": "v"}}, nil)
	a.ok(err)
	p, _, err := pools.Info("gpu", nil)
	a.ok(err)
	_, err = pools.Register(p, nil) // as it was read
	a.ok(err)
	list, _, err := pools.PrefixList("g", nil)
	a.ok(err)
	if len(list) != 1 || p.Meta["k"] != "v" || p.NodeIdentityTTL != 0 || list[0].CreateIndex != p.CreateIndex {
		a.t.Errorf("pool %+v, listed %+v", p, list)
	}
	in, _, err := pools.ListNodes("gpu", nil)
	a.ok(err)
	all, _, err := pools.ListNodes("all", nil)
	a.ok(err)
	_, _, err = pools.ListJobs("default", nil)
	a.ok(err)
	if len(in) != 0 || len(all) != 1 {
		a.t.Errorf("%d nodes in the new pool, %d in all", len(in), len(all))
	}

	spaces := a.Namespaces()
	_, err = spaces.Register(&api.Namespace{
		Name:                  "shop",
		Capabilities:          &api.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}},
		NodePoolConfiguration: &api.NamespaceNodePoolConfiguration{Default: "gpu", Denied: []string{"test-*"}},
	}, nil)
	a.ok(err)
	n, _, err := spaces.Info("shop", nil)
	a.ok(err)
	n.Description = "the shop"
	_, err = spaces.Register(n, nil)
	a.ok(err)
	some, _, err := spaces.PrefixList("sh", nil)
	a.ok(err)
	if len(some) != 1 || some[0].Description != "the shop" || some[0].CreateIndex != n.CreateIndex ||
		!slices.Equal(some[0].NodePoolConfiguration.Denied, []string{"test-*"}) {
		a.t.Errorf("namespace %+v", some)
	}
	_, err = spaces.Register(&api.Namespace{Name: "quoted", Quota: "q"}, nil)
	a.refused(err, "Quota is not built")
	_, _, err = spaces.Info("none", nil)
	a.refused(err, "404 (Namespace not found)")
	_, err = spaces.Delete("none", nil)
	a.refused(err, "500 (namespace not found)")
	_, err = spaces.Delete("default", nil)
	a.refused(err, "every cluster has it")

	j := api.NewBatchJob("stock", "stock", "global", 50)
	task := api.NewTask("t", "raw_exec")
	task.Config = map[string]any{"command": "/bin/true"}
	j.AddTaskGroup(api.NewTaskGroup("g", 1).AddTask(task))
	in2 := &api.WriteOptions{Namespace: "shop"}
	_, _, err = a.Jobs().Register(j, in2)
	a.refused(err, `driver "raw_exec" is not allowed in namespace "shop"`)
	task.Driver = "exec"
	_, _, err = a.Jobs().Register(j, in2)
	a.ok(err)
	stored, _, err := a.Jobs().Info("stock", &api.QueryOptions{Namespace: "shop"})
	a.ok(err)
	if *stored.NodePool != "gpu" {
		a.t.Errorf("the job is in pool %q", *stored.NodePool)
	}
	_, err = spaces.Delete("shop", nil)
	a.refused(err, "has non-terminal jobs") // by which the Terraform provider tries again
	_, err = pools.Delete("gpu", nil)
	a.refused(err, "has non-terminal jobs")
	_, _, err = a.Jobs().Deregister("stock", true, in2)
	a.ok(err)
	for {
		if _, err = spaces.Delete("shop", nil); err == nil || !strings.Contains(err.Error(), "has non-terminal jobs") {
			break
		}
	}
	a.ok(err)
	_, err = pools.Delete("gpu", nil)
	a.ok(err)
	_, _, err = pools.Info("gpu", nil)
	a.refused(err, "404 (node pool not found)")
}
