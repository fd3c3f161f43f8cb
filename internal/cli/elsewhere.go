package cli

import "strings"

// writeAJob stands for the commands that write a job file to start from.
const writeAJob = "write a job file by those in /usr/share/doc/berth/examples (in the sources: examples/), and check " +
	`it by "berth job validate"`

// elsewhere are the commands that people know from other orchestrators and that there are not here, with the way out.
// A noun stands for all of its verbs.
var elsewhere = map[string]string{
	"acl auth-method":         `sign-on is not built yet: make tokens, "berth acl token create"`,
	"acl binding-rule":        `sign-on is not built yet: make tokens, "berth acl token create"`,
	"action":                  `actions are not built yet: run the command by "berth alloc exec"`,
	"alloc pause":             `not built yet: stop the job, or the allocation by "berth alloc stop"`,
	"config":                  "an agent checks its configuration when it starts, and refuses it with the place",
	"deployment":              `deployments are not built yet: "berth job status JOB" shows how its update stands`,
	"deployments":             `deployments are not built yet: "berth job status JOB" shows how its update stands`,
	"event":                   `the event stream is not built yet: "berth monitor" follows the log`,
	"init":                    writeAJob,
	"job action":              `actions are not built yet: run the command by "berth alloc exec"`,
	"job deployments":         `deployments are not built yet: "berth job status JOB" shows how its update stands`,
	"job dispatch":            "not built yet: run one job per set of parameters, by -var, with id = var.x",
	"job init":                writeAJob,
	"job periodic":            `periodic jobs are not built yet: have cron run it by "berth job run -again FILE"`,
	"job promote":             `canaries are not built yet: "berth job status JOB" shows how its update stands`,
	"job restart":             `restart the tasks of each allocation by "berth alloc restart"`,
	"job revert":              `"berth job inspect -hcl -version 1 x" prints version 1 with its values: run that`,
	"job scale":               "scaling is not built yet: run the job with another count",
	"job scaling-events":      "scaling is not built yet: run the job with another count",
	"job tag":                 `version tags are not built yet: "berth job history" lists the versions`,
	"keyring":                 `there is no gossip; "berth operator root keyring list" shows the servers' data keys`,
	"license":                 "no license is needed",
	"login":                   "sign-on is not built yet: BERTH_TOKEN shows the token of api { token_file = … }",
	"namespace apply":         "there are the namespaces default and berth, and no others yet",
	"namespace delete":        "there are the namespaces default and berth, and no others yet",
	"node config":             "write it in the agent's configuration and restart the agent, its tasks go on",
	"node drain":              `not built yet: make it ineligible, and "berth alloc stop" all of it`,
	"node intro":              `"berth operator join-token create" makes the token that a node joins with`,
	"node meta":               "write client { meta { … } } in the agent's configuration and restart the agent",
	"node pool":               "there is one node pool, default",
	"node purge":              `nodes that are down are forgotten by "berth system gc"`,
	"operator client-state":   `"berth operator check-data /DIR" reads the stores of an agent's data directory`,
	"operator debug":          `collect by hand: "berth agent-info", "berth node status -verbose", "berth monitor"`,
	"operator gossip":         "there is no gossip: servers know each other by their replicated list",
	"operator keygen":         "there is no gossip: servers know each other by their replicated list",
	"operator keyring":        `there is no gossip; "berth operator root keyring list" shows the servers' data keys`,
	"operator metrics":        `"berth operator api /v1/metrics?format=prometheus"`,
	"operator scheduler":      "the scheduler has no settings: it packs nodes and displaces nothing",
	"operator snapshot agent": `save from outside, for instance from cron: "berth operator snapshot save FILE"`,
	"operator utilization":    `no reports are made: "berth node status -verbose" shows what is used`,
	"ps":                      `"berth job status" lists the jobs, "berth job allocs" what runs of one`,
	"quota":                   "quotas are not built: a job's bounds are those of its resources",
	"recommendation":          `recommendations are not built: "berth alloc status" shows what a task uses`,
	"scale":                   "scaling is not built yet: run the job with another count",
	"scaling":                 "scaling is not built yet: run the job with another count",
	"sentinel":                "policies on jobs are not built",
	"server join":             "servers join by their configuration: server { server_join { retry_join = [...] } }",
	"service":                 `not built yet: give a task a static port, or read its port by "berth alloc status"`,
	"setup":                   "Consul and Vault are not built yet, so there is nothing to set up",
	"system reconcile":        "summaries are counted when they are asked for, so there is nothing to reconcile",
	"tls":                     "the cluster issues certificates; the API listens on the socket and on the loopback",
	"ui":                      `the web interface is not built yet: "berth status" shows what there is`,
	"var":                     `variables are not built yet: pass values by -var at "berth job run", or by env`,
	"volume claim":            `not built yet: "berth volume status" shows who holds a volume`,
}

// wayOut is what to do instead of a command that there is only elsewhere; empty: nobody knows it.
func wayOut(path string) string { return elsewhere[strings.TrimPrefix(path, "berth ")] }
