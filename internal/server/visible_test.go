package server

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/derive/service"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/model/variable"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

// owned are the namespaces in which everything is there once, under names that end in theirs.
var owned = []ids.Namespace{"app", "apps", "ops"}

const sharedNode = ids.Node("b0000000-0000-4000-8000-000000000001")

// idOf is a UUID by which an object of a namespace is known.
func idOf(kind string, ns ids.Namespace) string {
	return fmt.Sprintf("%s0000000-0000-4000-8000-%012x", kind, slices.Index(owned, ns)+1)
}

// furnish puts a job, its evaluation, its allocation on one node, and a volume into each namespace.
func furnish(t *testing.T, store *state.Store) {
	t.Helper()
	err := store.Write(store.Snapshot().Stamp(), func(tx *state.Tx) error {
		tx.PutNode(&node.Node{ID: sharedNode, Name: "n1", Status: node.StatusReady, NodePool: "default"})
		for _, ns := range owned {
			j := &job.Job{
				Namespace: ns,
				ID:        "job-" + ids.Job(ns),
				Name:      "job-" + string(ns),
				Type:      job.TypeService,
				NodePool:  "default",
				TaskGroups: []*job.TaskGroup{{
					Name:     "g",
					Count:    1,
					Tasks:    []*job.Task{{Name: "t", Driver: "exec"}},
					Services: []*job.Service{{Name: "service-" + string(ns), Provider: job.ProviderServers}},
					Scaling:  &job.ScalingPolicy{Type: job.ScalingHorizontal, Max: 2, Enabled: true},
				}},
			}
			tx.PutNamespace(&partition.Namespace{Name: ns})
			tx.PutJob(j)
			tx.PutDeployment(&deployment.Deployment{
				ID:        ids.Deployment(idOf("d", ns)),
				Namespace: ns,
				Job:       j.ID,
				Status:    deployment.Successful,
			})
			tx.PutEval(&eval.Eval{ID: ids.Eval(idOf("e", ns)), Namespace: ns, Job: j.ID, Status: eval.StatusComplete})
			tx.PutAlloc(&alloc.Alloc{
				ID:            ids.Alloc(idOf("a", ns)),
				Namespace:     ns,
				Name:          string(j.ID) + ".g[0]",
				Eval:          ids.Eval(idOf("e", ns)),
				Node:          sharedNode,
				Job:           j.ID,
				TaskGroup:     "g",
				DesiredStatus: alloc.DesiredRun,
				ClientStatus:  alloc.ClientRunning,

				JobCreateIndex: j.CreateIndex,
			})
			tx.PutVariable(&variable.Variable{Namespace: ns, Path: "path-" + string(ns)})
			tx.PutVolume(&volume.Volume{
				ID:     volume.ID{Namespace: ns, ID: "volume-" + ids.Volume(ns)},
				Spec:   volume.Spec{Plugin: "disk", Name: "v"},
				Status: volume.Status{Phase: volume.PhaseReady, ExternalID: "external-" + string(ns)},
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// variablesAlone stands for what a rule says of variables: no capability of a namespace gives it.
const variablesAlone acl.Capability = "variables"

// everything is what management gives.
const everything acl.Capability = "everything"

// showing is a way to look at what is in several namespaces, and what it tells of one.
type showing struct {
	capability acl.Capability // without which it shows nothing of a namespace
	or         acl.Capability // which does as well; empty: none
	of         func(ids.Namespace) string
	list       func(ctx context.Context, c wire.Conn) ([]string, error)
}

// rightsBeside are what the persons of these tests have beside their namespaces: what is on nodes, and plugins.
const rightsBeside = "node { policy = \"read\" }\nplugin { policy = \"read\" }\n"

func each[T any](items []T, id func(T) string) []string {
	var out []string
	for _, i := range items {
		out = append(out, id(i))
	}
	return out
}

// paged reads a list an item at a time.
func paged(read func(wire.Page) (items []string, next string, err error)) ([]string, error) {
	var out []string
	for p := (wire.Page{PerPage: 1}); ; {
		items, next, err := read(p)
		if out = append(out, items...); err != nil || next == "" {
			return out, err
		}
		p.NextToken = next
	}
}

func showings() map[string]showing {
	all := wire.Query{Namespace: wire.AllNamespaces}
	jobOf := func(ns ids.Namespace) string { return "job-" + string(ns) }
	evalOf := func(ns ids.Namespace) string { return idOf("e", ns) }
	allocOf := func(ns ids.Namespace) string { return idOf("a", ns) }
	volumeOf := func(ns ids.Namespace) string { return "volume-" + string(ns) }
	itself := func(ns ids.Namespace) string { return string(ns) }
	jobs := func(l *wire.List[*wire.JobView]) []string {
		return each(l.Items, func(j *wire.JobView) string { return string(j.Job.ID) })
	}
	allocs := func(l *wire.AllocListReply) []string {
		return each(l.Items, func(a alloc.Bundle) string { return string(a.Alloc.ID) })
	}
	volumes := func(l *wire.VolumeLines) []string {
		return append(each(l.Items, func(v *wire.VolumeView) string { return string(v.Volume.ID.ID) }),
			each(l.Lines, func(v wire.VolumeLine) string { return string(v.ID.ID) })...)
	}
	search := func(kind, prefix string) func(context.Context, wire.Conn) ([]string, error) {
		return func(ctx context.Context, c wire.Conn) ([]string, error) {
			r, err := wire.SystemSearch.Call(ctx, c,
				&wire.SearchRequest{Namespace: wire.AllNamespaces, Prefix: prefix, Context: kind})
			if err != nil {
				return nil, err
			}
			return r.Matches[kind], nil
		}
	}
	deploymentOf := func(ns ids.Namespace) string { return idOf("d", ns) }
	serviceOf := func(ns ids.Namespace) string { return "service-" + string(ns) }
	policyOf := func(ns ids.Namespace) string {
		g := &job.ScalingPolicy{Type: job.ScalingHorizontal}
		j := &job.Job{Namespace: ns, ID: ids.Job(jobOf(ns))}
		return string(job.Policy{ScalingPolicy: g, Job: j, Group: "g"}.ID())
	}
	variableOf := func(ns ids.Namespace) string { return "path-" + string(ns) }
	return map[string]showing{
		"variables": {variablesAlone, "", variableOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.VariableList.Call(ctx, c, &all)
			if err != nil {
				return nil, err
			}
			return each(l.Items, func(v *variable.Variable) string { return v.Path }), nil
		}},
		"deployments": {acl.ReadJob, "", deploymentOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.DeploymentList.Call(ctx, c, &all)
			if err != nil {
				return nil, err
			}
			return each(l.Items, func(v *progress.View) string { return string(v.Deployment.ID) }), nil
		}},
		"scaling policies": {acl.ListScalingPolicies, acl.ReadJob, jobOf,
			func(ctx context.Context, c wire.Conn) ([]string, error) {
				l, err := wire.ScalingPolicyList.Call(ctx, c, &wire.ScalingPoliciesRequest{Query: all})
				if err != nil {
					return nil, err
				}
				return each(l.Items, func(p *wire.ScalingPolicy) string { return string(p.Job) }), nil
			}},
		"services": {acl.ReadJob, "", serviceOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.ServiceList.Call(ctx, c, &all)
			if err != nil {
				return nil, err
			}
			return each(l.Items, func(r *service.Registration) string { return r.Name }), nil
		}},
		"jobs": {acl.ListJobs, "", jobOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.JobList.Call(ctx, c, &all)
			if err != nil {
				return nil, err
			}
			return jobs(l), nil
		}},
		"jobs, by pages": {acl.ListJobs, "", jobOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			return paged(func(p wire.Page) ([]string, string, error) {
				l, err := wire.JobList.Call(ctx, c, &wire.Query{Namespace: wire.AllNamespaces, Page: p})
				if err != nil {
					return nil, "", err
				}
				return jobs(l), l.NextToken, nil
			})
		}},
		"evaluations": {acl.ReadJob, "", evalOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.EvalList.Call(ctx, c, &all)
			if err != nil {
				return nil, err
			}
			return each(l.Items, func(e *eval.Eval) string { return string(e.ID) }), nil
		}},
		"allocations": {acl.ReadJob, "", allocOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.AllocList.Call(ctx, c, &all)
			if err != nil {
				return nil, err
			}
			return allocs(l), nil
		}},
		"allocations of a node": {acl.ReadJob, "", allocOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.NodeAllocList.Call(ctx, c, &wire.Ref[ids.Node]{Query: all, ID: sharedNode})
			if err != nil {
				return nil, err
			}
			return allocs(l), nil
		}},
		"volumes": {acl.CSIListVolume, "", volumeOf, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.VolumeList.Call(ctx, c, &wire.VolumeListRequest{Query: all})
			if err != nil {
				return nil, err
			}
			return volumes(l), nil
		}},
		"volumes in lines, by pages": {acl.CSIListVolume, "", volumeOf,
			func(ctx context.Context, c wire.Conn) ([]string, error) {
				return paged(func(p wire.Page) ([]string, string, error) {
					l, err := wire.VolumeList.Call(ctx, c, &wire.VolumeListRequest{
						Query: wire.Query{Namespace: wire.AllNamespaces, Page: p},
						Lines: true,
					})
					if err != nil {
						return nil, "", err
					}
					return volumes(l), l.NextToken, nil
				})
			}},
		"a search for jobs":             {acl.ListJobs, acl.ReadJob, jobOf, search("jobs", "job-")},
		"a search for evaluations":      {acl.ReadJob, "", evalOf, search("evals", "e")},
		"a search for scaling policies": {acl.ListScalingPolicies, acl.ReadJob, policyOf, search("scaling_policy", "")},
		"a search for allocations":      {acl.ReadJob, "", allocOf, search("allocs", "a")},
		"a search for variables":        {variablesAlone, "", variableOf, search("vars", "path-")},
		"a search for volumes":          {acl.CSIListVolume, "", volumeOf, search("volumes", "volume-")},
		"namespaces": {"", "", itself, func(ctx context.Context, c wire.Conn) ([]string, error) {
			l, err := wire.NamespaceList.Call(ctx, c, &all)
			if err != nil {
				return nil, err
			}
			return each(l.Items, func(n *partition.Namespace) string { return string(n.Name) }), nil
		}},
		"a search for namespaces": {"", "", itself, search("namespaces", "")},
	}
}

// Given the same things in namespaces app, apps and ops, and persons with rights in some of them, when they list or
// search over all namespaces, whole or by the page, then each sees what is in those where it has the right to, and no
// other, and nobody is refused.
func TestListsShowWhatTheirReaderMaySee(t *testing.T) {
	s, here, _ := serves(t, Config{})
	first, err := wire.ACLBootstrap.Call(wire.For(t.Context(), wire.Person{Local: true}), here,
		&wire.ACLBootstrapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	manager := wire.Person{Token: first.Secret.Secret()}
	furnish(t, s.Store())
	person := func(name, rules string) wire.Person {
		t.Helper()
		ctx := wire.For(t.Context(), manager)
		put := &wire.ACLPolicyPutRequest{Name: name, Rules: rightsBeside + rules}
		if _, err := wire.ACLPolicyPut.Call(ctx, here, put); err != nil {
			t.Fatal(err)
		}
		made, err := wire.ACLTokenPut.Call(ctx, here, &wire.ACLTokenPutRequest{
			Name: name, Type: acl.ClientToken, Policies: []string{name},
		})
		if err != nil {
			t.Fatal(err)
		}
		return wire.Person{Token: made.Secret.Secret()}
	}
	person("anonymous", "") // the policy of those without a token
	sees := func(r acl.Capability, in ...ids.Namespace) func(showing) []ids.Namespace {
		return func(l showing) []ids.Namespace {
			if l.capability == variablesAlone && r != variablesAlone && r != everything {
				return nil
			}
			if r != "" && r != everything && l.capability != r && l.or != r && l.capability != "" {
				return nil
			}
			return in
		}
	}
	in := func(ns, rule string) string { return `namespace "` + ns + `" { ` + rule + " }\n" }
	reads := `policy = "read"`
	may := func(c acl.Capability) string { return in("ops", `capabilities = ["`+string(c)+`"]`) }
	for what, c := range map[string]struct {
		person wire.Person
		sees   func(showing) []ids.Namespace
	}{
		"management": {manager, sees(everything, owned...)},
		"local root": {wire.Person{Local: true}, sees(everything, owned...)},
		"reads variables": {
			person("paths", in("ops", "\nvariables {\npath \"path-*\" { capabilities = [\"read\"] }\n}\n")),
			sees(variablesAlone, "ops"),
		},
		"without a token": {wire.Person{}, sees("")},
		"reads app":       {person("reader", in("app", reads)), sees("", "app")},
		"reads ap*":       {person("star", in("ap*", reads)), sees("", "app", "apps")},
		"apps is denied":  {person("less", in("ap*", reads)+in("apps", `policy = "deny"`)), sees("", "app")},
		"elsewhere":       {person("elsewhere", in("other", `policy = "write"`)), sees("")},
		"lists jobs":      {person("jobs", may(acl.ListJobs)), sees(acl.ListJobs, "ops")},
		"reads jobs":      {person("tasks", may(acl.ReadJob)), sees(acl.ReadJob, "ops")},
		"lists volumes":   {person("volumes", may(acl.CSIListVolume)), sees(acl.CSIListVolume, "ops")},
	} {
		for name, l := range showings() {
			got, err := l.list(wire.For(t.Context(), c.person), here)
			if l.capability == "" { // namespaces that every cluster has are not of these tests
				got = slices.DeleteFunc(got, func(n string) bool { return !slices.Contains(owned, ids.Namespace(n)) })
			}
			want := each(c.sees(l), l.of)
			slices.Sort(got)
			slices.Sort(want)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, %s: %v, %v; want %v", what, name, got, err, want)
			}
		}
	}
}

// TestEveryListOverAllNamespacesIsHeld: what is answered to everybody and shows objects of namespaces is in the table
// of the test above.
func TestEveryListOverAllNamespacesIsHeld(t *testing.T) {
	held := map[string]string{
		"Alloc.List":       "allocations",
		"Deployment.List":  "deployments",
		"Eval.List":        "evaluations",
		"Job.List":         "jobs",
		"Namespace.List":   "namespaces",
		"Scaling.Policies": "scaling policies",
		"Service.List":     "services",
		"System.Search":    "a search for jobs",
		"Variable.List":    "variables",
		"Volume.List":      "volumes",
	}
	// Pools are of no namespace: TestAPoolAndANamespaceAreShownToWhoMaySeeThem.
	for _, m := range without(answeredToAll, append(slices.Clone(toAnyToken), "Person.Allowed", "NodePool.List")) {
		if _, there := showings()[held[m]]; !there {
			t.Errorf("%s is answered to everybody, and nothing holds what it shows", m)
		}
	}
}
