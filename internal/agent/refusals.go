package agent

import (
	"reflect"

	"berth/internal/agent/accesslists"
	"berth/internal/agent/apitls"
	"berth/internal/agent/auditlog"
	"berth/internal/agent/consulblock"
	"berth/internal/agent/downloads"
	"berth/internal/agent/plugins"
	"berth/jobspec/hclfile"
)

// refusals name settings that people bring along from elsewhere, with the reason why they are not here.
var refusals = map[reflect.Type]hclfile.Special{
	reflect.TypeFor[Config](): {Refusal: map[string]string{
		"autopilot": "the servers keep it: berth operator autopilot set-config -min-quorum 3; leave it out",
		"telemetry": "metrics are always at /v1/metrics; leave it out",
		"ui":        "the web interface is not built yet; leave it out",
		"vault":     "Berth keeps no secrets of applications; leave it out",
	}},
	reflect.TypeFor[apitls.Block]():   {Refusal: apitls.Refusals},
	reflect.TypeFor[plugins.Plugin](): plugins.Special,

	reflect.TypeFor[plugins.DockerOptions](): plugins.DockerSpecial,
	reflect.TypeFor[plugins.QemuOptions]():   plugins.QemuSpecial,
	reflect.TypeFor[ClientBlock](): {Refusal: map[string]string{
		"alloc_dir":   "everything is below data_dir; leave it out",
		"server_join": "write the addresses of servers: servers = [...]",
		"state_dir":   "everything is below data_dir; leave it out",
	}},
	reflect.TypeFor[ServerBlock](): {Refusal: map[string]string{
		"acl_token_gc_threshold":        "expired tokens are forgotten at the next job_gc_interval; leave it out",
		"batch_eval_gc_threshold":       "evaluations of batch jobs stay as long as others: write eval_gc_threshold",
		"csi_volume_claim_gc_interval":  "claims end by what nodes report, not by their age; leave it out",
		"csi_volume_claim_gc_threshold": "claims end by what nodes report, not by their age; leave it out",
		"retry_join":                    "write it as server_join { retry_join = [...] }",
		"start_join":                    "write it as server_join { retry_join = [...] }",
	}},
	reflect.TypeFor[accesslists.Block](): {Refusal: accesslists.Refused},
	reflect.TypeFor[auditlog.Block]():    {Refusal: auditlog.Refused},
	reflect.TypeFor[consulblock.Block](): {Refusal: consulblock.Refused},
	reflect.TypeFor[downloads.Block]():   {Refusal: downloads.Refused},
}
