package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/model/acl"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/eval"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/partition"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/permissions"
	"berth/internal/server/state"
	"berth/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a state that is followed by way of the wire.
type rig struct {
	t     testing.TB
	store *state.Store
	conn  wire.Conn
	index uint64
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, store: state.New()}
	s := wire.NewServer(nil)
	Register(serving.Base{Store: r.store}, s)
	pipe := wire.NewPipe()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, pipe.Listener()) }()
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	r.conn = conn
	t.Cleanup(func() {
		_ = conn.Close() // in-process
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) write(name string, fn func(*state.Tx)) {
	r.t.Helper()
	r.index++
	stamp := state.Stamp{Index: r.index, Time: time.Now()}
	do := func(tx *state.Tx) error { fn(tx); return nil }
	if err := r.store.Batch([]state.Step{{Stamp: stamp, Name: name, Do: do}})[0]; err != nil {
		r.t.Fatal(err)
	}
}

// token makes a token with rules; none: one that may do everything.
func (r *rig) token(name, rules string) string {
	secret := ids.New()
	r.write("acl-token-put", func(tx *state.Tx) {
		t := &acl.Token{
			Accessor:   name,
			SecretHash: acl.HashSecret(redact.New(secret)),
			Type:       acl.ManagementToken,
		}
		if rules != "" {
			t.Type, t.Policies = acl.ClientToken, []string{name}
			tx.PutACLPolicy(&acl.Policy{Name: name, Rules: rules})
		}
		tx.PutACLToken(t)
	})
	return secret
}

// stream is one that somebody follows.
type stream struct {
	t testing.TB
	*wire.Stream[wire.Empty, wire.EventBatch]
}

func (r *rig) follow(
	ctx context.Context, p wire.Person, ns ids.Namespace, index uint64, topics ...string,
) *stream {
	r.t.Helper()
	req := &wire.EventRequest{Namespace: ns, Index: index, Topics: map[string][]string{}}
	for _, text := range topics {
		topic, key, _ := strings.Cut(text, ":")
		if key == "" {
			key = wire.TopicAll
		}
		req.Topics[topic] = append(req.Topics[topic], key)
	}
	s, err := wire.EventStream.Open(wire.For(ctx, p), r.conn, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return &stream{r.t, s}
}

// until reads events up to an index, as "Topic Type key".
func (s *stream) until(index uint64) (out []string) {
	s.t.Helper()
	last := uint64(0)
	for {
		b, err := s.Recv()
		if err != nil {
			s.t.Fatal(err)
		}
		if b.Index > 0 && b.Index <= last {
			s.t.Fatalf("index %d comes after %d", b.Index, last)
		}
		for _, e := range b.Events {
			out = append(out, e.Topic+" "+e.Type+" "+e.Key)
		}
		if last = max(last, b.Index); last >= index {
			return out
		}
	}
}

// ends reads until the stream ends, and returns why it did.
func (s *stream) ends() error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
	}
}

var local = wire.Person{Local: true, Name: "root"}

// world writes one object of every kind, in namespaces app and other, and returns the index of the last.
func (r *rig) world() uint64 {
	found := &job.Service{Name: "s", Provider: job.ProviderServers, Address: "10.0.0.1", AddressMode: "auto"}
	secret := &node.Node{ID: "n", SecretHash: "hash of the secret of n", CSI: []*plugin.Instance{
		{Plugin: "p", Role: plugin.RoleNode, Node: "n", State: plugin.Ready},
	}}
	r.write("node-register", func(tx *state.Tx) { tx.PutNode(secret) })
	r.write("plugin-learn", func(tx *state.Tx) { tx.PutPlugin(&plugin.Record{ID: "p"}) })
	r.write("node-pool-put", func(tx *state.Tx) { tx.PutNodePool(&partition.NodePool{Name: "gpu"}) })
	r.write("acl-role-put", func(tx *state.Tx) { tx.PutACLRole(&acl.Role{ID: "r", Name: "role"}) })
	for _, ns := range []ids.Namespace{"app", "other"} {
		in := string(ns) + "-"
		r.write("job-register", func(tx *state.Tx) {
			g := &job.TaskGroup{Name: "g", Services: []*job.Service{found}}
			tx.PutJob(&job.Job{Namespace: ns, ID: ids.Job(in + "j"), TaskGroups: []*job.TaskGroup{g}})
			e := &eval.Eval{ID: ids.Eval(in + "e"), Namespace: ns, Job: ids.Job(in + "j")}
			tx.PutEval(e)
		})
		created := r.index
		id := volume.ID{Namespace: ns, ID: ids.Volume(in + "v")}
		r.write("volume-put", func(tx *state.Tx) {
			tx.PutVolume(&volume.Volume{ID: id, Spec: volume.Spec{Plugin: "p"}})
		})
		r.write("plan-apply", func(tx *state.Tx) {
			d := &deployment.Deployment{ID: ids.Deployment(in + "d"), Namespace: ns, Job: ids.Job(in + "j")}
			tx.PutDeployment(d)
			tx.PutAlloc(&alloc.Alloc{
				ID:             ids.Alloc(in + "a"),
				Namespace:      ns,
				Job:            ids.Job(in + "j"),
				JobCreateIndex: created,
				TaskGroup:      "g",
				Node:           "n",
				DesiredStatus:  alloc.DesiredRun,
				ClientStatus:   alloc.ClientPending,
			})
			tx.PutClaim(&volume.Claim{Volume: id, Plugin: "p", Alloc: ids.Alloc(in + "a"), Node: "n"})
		})
		r.write("node-report", func(tx *state.Tx) {
			a := *tx.Alloc(nil, ids.Alloc(in+"a"))
			a.ClientStatus = alloc.ClientRunning
			tx.PutAlloc(&a)
		})
	}
	return r.index
}

// TestEveryTopicHasItsEvents: each kind of object has its event when it is written and when it is removed, with the
// command's
// type, and nothing of a secret is in it.
func TestEveryTopicHasItsEvents(t *testing.T) {
	r := newRig(t)
	r.token("root", "")
	r.token("reads", `namespace "app" { policy = "read" }`)
	r.world()
	r.write("collect", func(tx *state.Tx) {
		tx.DeleteEval("app-e")
		tx.DeleteJob("app", "app-j")
		tx.DeleteAlloc("app-a")
		tx.DeleteClaim(volume.ClaimKey{Volume: volume.ID{Namespace: "app", ID: "app-v"}, Alloc: "app-a"})
		tx.DeleteVolume(volume.ID{Namespace: "app", ID: "app-v"})
		tx.DeleteNodePool("gpu")
		tx.DeleteACLRole("r")
		tx.DeleteACLPolicy("reads")
		tx.DeleteACLToken("reads")
		tx.DeleteNode("n")
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := r.follow(ctx, local, wire.AllNamespaces, 0).until(r.index)
	own := "_nomad-task-app-a-group-g-s-"
	for _, want := range []string{
		"Node NodeRegistration n", "CSIPlugin CSIPluginUpdated p", "NodePool NodePoolUpserted gpu",
		"ACLRole ACLRoleUpserted r", "ACLPolicy ACLPolicyUpserted reads", "ACLToken ACLTokenUpserted reads",
		"Job JobRegistered app-j", "Evaluation JobRegistered app-e", "CSIVolume CSIVolumeRegistered app-v",
		"Deployment PlanResult app-d", "Allocation PlanResult app-a", "Claim CSIVolumeClaim app-v",
		"Allocation AllocationUpdated app-a", "Service ServiceRegistration " + own,
		"Evaluation EvaluationDeleted app-e", "Job JobDeregistered app-j", "Allocation AllocationDeleted app-a",
		"Claim CSIVolumeClaimEnded app-v", "CSIVolume CSIVolumeDeregistered app-v", "NodePool NodePoolDeleted gpu",
		"ACLRole ACLRoleDeleted r", "ACLPolicy ACLPolicyDeleted reads", "ACLToken ACLTokenDeleted reads",
		"Node NodeDeregistration n",
	} {
		if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != want })); n == 0 ||
			n > 1 && !strings.HasPrefix(want, "CSIPlugin") { // what a node says of it is an event of it, too
			t.Errorf("%q was sent %d times", want, n)
		}
	}
	got2 := map[string]bool{}
	for _, s := range got {
		got2[strings.Fields(s)[0]] = true
	}
	for topic := range permissions.Topics {
		if !got2[topic] {
			t.Errorf("nothing was sent of %s", topic)
		}
	}
	batches, _, err := r.store.Changes().From(1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		all, _ := derive(r.store.Snapshot(), b)
		for _, e := range all {
			if bytes.Contains(e.Object, []byte("hash of the secret")) {
				t.Errorf("%s %s shows the digest of a secret", e.Topic, e.Key)
			}
			var o wire.EventObject
			if err := wire.DecodeStrict(e.Object, &o); err != nil || o.Token != nil && o.Token.Token.SecretHash != nil {
				t.Errorf("%s %s: %v", e.Topic, e.Key, err)
			}
		}
	}
}

// TestWhoSeesWhichEvents: of everything, each caller gets events of what he may see, and of nothing else.
func TestWhoSeesWhichEvents(t *testing.T) {
	r := newRig(t)
	persons := map[string]wire.Person{}
	for name, rules := range map[string]string{
		"management": "",
		"reader":     `namespace "app" { policy = "read" }`,
		"jobs":       `namespace "app" { capabilities = ["read-job"] }`,
		"volumes":    `namespace "*" { capabilities = ["csi-read-volume"] }`,
		"twin":       `namespace "ap" { policy = "write" }`,
		"operator": `
node { policy = "read" }
plugin { policy = "read" }
namespace "app" { policy = "read" }`,
	} {
		persons[name] = wire.Person{Token: redact.New(r.token(name, rules))}
	}
	from := r.index + 1
	r.world()
	r.write("acl-token-put", func(tx *state.Tx) { tx.PutACLToken(&acl.Token{Accessor: "another"}) })
	r.write("job-register", func(tx *state.Tx) { // everybody sees one of the last
		for _, ns := range []ids.Namespace{"app", "ap"} {
			tx.PutJob(&job.Job{Namespace: ns, ID: "end", TaskGroups: []*job.TaskGroup{{Name: "g"}}})
		}
		id := volume.ID{Namespace: "app", ID: "end"}
		tx.PutVolume(&volume.Volume{ID: id, Spec: volume.Spec{Plugin: "p"}})
	})
	ofJobs := "Allocation Deployment Evaluation Job Service"
	for name, want := range map[string]string{
		"management": "ACLRole ACLToken Allocation CSIPlugin CSIVolume Claim Deployment Evaluation Job Node NodePool " +
			"Service",
		"reader":   "Allocation CSIVolume Claim Deployment Evaluation Job Service",
		"jobs":     ofJobs,
		"volumes":  "CSIVolume Claim",
		"twin":     "",
		"operator": "Allocation CSIPlugin CSIVolume Claim Deployment Evaluation Job Node Service",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := r.follow(ctx, persons[name], wire.AllNamespaces, from)
		topics := map[string]bool{}
		for ended := false; !ended; {
			b, err := s.Recv()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, e := range b.Events {
				if e.Key == "end" {
					ended = true
					continue
				}
				topics[e.Topic] = true
				if e.Namespace == "other" && name != "management" && name != "volumes" {
					t.Errorf("%s gets %s %s in other", name, e.Topic, e.Key)
				}
			}
		}
		cancel()
		got := strings.Join(slices.Sorted(maps.Keys(topics)), " ")
		if got != want {
			t.Errorf("%s gets %q, not of %q", name, got, want)
		}
	}
}

// TestWhatIsAskedForIsSent: topics, keys, other keys and the namespace choose; the index is the first that comes.
func TestWhatIsAskedForIsSent(t *testing.T) {
	r := newRig(t)
	end := r.world()
	r.write("job-register", func(tx *state.Tx) {
		for _, ns := range []ids.Namespace{"app", "other"} {
			tx.PutJob(&job.Job{Namespace: ns, ID: "last", TaskGroups: []*job.TaskGroup{{Name: "g"}}})
		}
	})
	for _, c := range []struct {
		ns     ids.Namespace
		index  uint64
		topics []string
		want   string
	}{
		{"app", 0, []string{"Job"}, "Job JobRegistered app-j, Job JobRegistered last"},
		{"app", end + 1, []string{"*"}, "Job JobRegistered last"},
		{"other", end + 1, nil, "Job JobRegistered last"},
		{"*", end + 1, []string{"*"}, "Job JobRegistered last, Job JobRegistered last"},
		{"*", 0, []string{"Evaluation:app-j", "Job:last"}, "Evaluation JobRegistered app-e, Job JobRegistered last, " +
			"Job JobRegistered last"},
		{"app", 0, []string{"Allocation:nobody", "Service:s", "Job:last"},
			"Service ServiceRegistration _nomad-task-app-a-group-g-s-, Job JobRegistered last"},
		{"app", 0, []string{"Node", "Job:last"}, "Node NodeRegistration n, Job JobRegistered last"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		got := strings.Join(r.follow(ctx, local, c.ns, c.index, c.topics...).until(r.index), ", ")
		cancel()
		if got != c.want {
			t.Errorf("%v in %s from %d on: %s", c.topics, c.ns, c.index, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := r.follow(ctx, local, "app", 0, "Jobs").ends(); !fault.Has(err, fault.Invalid) {
		t.Errorf("a topic that is not there: %v", err)
	}
}

// TestWhoLosesTheRightIsCut: a stream ends when its token is deleted or has expired, and sends nothing after that; what
// a policy no longer gives is no longer sent.
func TestWhoLosesTheRightIsCut(t *testing.T) {
	r := newRig(t)
	rules := `namespace "app" { policy = "read" }`
	deleted, narrowed := redact.New(r.token("deleted", rules)), redact.New(r.token("narrowed", rules))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := r.follow(ctx, wire.Person{Token: deleted}, "app", r.index+1)
	less := r.follow(ctx, wire.Person{Token: narrowed}, "app", r.index+1)
	for _, s := range []*stream{gone, less} {
		if b, err := s.Recv(); err != nil || b.Index != 0 {
			t.Fatal(b, err)
		}
	}
	r.write("acl-token-delete", func(tx *state.Tx) { tx.DeleteACLToken("deleted") })
	if err := gone.ends(); !fault.Has(err, fault.Denied) {
		t.Errorf("whose token is deleted: %v", err)
	}
	r.write("acl-policy-put", func(tx *state.Tx) {
		tx.PutACLPolicy(&acl.Policy{Name: "narrowed", Rules: `namespace "other" { policy = "read" }`})
	})
	r.world()
	if err := less.ends(); !fault.Has(err, fault.Denied) {
		t.Errorf("who may see nothing of what he asked for: %v", err)
	}
}

// TestAStreamEndsWhenItsTokenExpires: given a token with an end, when nothing happens until then, then its stream ends
// at that time and not later, and the beats before it are sent.
func TestAStreamEndsWhenItsTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		secret := redact.New(r.token("short", `namespace "app" { policy = "read" }`))
		const good = 2*beat + 3*time.Second
		ends := time.Now().Add(good)
		r.write("acl-token-put", func(tx *state.Tx) {
			with := *tx.ACLToken(nil, "short")
			with.Expires = ends
			tx.PutACLToken(&with)
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := r.follow(ctx, wire.Person{Token: secret}, "app", r.index+1)
		sent := 0
		for {
			_, err := s.Recv()
			if err == nil {
				sent++
				continue
			}
			if !fault.Has(err, fault.Denied) || !time.Now().Equal(ends) {
				t.Errorf("it ends %s after its token: %v", time.Since(ends), err)
			}
			break
		}
		if sent != 3 { // that it began, and two beats
			t.Errorf("%d were sent", sent)
		}
	})
}

// TestWhoReadsTooSlowlyIsCut: a reader that takes nothing while more happens than is remembered hears so when it reads
// again, and what it was sent until then has no hole.
func TestWhoReadsTooSlowlyIsCut(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := r.follow(ctx, local, wire.AllNamespaces, 0, "Evaluation")
	for n := range 20000 {
		r.write("eval-update", func(tx *state.Tx) { tx.PutEval(&eval.Eval{ID: ids.Eval(fmt.Sprint("e", n%7))}) })
	}
	last := uint64(0)
	for {
		b, err := slow.Recv()
		if err != nil {
			if !fault.Has(err, fault.Unavailable) || !strings.Contains(err.Error(), "fell behind") {
				t.Errorf("it ended with %v", err)
			}
			break
		}
		if b.Index > 0 && b.Index != last+1 {
			t.Fatalf("index %d comes after %d", b.Index, last)
		}
		last = max(last, b.Index)
	}
	if last == 0 || last >= r.index {
		t.Errorf("it was sent up to index %d of %d", last, r.index)
	}
}

// BenchmarkHundredFollow is an alloc's update, sent to a hundred who follow everything.
func BenchmarkHundredFollow(b *testing.B) {
	r := newRig(b)
	r.world()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	const readers = 100
	from := r.index + 1
	all := make([]*stream, readers)
	for i := range all {
		secret := r.token(fmt.Sprint("t", i), `namespace "app" { policy = "read" }`)
		all[i] = r.follow(ctx, wire.Person{Token: redact.New(secret)}, "app", from, "Allocation")
	}
	b.ResetTimer()
	for i := range b.N {
		r.write("node-report", func(tx *state.Tx) {
			a := *tx.Alloc(nil, "app-a")
			a.ClientDescription = fmt.Sprint(i)
			tx.PutAlloc(&a)
		})
		for _, s := range all {
			s.until(r.index)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/readers, "ns/event")
}
