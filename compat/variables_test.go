package compat

import (
	"errors"

	"github.com/hashicorp/nomad/api"
)

// variablesAreKept writes variables as clients do, meets another write, lists, locks and deletes.
func variablesAreKept(a *agent) {
	vars := a.Variables()
	v := api.NewVariable("app/db")
	v.Items["k"] = "v"
	made, _, err := vars.CheckedCreate(v, nil)
	a.ok(err)
	var met api.ErrCASConflict
	if _, _, err := vars.CheckedCreate(v, nil); !errors.As(err, &met) || met.Conflict.ModifyIndex != made.ModifyIndex ||
		met.Conflict.Items["k"] != "v" {
		a.t.Errorf("made twice: %v", err)
	}
	made.Items["k"] = "w"
	made, _, err = vars.CheckedUpdate(made, nil)
	a.ok(err)
	got, meta, err := vars.Read("app/db", nil)
	a.ok(err)
	if got.Items["k"] != "w" || got.ModifyIndex != made.ModifyIndex || meta.LastIndex != made.ModifyIndex {
		a.t.Errorf("read is %+v at %d", got, meta.LastIndex)
	}
	if _, _, err := vars.Read("nothing", nil); !errors.Is(err, api.ErrVariablePathNotFound) {
		a.t.Errorf("what is not there: %v", err)
	}
	list, _, err := vars.PrefixList("app/", nil)
	a.ok(err)
	if len(list) != 1 || list[0].Path != "app/db" {
		a.t.Errorf("listed are %+v", list)
	}
	lock := &api.Variable{Path: "app/leader", Lock: &api.VariableLock{TTL: "15s", LockDelay: "1s"}}
	held, _, err := vars.AcquireLock(lock, nil)
	a.ok(err)
	if held.LockID() == "" {
		a.t.Fatalf("acquired is %+v", held)
	}
	_, _, err = vars.AcquireLock(lock, nil)
	a.refused(err, "409 (")
	_, _, err = vars.RenewLock(held, nil)
	a.ok(err)
	freed, _, err := vars.ReleaseLock(held, nil)
	a.ok(err)
	if freed.LockID() != "" {
		a.t.Errorf("released is %+v", freed)
	}
	if _, err := vars.CheckedDelete("app/db", made.ModifyIndex-1, nil); !errors.As(err, &met) {
		a.t.Errorf("deleted an older version: %v", err)
	}
	_, err = vars.Delete("app/db", nil)
	a.ok(err)
	_, err = vars.Delete("app/leader", nil)
	a.ok(err)
}
