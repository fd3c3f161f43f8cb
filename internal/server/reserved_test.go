package server

import (
	"context"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/model/trust"
	"berth/internal/wire"
)

// Given a person with every right, and a call that did not come by an HTTP surface which judges it first, when a job is
// registered in the namespace of Berth's own, then it is refused; an agent registers one.
func TestNobodyRegistersBerthsOwnJobs(t *testing.T) {
	_, here, there := serves(t, Config{}, trust.Principal{Role: trust.Node, ID: ids.New()})
	local := wire.For(t.Context(), wire.Person{Local: true, Name: "uid 0"})
	first, err := wire.ACLBootstrap.Call(local, here, &wire.ACLBootstrapRequest{})
	if err != nil {
		t.Fatal(err)
	}
	manager := wire.For(t.Context(), wire.Person{Token: first.Secret.Secret()})
	req := &wire.JobRegisterRequest{Job: &job.Job{
		Namespace:   ids.ReservedNamespace,
		ID:          "local-csi-own",
		Name:        "local-csi-own",
		Type:        job.TypeSystem,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    "default",
		TaskGroups:  []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "raw_exec"}}}},
	}}
	for what, c := range map[string]struct {
		ctx  context.Context
		conn wire.Conn
	}{
		"root of the server's machine": {local, here},
		"a manager":                    {manager, here},
		"a manager, by a node":         {manager, there[0]},
	} {
		_, err := wire.JobRegister.Call(c.ctx, c.conn, req)
		if !fault.Has(err, fault.Denied) || !strings.Contains(err.Error(), "holds Berth's own jobs") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := wire.JobRegister.Call(t.Context(), here, req); err != nil {
		t.Errorf("the agent itself: %v", err)
	}
}
