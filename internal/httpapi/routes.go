package httpapi

import "net/http"

const (
	get = http.MethodGet
	put = http.MethodPut
	del = http.MethodDelete
)

// routes is the one route table. POST is taken wherever PUT is.
var routes = []route{
	{method: get, path: "/v1/agent/self", handle: (*Server).agentSelf},
	{method: get, path: "/v1/agent/members", handle: (*Server).agentMembers},
	{method: get, path: "/v1/agent/health", handle: (*Server).agentHealth},
	{method: get, path: "/v1/agent/monitor", stream: (*Server).monitor},
	{method: get, path: "/v1/status/leader", handle: (*Server).leader},
	{method: get, path: "/v1/status/peers", handle: (*Server).peers},
	{method: get, path: "/v1/regions", handle: (*Server).regions},
	{method: put, path: "/v1/search", handle: (*Server).search},
	{method: put, path: "/v1/system/gc", handle: (*Server).systemGC},
	{method: put, path: "/v1/acl/bootstrap", handle: (*Server).aclOff},
	{method: get, path: "/v1/acl/tokens", handle: (*Server).aclOff},
	{method: get, path: "/v1/acl/token/self", handle: (*Server).aclOff},
	{method: get, path: "/v1/acl/policies", handle: (*Server).aclOff},
	{method: get, path: "/v1/namespaces", handle: (*Server).namespaceList},
	{method: get, path: "/v1/namespace/{name}", handle: (*Server).namespaceGet},

	{method: get, path: "/v1/nodes", handle: (*Server).nodeList},
	{method: get, path: "/v1/node/{id}", handle: (*Server).nodeGet},
	{method: get, path: "/v1/node/{id}/allocations", handle: (*Server).nodeAllocs},
	{method: put, path: "/v1/node/{id}/eligibility", handle: (*Server).nodeEligibility},
	{method: get, path: "/v1/client/stats", handle: (*Server).hostStats},

	{method: get, path: "/v1/jobs", handle: (*Server).jobList},
	{method: put, path: "/v1/jobs", handle: (*Server).jobRegister},
	{method: put, path: "/v1/jobs/parse", handle: (*Server).jobParse},
	{method: get, path: "/v1/job/{id}", handle: (*Server).jobGet},
	{method: put, path: "/v1/job/{id}", handle: (*Server).jobRegister},
	{method: del, path: "/v1/job/{id}", handle: (*Server).jobDeregister},
	{method: put, path: "/v1/job/{id}/plan", handle: (*Server).jobPlan},
	{method: put, path: "/v1/job/{id}/evaluate", handle: (*Server).jobEvaluate},
	{method: get, path: "/v1/job/{id}/allocations", handle: (*Server).jobAllocs},
	{method: get, path: "/v1/job/{id}/evaluations", handle: (*Server).jobEvals},
	{method: get, path: "/v1/job/{id}/deployment", handle: (*Server).jobDeployment},
	{method: get, path: "/v1/job/{id}/deployments", handle: (*Server).jobDeployments},
	{method: get, path: "/v1/job/{id}/summary", handle: (*Server).jobSummary},
	{method: get, path: "/v1/job/{id}/versions", handle: (*Server).jobVersions},
	{method: get, path: "/v1/job/{id}/submission", handle: (*Server).jobSubmission},
	{method: put, path: "/v1/validate/job", handle: (*Server).jobValidate},

	{method: get, path: "/v1/evaluations", handle: (*Server).evalList},
	{method: get, path: "/v1/evaluation/{id}", handle: (*Server).evalGet},
	{method: get, path: "/v1/evaluation/{id}/allocations", handle: (*Server).evalAllocs},
	{method: get, path: "/v1/deployments", handle: (*Server).deployments},
	{method: get, path: "/v1/deployment/{id}", handle: (*Server).deployment},
	{method: get, path: "/v1/allocations", handle: (*Server).allocList},
	{method: get, path: "/v1/allocation/{id}", handle: (*Server).allocGet},
	{method: put, path: "/v1/allocation/{id}/stop", handle: (*Server).allocStop},

	{method: get, path: "/v1/client/allocation/{id}/stats", handle: (*Server).runStats},
	{method: get, path: "/v1/client/allocation/{id}/checks", handle: (*Server).runChecks},
	{method: put, path: "/v1/client/allocation/{id}/restart", handle: (*Server).runRestart},
	{method: put, path: "/v1/client/allocation/{id}/signal", handle: (*Server).runSignal},
	{method: get, path: "/v1/client/allocation/{id}/exec", stream: (*Server).exec},
	{method: get, path: "/v1/client/fs/ls/{id}", handle: (*Server).fsList},
	{method: get, path: "/v1/client/fs/stat/{id}", handle: (*Server).fsStat},
	{method: get, path: "/v1/client/fs/cat/{id}", stream: (*Server).fsCat},
	{method: get, path: "/v1/client/fs/readat/{id}", stream: (*Server).fsReadAt},
	{method: get, path: "/v1/client/fs/stream/{id}", stream: (*Server).fsStream},
	{method: get, path: "/v1/client/fs/logs/{id}", stream: (*Server).fsLogs},

	{method: get, path: "/v1/volumes", handle: (*Server).volumeList},
	{method: get, path: "/v1/volumes/external", handle: (*Server).volumesExternal},
	{method: get, path: "/v1/volumes/claims", handle: (*Server).volumeClaims},
	{method: put, path: "/v1/volumes/snapshot", handle: (*Server).snapshotCreate},
	{method: get, path: "/v1/volumes/snapshot", handle: (*Server).snapshotList},
	{method: del, path: "/v1/volumes/snapshot", handle: (*Server).snapshotDelete},
	{method: get, path: "/v1/volume/csi/{id}", handle: (*Server).volumeGet},
	{method: put, path: "/v1/volume/csi/{id}", handle: (*Server).volumeRegister},
	{method: del, path: "/v1/volume/csi/{id}", handle: (*Server).volumeDeregister},
	{method: put, path: "/v1/volume/csi/{id}/create", handle: (*Server).volumeCreate},
	{method: put, path: "/v1/volume/csi/{id}/expand", handle: (*Server).volumeExpand},
	{method: del, path: "/v1/volume/csi/{id}/delete", handle: (*Server).volumeDelete},
	{method: del, path: "/v1/volume/csi/{id}/detach", handle: (*Server).volumeDetach},
	{method: get, path: "/v1/volume/host/{id}", handle: (*Server).hostVolume},
	{method: get, path: "/v1/plugins", handle: (*Server).pluginList},
	{method: get, path: "/v1/plugin/csi/{id}", handle: (*Server).pluginGet},
}
