package variables_test

import (
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/model/partition"
	"berth/internal/model/variable"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/partitioning"
	"berth/internal/server/fsm/variables"
	"berth/internal/testkit/localstate"
)

var (
	here = variables.At{Namespace: "default", Path: "app/db"}
	zero = uint64(0)
)

func write(t *testing.T, c *localstate.Cluster, cmd fsm.Command) *variables.Outcome {
	t.Helper()
	return c.Must(t, cmd).(*variables.Outcome)
}

// Given a variable, when it is written, deleted and made anew, then its items go with it, its create index is that of
// its making, and a write that is refused changes nothing and shows what is there.
func TestAVariableHasItsItemsWithIt(t *testing.T) {
	c := localstate.New(t)
	made := write(t, c, &variables.Put{At: here, Sealed: []byte{1}, Check: &zero})
	if made.Conflict != "" || string(made.Sealed) != "\x01" || made.Variable.CreateIndex != made.Variable.ModifyIndex {
		t.Fatalf("made: %+v %+v", made, made.Variable)
	}
	met := write(t, c, &variables.Put{At: here, Sealed: []byte{2}, Check: &zero})
	if met.Conflict == "" || string(met.Sealed) != "\x01" || met.Variable.ModifyIndex != made.Variable.ModifyIndex {
		t.Errorf("a conflict: %+v %+v", met, met.Variable)
	}
	over := write(t, c, &variables.Put{At: here, Sealed: []byte{2}, Check: &made.Variable.ModifyIndex})
	if over.Conflict != "" || string(over.Sealed) != "\x02" ||
		over.Variable.CreateIndex != made.Variable.CreateIndex ||
		over.Variable.ModifyIndex <= made.Variable.ModifyIndex {
		t.Errorf("written over: %+v %+v", over, over.Variable)
	}
	if gone := write(t, c, &variables.Delete{At: here, Check: &zero}); gone.Conflict == "" {
		t.Error("deleted what was to be nothing")
	}
	write(t, c, &variables.Delete{At: here})
	s := c.Store.Snapshot()
	if s.Variable(nil, here.Namespace, here.Path) != nil ||
		s.Secret(nil, variable.SealedName(here.Namespace, here.Path)) != nil {
		t.Error("something is left of it")
	}
	if again := write(t, c, &variables.Delete{At: here}); again.Conflict != "" {
		t.Errorf("deleted twice: %s", again.Conflict)
	}
}

// Given a variable that is locked, then a lock that is taken keeps what it holds, what is given with it takes that
// place, and only its holder writes and releases.
func TestALockKeepsWhatAVariableHolds(t *testing.T) {
	c := localstate.New(t)
	lock := variable.Lock{ID: "a", TTL: variable.MinTTL}
	got := write(t, c, &variables.Acquire{At: here, Lock: lock, Empty: []byte{0}})
	if got.Conflict != "" || string(got.Sealed) != "\x00" || !got.Variable.Holds("a") {
		t.Fatalf("acquired: %+v", got)
	}
	for name, cmd := range map[string]fsm.Command{
		"a write":          &variables.Put{At: here, Sealed: []byte{9}},
		"another's write":  &variables.Put{At: here, Sealed: []byte{9}, Lock: "b"},
		"a deletion":       &variables.Delete{At: here},
		"another's end":    &variables.Release{At: here, Lock: "b"},
		"no end":           &variables.Release{At: here},
		"another's loss":   &variables.Lose{At: here, Lock: "b"},
		"another's lock":   &variables.Acquire{At: here, Lock: variable.Lock{ID: "b"}},
		"a lock by its id": &variables.Acquire{At: here, Lock: variable.Lock{ID: "b"}, Again: true},
	} {
		if out := write(t, c, cmd); out.Conflict == "" || string(out.Sealed) != "\x00" || !out.Variable.Holds("a") {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if out := write(t, c, &variables.Put{At: here, Sealed: []byte{1}, Lock: "a"}); out.Conflict != "" ||
		!out.Variable.Holds("a") {
		t.Errorf("its holder writes: %+v", out)
	}
	if out := write(t, c, &variables.Release{At: here, Lock: "a"}); out.Conflict != "" || out.Variable.Lock != nil ||
		string(out.Sealed) != "\x01" {
		t.Errorf("released: %+v", out)
	}
	again := write(t, c, &variables.Acquire{At: here, Lock: lock, Empty: []byte{0}})
	if again.Conflict != "" || string(again.Sealed) != "\x01" {
		t.Errorf("acquired again: %+v", again)
	}
}

// A namespace that is not there has no variables, and one that has some is not deleted.
func TestVariablesAreInANamespace(t *testing.T) {
	c := localstate.New(t)
	there := variables.At{Namespace: "app", Path: "x"}
	_, _, err := c.Propose(t.Context(), &variables.Put{At: there, Sealed: []byte{1}})
	if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), `no namespace "app"`) {
		t.Errorf("written into nothing: %v", err)
	}
	c.Must(t, &partitioning.NamespacePut{Namespace: &partition.Namespace{Name: "app"}})
	write(t, c, &variables.Put{At: there, Sealed: []byte{1}})
	_, _, err = c.Propose(t.Context(), &partitioning.NamespaceDelete{Name: "app"})
	if !fault.Has(err, fault.Busy) || !strings.Contains(err.Error(), "berth var purge -namespace app x") {
		t.Errorf("deleted with a variable in it: %v", err)
	}
	write(t, c, &variables.Delete{At: there})
	c.Must(t, &partitioning.NamespaceDelete{Name: "app"})
}
