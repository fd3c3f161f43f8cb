package sources

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/base/render"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/variable"
	"berth/internal/server/endpoint/serving"
	"berth/internal/server/fsm/variables"
	"berth/internal/server/state"
	"berth/internal/testkit/leader"
	"berth/internal/testkit/localstate"
	"berth/internal/wire"
)

const (
	mine, other = ids.Node("a0000000-0000-4000-8000-000000000001"), ids.Node("a0000000-0000-4000-8000-000000000002")
	ours        = ids.Alloc("b0000000-0000-4000-8000-000000000001")
	theirs      = ids.Alloc("b0000000-0000-4000-8000-000000000002")
)

// clear seals nothing.
type clear struct{}

func (clear) Seal(string, redact.Map) ([]byte, error) { return nil, nil }

func (clear) Open(_ *state.Snap, name string, sealed []byte) (redact.Map, error) {
	return redact.MapOf(map[string]string{name: string(sealed)}), nil
}

func secretOf(n ids.Node) wire.Secrets {
	return wire.Seal(redact.MapOf(map[string]string{"id": string(n)}))
}

// begin is a state with two nodes, and an alloc of job web on each.
func begin(t *testing.T) (*localstate.Cluster, *Endpoints) {
	c := localstate.New(t)
	err := c.Store.Write(c.Store.Snapshot().Stamp(), func(tx *state.Tx) error {
		j := &job.Job{Namespace: "default", ID: "web", TaskGroups: []*job.TaskGroup{{
			Name:  "g",
			Tasks: []*job.Task{{Name: "t"}, {Name: "u"}},
		}}}
		tx.PutJob(j)
		for n, a := range map[ids.Node]ids.Alloc{mine: ours, other: theirs} {
			tx.PutNode(&node.Node{ID: n, SecretHash: wire.HashNodeSecret(string(n))})
			tx.PutAlloc(&alloc.Alloc{
				ID:        a,
				Node:      n,
				Namespace: "default",
				Job:       "web",
				TaskGroup: "g",

				JobCreateIndex: j.CreateIndex,
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"nomad/jobs/web", "nomad/jobs/web/g/u", "nomad/jobs/db", "app"} {
		c.Must(t, &variables.Put{At: variables.At{Namespace: "default", Path: path}, Sealed: []byte("value")})
	}
	return c, New(Config{Base: serving.Base{Store: c.Store, Cluster: leader.Alone{}}, Secrets: clear{}})
}

func request(n ids.Node, wait time.Duration, tasks ...wire.TaskSources) *wire.SourcesRequest {
	return &wire.SourcesRequest{
		NodeIdentity: wire.NodeIdentity{Node: n, Secret: secretOf(n)},
		Tasks:        tasks,
		Wait:         wait,
	}
}

func reading(a ids.Alloc, task string, paths ...string) wire.TaskSources {
	out := wire.TaskSources{Alloc: a, Task: task}
	for _, p := range paths {
		out.Sources = append(out.Sources, render.Source{Kind: render.Variable, Name: p})
	}
	return out
}

// Given nodes that ask, then each hears of what the tasks that are placed on it may read: the variables of their own
// job, group and task; and of nothing else, whatever it asks for.
func TestANodeReadsForItsOwnTasksAlone(t *testing.T) {
	_, e := begin(t)
	for name, c := range map[string]struct {
		as   ids.Node
		asks wire.TaskSources
		want string // in the first value, or in the refusal
		not  bool   // it is refused
	}{
		"its job's":                 {mine, reading(ours, "t", "nomad/jobs/web"), "value", false},
		"one that is not there":     {mine, reading(ours, "t", "nomad/jobs/web/g"), "", false},
		"its own":                   {mine, reading(ours, "u", "nomad/jobs/web/g/u"), "value", false},
		"another task's":            {mine, reading(ours, "t", "nomad/jobs/web/g/u"), "nomad/jobs/web/g/t", true},
		"another job's":             {mine, reading(ours, "t", "nomad/jobs/db"), "its own job", true},
		"what is nobody's":          {mine, reading(ours, "t", "app"), "its own job", true},
		"for an alloc of another":   {mine, reading(theirs, "t", "nomad/jobs/web"), "not placed on this node", true},
		"for an alloc of nobody":    {mine, reading("gone", "t", "nomad/jobs/web"), "not placed on this node", true},
		"for a task that is not":    {mine, reading(ours, "x", "nomad/jobs/web"), "no such task", true},
		"as the other, for its own": {other, reading(theirs, "t", "nomad/jobs/web"), "value", false},
	} {
		reply, err := e.sources(t.Context(), request(c.as, 0, c.asks))
		if err != nil || len(reply.Answers) != 1 {
			t.Fatalf("%s: %+v %v", name, reply, err)
		}
		a := reply.Answers[0]
		got := a.Refused
		if len(a.Values) > 0 {
			got = a.Values[0].Values[wire.SourceText]
		}
		if (a.Refused != "") != c.not || a.Final != c.not || !strings.Contains(got, c.want) ||
			c.not && len(a.Values) > 0 {
			t.Errorf("%s: %q, %q", name, a.Refused, got)
		}
	}
	forged := request(mine, 0, reading(ours, "t", "nomad/jobs/web"))
	forged.Secret = secretOf(other)
	if _, err := e.sources(t.Context(), forged); !fault.Has(err, fault.Denied) {
		t.Errorf("by another's secret: %v", err)
	}
}

// Given a node that has seen what its tasks read, when it asks again, then the call waits, and ends with the change of
// one of them, of which alone it tells; or with its wait, with nothing.
func TestAChangeEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := begin(t)
		one, two := reading(ours, "t", "nomad/jobs/web"), reading(ours, "u", "nomad/jobs/web/g/u")
		first, err := e.sources(t.Context(), request(mine, time.Minute, one, two))
		if err != nil || len(first.Answers) != 2 {
			t.Fatal(first, err)
		}
		one.Seen, two.Seen = first.Answers[0].Mark, first.Answers[1].Mark
		begun := time.Now()
		same, err := e.sources(t.Context(), request(mine, time.Minute, one, two))
		if err != nil || len(same.Answers) != 0 || time.Since(begun) != time.Minute {
			t.Errorf("nothing changed: %+v %v after %s", same, err, time.Since(begun))
		}
		got := make(chan *wire.SourcesReply, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			reply, _ := e.sources(ctx, request(mine, time.Hour, one, two))
			got <- reply
		}()
		synctest.Wait()
		c.Must(t, &variables.Put{At: variables.At{Namespace: "default", Path: "nomad/jobs/db"}, Sealed: []byte("x")})
		synctest.Wait()
		if len(got) != 0 {
			t.Error("another's variable has ended the wait")
		}
		own := variables.At{Namespace: "default", Path: "nomad/jobs/web/g/u"}
		c.Must(t, &variables.Put{At: own, Sealed: []byte("new")})
		reply := <-got
		if len(reply.Answers) != 1 || reply.Answers[0].Task != "u" ||
			!strings.Contains(reply.Answers[0].Values[0].Values[wire.SourceText], "new") ||
			!strings.Contains(reply.Answers[0].Values[0].Values[wire.SourceText], variable.SealedName("default", "")) {
			t.Errorf("told was %+v", reply)
		}
	})
}
