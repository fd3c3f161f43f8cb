// Package support owns the policy of which members of a job may ask for something: what is not built yet, with the way
// out, and what is accepted without effect. It is asked by servers, whose answer counts, and where no server can be
// asked.
package support

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/api"
)

// Field is a member of a job that asks for something that is not built or has no effect.
type Field struct {
	Path string // in JSON: TaskGroups[0].Tasks[1].Artifacts
	Name string // in words: group "web", task "app": artifact
	Why  string // the reason, and the way out where there is one
}

// String is the refusal in words, the same for job files and JSON jobs.
func (f Field) String() string { return f.Name + " is not built yet: " + f.Why }

// Unsupported lists the members of a job that are set to something which is not built yet. Nil, empty values and the
// documented defaults are never listed. A job with such members must be refused: nothing is dropped in silence.
func Unsupported(job *api.Job) []Field { return applyRules(job, unsupportedRules) }

// Ignored lists the members of a job that are accepted for the sake of old job files and have no effect; each is
// worth a warning. Name is the member and Why the advice.
func Ignored(job *api.Job) []Field { return applyRules(job, ignoredRules) }

// Rule is a member of a job that may not ask for something, or asks in vain.
type Rule struct {
	Path   string // in JSON: TaskGroups[].Tasks[].Artifacts
	Name   string // in words: artifact
	Why    string
	Values bool // of some values only: others may be asked for
}

// NotBuilt lists what Unsupported looks for.
func NotBuilt() []Rule { return shownRules(unsupportedRules) }

// WithoutEffect lists what Ignored looks for.
func WithoutEffect() []Rule { return shownRules(ignoredRules) }

func shownRules(rules []rule) []Rule {
	out := make([]Rule, 0, len(rules))
	for _, r := range rules {
		values := len(r.accept)+len(r.refuse) > 0 || r.unlessConsul
		out = append(out, Rule{Path: r.path, Name: r.name, Why: r.why, Values: values})
	}
	return out
}

// rule says which values of one member are not built. A zero value is always fine; accept adds the documented
// defaults; refuse, when given, names the only values that are not.
type rule struct {
	path   string
	name   string
	why    string
	accept []any
	refuse []any
	// unlessConsul leaves services of Consul out.
	unlessConsul bool
}

const (
	whyConsul     = "there is one cluster of Consul, without namespaces and partitions; remove it"
	whyVault      = "Vault is not connected; pass secrets as templates or files"
	whyDevice     = "the node's agent says which address it has, as network_interface or host_network; remove it"
	whyStagger    = "updates go on when allocations are healthy, not after a pause; remove the attribute"
	whyMigrate    = "draining moves allocations by its built-in defaults; remove the attribute"
	whyLeaveOut   = "remove it"
	whyIdentityOf = "it is for the identity of a service; this one is a task's"
	whyLaunched   = "servers write it of what a job launches, and a job that is there keeps its own; remove it"
	whyDevices    = "only cpu, cores, memory, memory_max, pids and devices can be asked for"
)

var unsupportedRules = slices.Concat([]rule{
	{path: "AllAtOnce", name: "all_at_once", why: whyLeaveOut},
	{path: "Multiregion", name: "multiregion", why: "there is one region; register the job in each"},
	{path: "UI", name: "ui", why: "there is no web page that would show it"},
	{path: "ConsulNamespace", name: "consul namespace", why: whyConsul, accept: []any{"default"}},
	{path: "VaultNamespace", name: "vault", why: whyVault},

	{path: "TaskGroups[].EphemeralDisk.Sticky", name: "ephemeral_disk sticky", why: "keep data on a volume"},
	{path: "TaskGroups[].EphemeralDisk.Migrate", name: "ephemeral_disk migrate", why: "keep data on a volume"},
	{path: "TaskGroups[].Volumes[].Sticky", name: "sticky", why: "name a volume of one node as source"},

	{path: "TaskGroups[].Tasks[].Vault", name: "vault", why: whyVault},
	{
		path:   "TaskGroups[].Tasks[].Secrets[].Provider",
		name:   "secret provider",
		why:    "the variables of the servers alone can be read; write provider = \"nomad\"",
		accept: []any{"nomad"},
	},
	{
		path: "TaskGroups[].Tasks[].Secrets[].Env",
		name: "secret env",
		why:  "it is for providers that are programs, which are not built; remove it",
	},
	{path: "TaskGroups[].Tasks[].Actions", name: "action", why: "use alloc exec"},
	{path: "TaskGroups[].Tasks[].Schedule", name: "schedule", why: whyLeaveOut},
	{path: "TaskGroups[].Tasks[].Identity.ServiceName", name: "identity service_name", why: whyIdentityOf},
	{
		path: "TaskGroups[].Tasks[].Templates[].ChangeScript.RunOnFirstRender",
		name: "template change_script run_on_first_render",
		why:  "have a poststart task do it",
	},
}, taskRules("TaskGroups[].Tasks[]"), networkRules("TaskGroups[].Networks[]"),
	updateRules(""), updateRules("TaskGroups[]."),
	consulRules("TaskGroups[].Consul"), consulRules("TaskGroups[].Tasks[].Consul"),
	serviceRules("TaskGroups[].Services[]"), serviceRules("TaskGroups[].Tasks[].Services[]"))

// taskRules are about tasks, and about what is laid over those of proxies.
func taskRules(at string) []rule {
	return []rule{
		{path: at + ".Identities[].ServiceName", name: "identity service_name", why: whyIdentityOf},
		{path: at + ".Resources.DiskMB", name: "resources disk", why: "set size in the group's ephemeral_disk"},
		{path: at + ".Resources.Networks", name: "resources network", why: "write the network block in the group"},
		{path: at + ".Resources.NUMA.Devices", name: "numa devices", why: whyDevices},
		{path: at + ".Resources.SecretsMB", name: "resources secrets", why: "the secrets directory has a fixed size"},
		{
			path:   at + ".LogConfig.Enabled",
			name:   "logs enabled = false",
			why:    "write disabled = true",
			refuse: []any{false},
		},
		{path: at + ".VolumeMounts[].SELinuxLabel", name: "volume_mount selinux_label", why: whyLeaveOut},
	}
}

func networkRules(at string) []rule {
	return []rule{
		{path: at + ".Device", name: "network device", why: whyDevice},
		{path: at + ".CIDR", name: "network cidr", why: whyDevice},
		{path: at + ".IP", name: "network ip", why: whyDevice},
	}
}

func updateRules(at string) []rule {
	return []rule{
		{path: at + "Update.Stagger", name: "update stagger", why: whyStagger, accept: []any{30 * time.Second}},
		{path: at + "Migrate.MaxParallel", name: "migrate max_parallel", why: whyMigrate, accept: []any{1}},
		{path: at + "Migrate.HealthCheck", name: "migrate health_check", why: whyMigrate, accept: []any{"checks"}},
		{
			path:   at + "Migrate.MinHealthyTime",
			name:   "migrate min_healthy_time",
			why:    whyMigrate,
			accept: []any{10 * time.Second},
		},
		{
			path:   at + "Migrate.HealthyDeadline",
			name:   "migrate healthy_deadline",
			why:    whyMigrate,
			accept: []any{5 * time.Minute},
		},
	}
}

// consulRules are about which part of Consul is asked for.
func consulRules(at string) (out []rule) {
	for _, member := range []string{"Namespace", "Cluster", "Partition"} {
		out = append(out, rule{
			path:   at + "." + member,
			name:   "consul " + strings.ToLower(member),
			why:    whyConsul,
			accept: []any{"default"},
		})
	}
	return out
}

// serviceRules are about services, whoever tells where they are.
func serviceRules(at string) []rule {
	const upstream = ".Connect.SidecarService.Proxy.Upstreams[]"
	return append(taskRules(at+".Connect.SidecarTask"), []rule{
		{path: at + ".Cluster", name: "service cluster", why: whyConsul, accept: []any{"default"}},
		{
			path: at + ".Connect.SidecarService.Proxy.TransparentProxy",
			name: "connect transparent_proxy",
			why:  "write upstreams: each is reached at a port of its own",
		},
		{
			path:   at + upstream + ".DestinationNamespace",
			name:   "upstreams destination_namespace",
			why:    whyConsul,
			accept: []any{"default"},
		},
		{
			path:   at + upstream + ".DestinationPartition",
			name:   "upstreams destination_partition",
			why:    whyConsul,
			accept: []any{"default"},
		},
		{
			path:   at + ".AddressMode",
			name:   "address_mode",
			why:    "write auto, host, alloc or alloc_ipv6",
			accept: []any{"auto", "host", "alloc", "alloc_ipv6"},
		},
		{
			path:   at + ".Checks[].AddressMode",
			name:   "check address_mode",
			why:    "write host, alloc or alloc_ipv6, or leave it out",
			accept: []any{"host", "alloc", "alloc_ipv6"},
		},
	}...)
}

const whyConsulAlone = "it is for services of Consul; remove it"

// serviceIgnored are members of services that mean something to Consul alone, where its provider is another.
func serviceIgnored(at string) (out []rule) {
	for member, name := range map[string]string{
		".EnableTagOverride": "enable_tag_override",
		".Meta":              "meta",
		".CanaryMeta":        "canary_meta",
		".TaggedAddresses":   "tagged_addresses",
		".Weights":           "weights",
		".Kind":              "kind",

		".Checks[].Notes":                 "check notes",
		".Checks[].FailuresBeforeWarning": "check failures_before_warning",

		".Checks[].DeregisterCriticalServiceAfter": "check deregister_critical_service_after",
	} {
		out = append(out, rule{path: at + member, name: "service " + name, why: whyConsulAlone, unlessConsul: true})
	}
	out = append(append(out, taskIgnored(at+".Connect.SidecarTask")...), rule{
		path: at + ".Checks[].Advertise",
		name: "service check advertise",
		why:  "it belongs to the service mesh; remove it",
	})
	slices.SortFunc(out, func(a, b rule) int { return strings.Compare(a.path, b.path) })
	return out
}

// ignoredRules are warned of and not refused, for one of three reasons. What servers write of a job that was launched
// comes back from clients that send what they read: "nomad job inspect" and then "nomad job run -json" is such a way,
// and Terraform another; refused, no launched job could be sent back. What is deprecated does nothing in the reference
// either, and stands in files that are otherwise fine. What a service of the servers' own catalog says for Consul stands
// there because files are moved between the two providers. Whatever would change what runs is refused instead.
var ignoredRules = slices.Concat([]rule{
	{path: "ParentID", name: "ParentID", why: whyLaunched},
	{path: "Dispatched", name: "Dispatched", why: whyLaunched},
	{path: "DispatchIdempotencyToken", name: "DispatchIdempotencyToken", why: whyLaunched},
	{path: "Payload", name: "Payload", why: whyLaunched},
	{path: "TaskGroups[].Networks[].MBits", name: "network mbits", why: "is deprecated and has no effect; remove it"},
	{
		path: "TaskGroups[].Tasks[].Templates[].VaultGrace",
		name: "template vault_grace",
		why:  "is deprecated and has no effect; remove it",
	},
}, taskIgnored("TaskGroups[].Tasks[]"), serviceIgnored("TaskGroups[].Services[]"),
	serviceIgnored("TaskGroups[].Tasks[].Services[]"))

// taskIgnored are members of tasks, and of what is laid over those of proxies.
func taskIgnored(at string) []rule {
	return []rule{
		{path: at + ".Resources.IOPS", name: "resources iops", why: "is deprecated and has no effect; remove it"},
		{path: at + ".LogConfig.Enabled", name: "logs enabled", why: "is deprecated; write disabled instead"},
	}
}

func applyRules(job *api.Job, rules []rule) []Field {
	if job == nil {
		return nil
	}
	var out []Field
	for i := range rules {
		rules[i].visit(reflect.ValueOf(job).Elem(), strings.Split(rules[i].path, "."), "", nil, &out)
	}
	return out
}

// visit follows the rule's path through v, over every element of lists and maps.
func (r *rule) visit(v reflect.Value, steps []string, path string, words []string, out *[]Field) {
	name, each := strings.CutSuffix(steps[0], "[]")
	member := v.FieldByName(name)
	path = strings.TrimPrefix(path+"."+name, ".")
	if !each {
		if len(steps) > 1 {
			if member.Kind() == reflect.Pointer {
				if member.IsNil() {
					return
				}
				member = member.Elem()
			}
			r.visit(member, steps[1:], path, words, out)
			return
		}
		if r.refuses(member) {
			*out = append(*out,
				Field{Path: path, Name: strings.Join(append(slices.Clone(words), r.name), ": "), Why: r.why})
		}
		return
	}
	if member.Kind() == reflect.Map {
		for _, key := range sortedKeys(member) {
			r.element(member.MapIndex(reflect.ValueOf(key)), steps[1:], fmt.Sprintf("%s[%q]", path, key), name, words,
				out)
		}
		return
	}
	for i := range member.Len() {
		r.element(member.Index(i), steps[1:], fmt.Sprintf("%s[%d]", path, i), name, words, out)
	}
}

// consulProviders are the providers of services of Consul: it is that of those that name none.
var consulProviders = []string{"", "consul"}

func (r *rule) element(v reflect.Value, steps []string, path, kind string, words []string, out *[]Field) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if kind == "Services" && r.unlessConsul && slices.Contains(consulProviders, v.FieldByName("Provider").String()) {
		return
	}
	r.visit(v, steps, path, append(slices.Clone(words), elementWords(kind, v)...), out)
}

// elementWords names a list's element as its author does.
func elementWords(kind string, v reflect.Value) []string {
	noun := map[string]string{"TaskGroups": "group", "Tasks": "task", "Volumes": "volume", "ReservedPorts": "port",
		"DynamicPorts": "port", "Services": "service", "Checks": "check", "Secrets": "secret"}[kind]
	if noun == "" {
		return nil
	}
	label := v.FieldByName("Name")
	if !label.IsValid() {
		label = v.FieldByName("Label")
	}
	return []string{fmt.Sprintf("%s %q", noun, label.String())}
}

func sortedKeys(m reflect.Value) []string {
	keys := make([]string, 0, m.Len())
	for _, k := range m.MapKeys() {
		keys = append(keys, k.String())
	}
	slices.Sort(keys)
	return keys
}

// refuses reports whether the member's value is one that the rule does not allow.
func (r *rule) refuses(v reflect.Value) bool {
	wasPointer := v.Kind() == reflect.Pointer
	if wasPointer {
		if v.IsNil() {
			return false
		}
		v = v.Elem()
	}
	if len(r.refuse) > 0 {
		return slices.ContainsFunc(r.refuse, func(bad any) bool { return reflect.DeepEqual(v.Interface(), bad) })
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	case reflect.Struct:
		return wasPointer || !v.IsZero()
	}
	return !v.IsZero() && !slices.ContainsFunc(r.accept, func(fine any) bool {
		return reflect.DeepEqual(v.Interface(), fine)
	})
}
