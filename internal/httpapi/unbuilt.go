package httpapi

import (
	"net/http"
	"strings"
)

// unbuilt are the paths of this API that answer that they are not built yet, with the way out where there is one. A
// path that is in no table does not exist: 404 without a body.
var unbuilt = []struct{ methods, path, what string }{
	{"PUT", "/v1/agent/join", "joining servers is not built yet: a server stands alone"},
	{"PUT", "/v1/agent/force-leave", "leaving servers are not built yet: a server stands alone"},
	{"GET", "/v1/agent/monitor/export", "exporting logs is not built yet: follow them with agent/monitor"},
	{"GET", "/v1/event/stream", "the event stream is not built yet: use blocking queries"},
	{"PUT", "/v1/node/{id}/drain", "draining is not built yet: make the node ineligible and stop its allocations one by one"},
	{"PUT", "/v1/node/{id}/purge", "purging nodes is not built yet: nodes that are down are forgotten by garbage collection"},
	{"PUT", "/v1/node/{id}/evaluate", "evaluating a node is not built yet: evaluate its jobs"},
	{"PUT", "/v1/job/{id}/revert", "reverting is not built yet: submit the older version again"},
	{"PUT", "/v1/job/{id}/stable", "stable versions are not built yet"},
	{"PUT", "/v1/job/{id}/dispatch", "dispatching is not built yet: register one job per set of parameters"},
	{"PUT", "/v1/job/{id}/periodic/force", "periodic jobs are not built yet: start the job from outside"},
	{"GET PUT", "/v1/job/{id}/scale", "scaling is not built yet: submit the job with another count"},
	{"GET", "/v1/job/{id}/action", "actions are not built yet: use alloc exec"},
	{"PUT DELETE", "/v1/job/{id}/versions/{tag}/tag", "version tags are not built yet"},
	{"GET PUT", "/v1/jobs/statuses", "job statuses for web pages are not built yet: list jobs and their allocations"},
	{"DELETE", "/v1/evaluations", "deleting evaluations is not built yet: garbage collection does it"},
	{"PUT", "/v1/deployment/promote/{id}", "deployments are not built yet"},
	{"PUT", "/v1/deployment/fail/{id}", "deployments are not built yet"},
	{"PUT", "/v1/deployment/pause/{id}", "deployments are not built yet"},
	{"PUT", "/v1/deployment/unblock/{id}", "deployments are not built yet"},
	{"PUT", "/v1/deployment/allocation-health/{id}", "deployments are not built yet"},
	{"GET PUT", "/v1/client/allocation/{id}/pause", "task schedules are not built yet"},
	{"GET PUT", "/v1/client/metadata", "changing a node's metadata is not built yet: set meta in the agent's configuration"},
	{"PUT", "/v1/volume/host/create", "dynamic host volumes are not built yet: use a CSI volume of the plugin local-csi"},
	{"PUT", "/v1/volume/host/register", "dynamic host volumes are not built yet: write host_volume in the agent's configuration"},
	{"DELETE", "/v1/volume/host/{id}", "dynamic host volumes are not built yet"},
	{"DELETE", "/v1/volumes/claim/{id}", "claims of sticky host volumes are not built yet"},
	{"DELETE", "/v1/operator/raft/peer", "removing servers is not built yet: a server stands alone"},
	{"PUT", "/v1/operator/raft/transfer-leadership", "moving the leadership is not built yet: a server stands alone"},
	{"GET PUT", "/v1/operator/snapshot", "snapshots of the state are not built yet: stop the agent and copy its data_dir"},
	{"GET PUT", "/v1/operator/scheduler/configuration", "configuring the scheduler is not built yet"},
	{"GET PUT", "/v1/operator/autopilot/configuration", "autopilot is not built yet"},
	{"GET", "/v1/operator/autopilot/health", "autopilot is not built yet"},
	{"PUT", "/v1/namespace", "writing namespaces is not built yet: there are default and berth"},
	{"PUT DELETE", "/v1/namespace/{name}", "writing namespaces is not built yet: there are default and berth"},
	{"GET PUT", "/v1/node/pools", "node pools are not built yet: every node is in the pool default"},
	{"GET", "/v1/vars", "variables are not built yet: pass values as job variables"},
	{"GET PUT DELETE", "/v1/var/{path...}", "variables are not built yet: pass values as job variables"},
	{"PUT", "/v1/search/fuzzy", "fuzzy search is not built yet: search by prefix"},
	{"GET", "/v1/services", "service discovery is not built yet"},
	{"GET", "/v1/service/{name}", "service discovery is not built yet"},
	{"GET", "/v1/scaling/policies", "scaling is not built yet"},
}

// enterprise are paths that the open edition of this API has always answered with one and the same text.
var enterprise = []string{"GET /v1/quotas", "GET /v1/quota-usages", "GET /v1/quota/{name}", "PUT /v1/quota", "DELETE /v1/quota/{name}", "GET /v1/sentinel/policies",
	"GET /v1/sentinel/policy/{name}", "PUT /v1/sentinel/policy/{name}", "DELETE /v1/sentinel/policy/{name}", "GET /v1/recommendations", "PUT /v1/recommendations/apply", "PUT /v1/operator/license"}

func unbuiltRoutes() (out []route) {
	refuse := func(method, path, text string) {
		out = append(out, route{method: method, path: path, handle: func(*Server, *request) (any, error) {
			return nil, &statusError{http.StatusNotImplemented, text}
		}})
	}
	for _, u := range unbuilt {
		for method := range strings.FieldsSeq(u.methods) {
			refuse(method, u.path, u.what)
		}
	}
	for _, e := range enterprise {
		method, path, _ := strings.Cut(e, " ")
		refuse(method, path, "Nomad Enterprise only endpoint")
	}
	return out
}
