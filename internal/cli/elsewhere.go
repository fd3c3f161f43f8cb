package cli

import (
	"slices"
	"strings"

	"berth/internal/cli/kit"
)

// writeAJob stands for the commands that write a job file to start from.
const writeAJob = "write a job file by those in /usr/share/doc/berth/examples (in the sources: examples/), and check " +
	`it by "berth job validate"`

// noGossip stands for the commands that make and change the key of a gossip.
const noGossip = "there is no gossip, and no key of it: servers know each other by their replicated list, and speak " +
	`TLS with certificates that renew themselves; "berth operator ca rotate" replaces their authority, ` +
	`"berth operator root keyring list" shows the data keys`

// elsewhere are the commands that people know from other orchestrators and that there are not here, with the way out.
// A noun stands for all of its verbs.
var elsewhere = map[string]string{
	"acl auth-method":          `sign-on is not built yet: make tokens, "berth acl token create"`,
	"acl binding-rule":         `sign-on is not built yet: make tokens, "berth acl token create"`,
	"action":                   `actions are not built yet: run the command by "berth alloc exec"`,
	"alloc list":               `"berth job allocs" lists those of a job, "berth node status -allocs" of nodes`,
	"alloc pause":              `not built yet: stop the job, or the allocation by "berth alloc stop"`,
	"alloc-status":             `"berth alloc status"`,
	"check":                    `"berth operator api /v1/agent/health"`,
	"client-config":            `"berth node config" shows the servers that a node asks, and has it ask others`,
	"config":                   "an agent checks its configuration when it starts, and refuses it with the place",
	"deployment unblock":       "jobs of several regions are not built yet: no deployment waits for another region",
	"deployments":              `"berth deployment list" lists them, "berth job deployments JOB" those of a job`,
	"eval delete":              `"berth system gc" forgets the evaluations that have ended`,
	"eval-status":              `"berth eval status"`,
	"init":                     writeAJob,
	"job action":               `actions are not built yet: run the command by "berth alloc exec"`,
	"job init":                 writeAJob,
	"job list":                 `"berth job status" lists the jobs`,
	"keygen":                   noGossip,
	"keyring":                  noGossip,
	"kill":                     `"berth job stop" stops a job, "berth alloc signal" sends a signal`,
	"license":                  "no license is needed",
	"login":                    "sign-on is not built yet: BERTH_TOKEN shows the token of api { token_file = … }",
	"node drain":               `not built yet: make it ineligible, and "berth alloc stop" all of it`,
	"node identity get":        `it is known by its id, "berth node status -self", and by what its data_dir keeps`,
	"node identity renew":      `no identity runs out: certificates are renewed by themselves`,
	"node intro":               `"berth operator join-token create" makes the token that a node joins with`,
	"node list":                `"berth node status" lists the nodes`,
	"node-drain":               `not built yet: make it ineligible, and "berth alloc stop" all of it`,
	"node-status":              `"berth node status"`,
	"operator client-state":    `"berth operator check-data /DIR" reads the stores of an agent's data directory`,
	"operator debug":           `collect by hand: "berth agent-info", "berth node status -verbose", "berth monitor"`,
	"operator gossip":          noGossip,
	"operator keygen":          noGossip,
	"operator keyring":         noGossip,
	"operator metrics":         `"berth operator api /v1/metrics?format=prometheus"`,
	"operator raft info":       `"berth operator raft list-peers" lists the servers, "berth agent-info" its indexes`,
	"operator raft logs":       `"berth operator check-data /DIR" reads the stores of an agent's data directory`,
	"operator raft state":      `"berth operator check-data /DIR" reads the stores of an agent's data directory`,
	"operator scheduler":       "the scheduler has no settings: it packs nodes and displaces nothing",
	"operator snapshot agent":  `save from outside, for instance from cron: "berth operator snapshot save FILE"`,
	"operator snapshot redact": "there is no form of a saved state that holds less: keep it as the servers are kept",
	"operator snapshot state":  `"berth operator snapshot inspect FILE" shows what a saved state is of`,
	"operator utilization":     `no reports are made: "berth node status -verbose" shows what is used`,
	"plugin list":              `"berth plugin status" lists the storage plugins`,
	"ps":                       `"berth job status" lists the jobs, "berth job allocs" what runs of one`,
	"quota":                    "quotas are not built: a job's bounds are those of its resources",
	"recommendation":           `recommendations are not built: "berth alloc status" shows what a task uses`,
	"restart":                  `"berth job restart JOB", or of one allocation "berth alloc restart"`,
	"scale":                    `"berth job scale JOB COUNT"`,
	"sentinel":                 "policies on jobs are not built",
	"server join":              "servers join by their configuration: server { server_join { retry_join = [...] } }",
	"server-force-leave":       `"berth server force-leave SERVER", for good`,
	"server-join":              "servers join by their configuration: server { server_join { retry_join = [...] } }",
	"server-members":           `"berth server members"`,
	"setup vault":              "Vault is not built yet, so there is nothing to set up",
	"start":                    `"berth job start JOB" runs a job again that was stopped`,
	"system reconcile":         "summaries are counted when they are asked for, so there is nothing to reconcile",
	"tls":                      "agents' certificates are the cluster's; HTTPS takes yours: tls { http = true … }",
	"top":                      `"berth alloc status -stats ID" and "berth node status -stats" show what is used`,
	"ui":                       `the web interface is not built yet: "berth status" shows what there is`,
	"volume attach":            "volumes are attached where a job that names them is placed: write it in the group",
	"volume claim":             `not built yet: "berth volume status" shows who holds a volume`,
	"volume list":              `"berth volume status" lists the volumes`,
	"volume mount":             "a node mounts a volume for the tasks that name it: write volume_mount in the task",
	"volume unmount":           "a node unmounts a volume when its tasks have ended",
	"windows":                  "an agent runs on Linux: have systemd start it",
}

// wayOut is what to do instead of a command that there is only elsewhere; empty: nobody knows it.
func wayOut(path string) string { return elsewhere[strings.TrimPrefix(path, "berth ")] }

// endings are the verbs that end, undo or replace what there is. They are suggested for what can hardly be meant
// otherwise: who follows a suggestion does not look twice.
var endings = strings.Fields(`adopt allow begin delete deny deregister detach dismiss end expand finish force-
	leave forget forget-volumes gc keep new
	purge readmit rebind reboot-confirm release remove remove-peer replace restart
	restore revoke rotate signal stop transfer-leadership update`)

// suggested is the command that was probably meant by a word; empty: none is near enough.
func suggested(word string, names []string) string {
	near := kit.Nearest(word, names)
	if near == "" || !slices.Contains(endings, near) || strings.HasPrefix(near, word) {
		return near
	}
	if word[0] == near[0] && kit.Edits(word, near) == 1 {
		return near
	}
	return ""
}
