package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/testkit/servers"
	"berth/internal/wire"
)

// Given a node that is not Berth's, with a certificate, when it reports what no agent does, then that is refused before
// it is in the log, and the servers go on.
func TestNothingThatANodeReportsEndsAServer(t *testing.T) {
	t.Parallel()
	c := servers.Start(t, 3)
	leader := c.Leader()
	a := connect(t, c, leader)
	reg, err := wire.JobRegister.Call(t.Context(), leader.Conn, &wire.JobRegisterRequest{Job: &job.Job{
		Namespace:   ids.DefaultNamespace,
		ID:          "j",
		Name:        "j",
		Type:        job.TypeService,
		Priority:    50,
		Datacenters: []string{"*"},
		NodePool:    "default",
		TaskGroups:  []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := placed(t, leader, reg.Index)
	long := strings.Repeat("x", alloc.MaxReportedText+1)
	state := func(s *alloc.TaskState) *wire.NodeUpdateRequest {
		return update(a, &alloc.Alloc{
			ID:           id,
			ClientStatus: alloc.ClientFailed,
			TaskStates:   map[string]*alloc.TaskState{"t": s},
		})
	}
	many := make([]*alloc.TaskEvent, alloc.MaxEvents+1)
	for i := range many {
		many[i] = &alloc.TaskEvent{Type: "x"}
	}
	for what, req := range map[string]*wire.NodeUpdateRequest{
		"no alloc":        update(a, nil),
		"no state":        state(nil),
		"no event":        state(&alloc.TaskState{Events: []*alloc.TaskEvent{nil}}),
		"too many events": state(&alloc.TaskState{Events: many}),
		"a long event":    state(&alloc.TaskState{Events: []*alloc.TaskEvent{{Message: long}}}),
		"a long detail":   state(&alloc.TaskState{Events: []*alloc.TaskEvent{{Details: map[string]string{"k": long}}}}),
		"a long state":    state(&alloc.TaskState{State: long}),
		"a long reason":   update(a, &alloc.Alloc{ID: id, ClientStatus: alloc.ClientRunning, ClientDescription: long}),
		"no such status":  update(a, &alloc.Alloc{ID: id, ClientStatus: "no-such\n\x1b[31m"}),
	} {
		_, err := wire.NodeUpdate.Call(t.Context(), a.conn, req)
		if err == nil || fault.Has(err, fault.Unavailable) || strings.Contains(err.Error(), ".go:") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, info := range map[string]*node.Node{
		"no instance":    {CSI: []*plugin.Instance{nil}},
		"no host volume": {HostVolumes: map[string]*node.HostVolume{"hv": nil}},
		"no driver":      {Drivers: map[string]*node.Driver{"exec": nil}},
	} {
		info.ID = a.Node
		req := &wire.NodeRegisterRequest{NodeIdentity: a.NodeIdentity, Info: info}
		_, err := wire.NodeRegister.Call(t.Context(), a.conn, req)
		if err == nil || fault.Has(err, fault.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	usual := state(&alloc.TaskState{State: alloc.TaskDead, Failed: true})
	if _, err := wire.NodeUpdate.Call(t.Context(), a.conn, usual); err != nil {
		t.Errorf("what agents report is refused: %v", err)
	}
	for _, m := range c.Members {
		q := &wire.Query{Namespace: ids.DefaultNamespace}
		if _, err := wire.AllocList.Call(t.Context(), m.Conn, q); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

func update(a agent, list ...*alloc.Alloc) *wire.NodeUpdateRequest {
	return &wire.NodeUpdateRequest{NodeIdentity: a.NodeIdentity, Allocs: list}
}

// placed waits for an alloc after an index.
func placed(t *testing.T, m *servers.Member, index uint64) ids.Alloc {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		out, err := wire.AllocList.Call(ctx, m.Conn, &wire.Query{
			Namespace: ids.DefaultNamespace, MinIndex: index, Wait: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Items) > 0 {
			return out.Items[0].Alloc.ID
		}
	}
}
