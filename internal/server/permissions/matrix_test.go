package permissions

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/server/state"
	"berth/internal/wire"
)

var now = time.Unix(1_000_000, 0)

// persons are those that the table is asked about. Jobs are in namespace app; ap and apps are named almost like it.
var persons = []struct {
	name  string
	rules string // of its policy; empty: it has none
}{
	{name: "anonymous"},
	{name: "expired"},
	{name: "other", rules: `
namespace "other" { policy = "write" }
node_pool "gpu" { policy = "write" }
`},
	{name: "twins", rules: `
namespace "ap" {
  policy = "write"
  variables {
    path "*" { capabilities = ["read", "write", "destroy"] }
  }
}
namespace "apps" { policy = "write" }
namespace "a*p" {
  capabilities = ["deny"]
  variables {
    path "*" { capabilities = ["read", "write", "destroy"] }
  }
}
node_pool "gp" { policy = "write" }
`},
	{name: "reader", rules: `
namespace "app" {
  policy = "read"
  variables {
    path "shop/*" { capabilities = ["read"] }
  }
}
node_pool "gpu" { policy = "read" }
`},
	{name: "writer", rules: `
namespace "app" {
  policy = "write"
  variables {
    path "*" { capabilities = ["read", "write", "destroy"] }
    path "shop/*" { capabilities = ["write"] }
    path "shop/db" { capabilities = ["destroy"] }
    path "shop/db*" { capabilities = ["deny"] }
  }
}
node_pool "g*" { capabilities = ["read", "write"] }
`},
	{name: "denied", rules: `
namespace "app" {
  capabilities = ["deny", "read-job", "submit-job"]
  variables {
    path "*" { capabilities = ["read", "write", "destroy"] }
  }
}
namespace "*" { policy = "write" }
node_pool "gpu" { capabilities = ["deny"] }
node_pool "*" { policy = "write" }
`},
	{name: "operator", rules: `
node { policy = "write" }
agent { policy = "write" }
operator { policy = "write" }
plugin { policy = "read" }
`},
	{name: "management"},
	{name: "local"},
	{name: "task"},      // of job a, by its identity
	{name: "task+read"}, // of job ab, which has a policy
	{name: "task-expired"},
	{name: "task-ended"},
	{name: "task-gone"},
	{name: "task-forged"},
	{name: "task-unsigned"},
}

func personNamed(name string) wire.Person {
	switch name {
	case "anonymous":
		return wire.Person{}
	case "local":
		return wire.Person{Local: true, Name: "uid 0"}
	}
	if strings.HasPrefix(name, "task") {
		return wire.Person{Token: identityOf(name)}
	}
	return wire.Person{Token: redact.New("secret of " + name)}
}

// world is a state with a job in each of the namespaces, and what belongs to it.
func world(t *testing.T) *state.Snap {
	t.Helper()
	s := state.New()
	err := s.Write(state.Stamp{Index: 1, Time: now}, func(tx *state.Tx) error {
		for _, p := range persons {
			token := &acl.Token{
				Accessor:   p.name,
				SecretHash: acl.HashSecret(redact.New("secret of " + p.name)),
				Type:       acl.ClientToken,
				Policies:   []string{p.name},
			}
			switch p.name {
			case "anonymous", "local":
				continue
			case "task+read":
				tx.PutACLPolicy(&acl.Policy{
					Name:  "of-ab",
					Rules: `namespace "app" { capabilities = ["read-job"] }`,
					Job:   &acl.JobScope{Namespace: "app", Job: "ab", Group: "g"},
				})
			case "expired":
				token.Type, token.Expires = acl.ManagementToken, now
			case "management":
				token.Type = acl.ManagementToken
			}
			tx.PutACLToken(token)
			tx.PutACLPolicy(&acl.Policy{Name: p.name, Rules: p.rules})
		}
		for _, ns := range []ids.Namespace{"app", "ap", "apps", "other"} {
			fill(tx, ns)
		}
		tx.PutSigningKey(&state.SigningKey{ID: "k", Public: signing.Public().(ed25519.PublicKey)})
		ended := *tx.Alloc(nil, "appa")
		ended.ID, ended.ClientStatus = "ended", alloc.ClientFailed
		tx.PutAlloc(&ended)
		for i, scope := range []acl.JobScope{
			{Namespace: "app", Job: "ab", Group: "h"},
			{Namespace: "app", Job: "ab", Group: "g", Task: "u"},
			{Namespace: "ap", Job: "ab"},
		} { // of others than the task
			tx.PutACLPolicy(&acl.Policy{
				Name:  fmt.Sprintf("wide-%d", i),
				Rules: `namespace "*" { policy = "write" }`,
				Job:   &scope,
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Snapshot()
}

func fill(tx *state.Tx, ns ids.Namespace) {
	for id, driver := range map[ids.Job]string{"a": "exec", "ab": "raw_exec"} {
		j := jobIn(ns, id, driver)
		tx.PutJob(j)
		tx.PutEval(&eval.Eval{ID: ids.Eval(string(ns) + string(id)), Namespace: ns, Job: id})
		tx.PutDeployment(&deployment.Deployment{ID: ids.Deployment(string(ns) + string(id)), Namespace: ns, Job: id})
		tx.PutAlloc(&alloc.Alloc{
			ID:             ids.Alloc(string(ns) + string(id)),
			Namespace:      ns,
			Job:            id,
			TaskGroup:      "g",
			Node:           "n",
			JobCreateIndex: tx.Job(nil, ns, id).CreateIndex,
		})
	}
	v := &volume.Volume{ID: volume.ID{Namespace: ns, ID: "v"}, UID: string(ns), Spec: volume.Spec{Plugin: "p"}}
	v.Status.ExternalID = "of " + string(ns)
	tx.PutVolume(v)
	tx.PutVolumeSnapshot(&volume.Snapshot{
		ID:         string(ns),
		Namespace:  ns,
		Plugin:     "p",
		Source:     "v",
		ExternalID: "snap of " + string(ns),
	})
}

func jobIn(ns ids.Namespace, id ids.Job, driver string) *job.Job {
	return &job.Job{Namespace: ns, ID: id, TaskGroups: []*job.TaskGroup{{
		Name:  "g",
		Tasks: []*job.Task{{Name: "t", Driver: driver}},
	}}}
}

// TestEveryPersonMayWhatTheTableSays: for every method and every kind of object testdata/persons.txt names those who
// may call it. Whom it does not name is refused, in the words that clients know.
func TestEveryPersonMayWhatTheTableSays(t *testing.T) {
	raw, err := os.ReadFile("testdata/persons.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if what, who, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(line, "#") {
			want[strings.TrimSpace(what)] = strings.TrimSpace(who)
		}
	}
	s, seen := world(t), map[string]bool{}
	for _, c := range cases() {
		var may []string
		for _, p := range persons {
			_, err := Judge(s, nil, personNamed(p.name), c.method, c.req, false, now)
			switch {
			case err == nil:
				may = append(may, p.name)
			case !fault.Has(err, fault.Denied) || !strings.HasPrefix(err.Error(), "Permission denied"):
				t.Errorf("%s calls %s: %v", p.name, c.what, err)
			}
		}
		if who := cmp.Or(strings.Join(may, " "), "nobody"); want[c.what] != who {
			t.Errorf("%s: %s; the table says: %s", c.what, who, want[c.what])
		}
		seen[c.method], seen[c.what] = true, true
	}
	for _, m := range slices.Sorted(maps.Keys(table)) {
		if !seen[m] {
			t.Errorf("nobody is asked about %s", m)
		}
	}
	for what := range want {
		if !seen[what] {
			t.Errorf("nobody asks for %s", what)
		}
	}
}

// TestARefusalNamesWhatIsMissing, and not in whose namespace an object is that was named by its id.
func TestARefusalNamesWhatIsMissing(t *testing.T) {
	s := world(t)
	refusal := func(who, method string, req any) string {
		_, err := Judge(s, nil, personNamed(who), method, req, false, now)
		return fmt.Sprint(err)
	}
	for _, c := range []struct {
		got  string
		want []string
		not  string
	}{
		{
			got:  refusal("other", wire.JobGet.Name(), &wire.Ref[ids.Job]{Query: inside("app"), ID: "a"}),
			want: []string{"read-job", `namespace "app"`},
		},
		{
			got:  refusal("other", wire.AllocGet.Name(), &wire.Ref[ids.Alloc]{Query: inside("other"), ID: "appa"}),
			want: []string{"read-job", "namespace of what is asked for"},
			not:  `"app"`,
		},
		{
			got: refusal("writer", wire.VolumeRegister.Name(), &wire.VolumeWriteRequest{
				Volume:     volume.ID{Namespace: "app", ID: "x"},
				Spec:       volume.Spec{Plugin: "p"},
				ExternalID: "of other",
			}),
			want: []string{"csi-write-volume"},
			not:  "other",
		},
		{
			got:  refusal("writer", wire.NodeList.Name(), &wire.Query{}),
			want: []string{"read of node", `node { policy = "read" }`},
		},
		{got: refusal("operator", wire.SystemGC.Name(), &wire.Empty{}), want: []string{"management token"}},
		{got: refusal("expired", wire.SystemGC.Name(), &wire.Empty{}), want: []string{"ACL token not found"}},
		{got: refusal("anonymous", wire.NodeList.Name(), &wire.Query{}), want: []string{"without a token"}},
	} {
		for _, w := range c.want {
			if !strings.Contains(c.got, w) {
				t.Errorf("%q does not say %q", c.got, w)
			}
		}
		if c.not != "" && strings.Contains(c.got, c.not) {
			t.Errorf("%q tells %q", c.got, c.not)
		}
	}
}

func inside(ns ids.Namespace) wire.Query { return wire.Query{Namespace: ns} }
