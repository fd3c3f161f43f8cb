package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
)

// TestDeleteInUseIsRefused: given a volume in use, when it is to be deleted, then that is refused at once, before any
// call to its plugin, and the refusal says who uses it, where and since when.
func TestDeleteInUseIsRefused(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(writer{id: "user", volume: "a"}.hcl())
	user := m.running("user", 1)[0]
	pid := m.pid(user.ID, "write", "/bin/sh")
	m.lives(pid, 0)
	before := len(p.entries())

	err := m.api.Volumes().Delete(t.Context(), "a", nil, 0, nil)
	if err == nil {
		t.Fatal("a volume in use was deleted")
	}
	for _, word := range []string{user.ID[:8], "user", user.NodeID[:8], "since 20"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal does not say %q: %v", word, err)
		}
	}
	for _, e := range p.entries()[before:] {
		if e.RPC != "Probe" {
			t.Errorf("a call was made: %s", e)
		}
	}
	m.lives(pid, 0)
	v, _, err := m.api.Volumes().Get(t.Context(), "a", nil)
	if err != nil || len(v.WriteAllocs) != 1 {
		t.Errorf("the volume is now %+v, %v", v, err)
	}

	// What a person does next: stop the job, and delete with patience.
	m.tellStop("user")
	m.remove("a")
	p.atRest()
	if calls := p.calls(); !slices.Contains(calls, "Delete") {
		t.Errorf("the volume was never deleted: %v", calls)
	}
}

// TestSecondWriterWaits: given a volume with its single writer, when a second job wants it, then that waits, says for
// whom and since when, and starts when the first has released it.
func TestSecondWriterWaits(t *testing.T) {
	m := newMachine(t, false)
	p := m.localPlugin("own", "raw_exec")
	m.create("a", "own")
	m.run(writer{id: "first", volume: "a"}.hcl())
	first := m.running("first", 1)[0]
	m.lives(m.pid(first.ID, "write", "/bin/sh"), 0)

	r := m.run(writer{id: "second", volume: "a"}.hcl())
	eval := await(m, "the evaluation to end",
		func(ctx context.Context, o *api.QueryOptions) (*api.Evaluation, *api.QueryMeta, error) {
			return m.api.Evaluations().Get(ctx, r.EvalID, o)
		}, func(e *api.Evaluation) bool { return e.Status == api.EvalStatusComplete })
	if len(eval.FailedTGAllocs) == 0 || eval.BlockedEval == "" {
		t.Fatalf("the second job does not wait: %+v", eval)
	}
	var reasons []string
	for _, r := range eval.FailedTGAllocs["g"].Reasons {
		reasons = append(reasons, r.Reason+"; "+r.Hint)
	}
	for _, word := range []string{first.ID[:8], "first", "since 20"} {
		if !strings.Contains(strings.Join(reasons, "\n"), word) {
			t.Errorf("the reason does not say %q: %v", word, reasons)
		}
	}
	if all, _, err := m.api.Jobs().Allocations(t.Context(), "second", true, nil); err != nil || len(all) != 0 {
		t.Errorf("waiting is not failing: %v, %v", all, err)
	}

	stopped := time.Now()
	m.tellStop("first")
	second := m.running("second", 1)[0]
	t.Logf("the volume changed hands in %s", time.Since(stopped).Round(time.Millisecond))
	m.lives(m.pid(second.ID, "write", "/bin/sh"), 0)
	if log := m.seen(m.pid(second.ID, "write", "/bin/sh"), "/data/log"); log != "started\nstopped\nstarted\n" {
		t.Errorf("the volume tells: %q", log)
	}
	m.stopJob("second")
	p.atRest("a")
	m.remove("a")
}
