package compat

import (
	"fmt"

	"github.com/hashicorp/nomad/api"
)

const found = `
job "found" {
  group "g" {
    network {
      port "http" {}
    }
    service {
      name     = "found"
      provider = "nomad"
      port     = "http"
      tags     = ["blue", "i${NOMAD_ALLOC_INDEX}"]
      check {
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
    }
  }
}
`

// servicesAreFound lists services as clients that route by them do, asks for some of the instances, reads what checks
// found, and takes a registration away.
func servicesAreFound(a *agent) {
	alloc := run(a, found)
	list, meta, err := a.Services().List(&api.QueryOptions{Namespace: "*"})
	a.ok(err)
	if len(list) != 1 || list[0].Namespace != "default" || len(list[0].Services) != 1 ||
		list[0].Services[0].ServiceName != "found" || fmt.Sprint(list[0].Services[0].Tags) != "[blue i0]" {
		a.t.Fatalf("listed are %+v", list)
	}
	if meta.LastIndex == 0 {
		a.t.Error("nobody could wait for a change")
	}
	all, _, err := a.Services().Get("found", nil)
	a.ok(err)
	port := alloc.AllocatedResources.Shared.Ports[0]
	if len(all) != 1 || all[0].AllocID != alloc.ID || all[0].JobID != "found" || all[0].Address != port.HostIP ||
		all[0].Port != port.Value || all[0].NodeID != alloc.NodeID || all[0].Datacenter != "dc1" {
		a.t.Fatalf("found is %+v", all)
	}
	chosen, _, err := a.Services().Get("found", &api.QueryOptions{Params: map[string]string{"choose": "1|me"}})
	a.ok(err)
	ofJob, _, err := a.Jobs().Services("found", nil)
	a.ok(err)
	ofAlloc, _, err := a.Allocations().Services(alloc.ID, nil)
	a.ok(err)
	none, _, err := a.Services().Get("found", &api.QueryOptions{Filter: `"green" in Tags`})
	a.ok(err)
	if len(chosen) != 1 || len(ofJob) != 1 || len(ofAlloc) != 1 || len(none) != 0 {
		a.t.Errorf("chosen %v, of the job %v, of the allocation %v, green %v", chosen, ofJob, ofAlloc, none)
	}
	a.eventually("a check to fail: nobody listens", func() error {
		checks, err := a.Allocations().Checks(alloc.ID, nil)
		if err != nil {
			return err
		}
		for id, c := range checks {
			if id == c.ID && c.Status == "failure" && c.Mode == "healthiness" && c.Service == "found" &&
				c.Group == alloc.Name && c.Timestamp > 0 {
				return nil
			}
		}
		return fmt.Errorf("the checks are %+v", checks)
	})
	_, err = a.Services().Delete("found", all[0].ID, nil)
	a.ok(err)
	_, err = a.Services().Delete("found", all[0].ID, nil)
	a.refused(err, "404 (")
	all, _, err = a.Services().Get("found", nil)
	a.ok(err)
	if len(all) != 0 {
		a.t.Errorf("it was taken away, and is found: %+v", all)
	}
	_, _, err = a.Jobs().Deregister("found", true, nil)
	a.ok(err)
}
