package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"

	"berth/api"
)

// partitions answers about namespaces and node pools; false: the path is about neither. What is written stays for the
// one command that the fake is made for.
func (f *fake) partitions(method, path string, body []byte) (out any, is bool, err error) {
	shop := &api.Namespace{
		Name:                  "shop",
		Description:           "the shop",
		Meta:                  map[string]string{"owner": "me"},
		Capabilities:          &api.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}},
		NodePoolConfiguration: &api.NamespaceNodePoolConfiguration{Default: "gpu", Allowed: []string{}},
		CreateIndex:           11,
		ModifyIndex:           12,
	}
	gpu := &api.NodePool{Name: "gpu", Description: "with accelerators", Meta: map[string]string{"owner": "me"}}
	switch {
	case path == "namespaces":
		out = []*api.Namespace{{Name: "default", Description: "Default"}, shop}
	case method == http.MethodPut && path == "namespace":
		f.wrote = &api.Namespace{}
		err = json.Unmarshal(body, f.wrote)
	case path == "namespace/shop" && method == http.MethodDelete:
		err = &refusal{500, `delete namespace "shop": it has non-terminal jobs: web (stop them: berth job stop ` +
			`-namespace shop web)`}
	case path == "namespace/shop" && f.wrote != nil:
		out = f.wrote
	case path == "namespace/shop":
		out = shop
	case path == "namespace/old" && method == http.MethodDelete, path == "node/pool/gpu" && method == http.MethodDelete:
	case strings.HasPrefix(path, "namespace/"):
		err = &refusal{404, "Namespace not found"}
	case path == "node/pools" && method == http.MethodPut:
	case path == "node/pools":
		out = []*api.NodePool{{Name: "all", Description: "all nodes"}, gpu}
	case path == "node/pool/gpu":
		out = gpu
	case path == "node/pool/gpu/nodes":
		out = []*api.NodeListStub{{
			ID:                    nodeA,
			Name:                  "ash",
			Datacenter:            "dc1",
			SchedulingEligibility: "eligible",
			Status:                "ready",
		}}
	case path == "node/pool/gpu/jobs":
		out = []*api.JobListStub{{ID: "web", Namespace: "shop", Type: "service", Status: "running"}}
	case strings.HasPrefix(path, "node/pool/"):
		err = &refusal{404, "node pool not found"}
	default:
		return nil, false, nil
	}
	return out, true, err
}
