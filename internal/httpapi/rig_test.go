package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/redact"
	"berth/internal/httpapi"
	"berth/internal/httpapi/access"
	"berth/internal/httpapi/gauges"
	"berth/internal/httpapi/sandbox"
	"berth/internal/model/alloc"
	"berth/internal/model/cores"
	"berth/internal/model/node"
	"berth/internal/model/plugin"
	"berth/internal/model/volume"
	"berth/internal/testkit/oneserver"
	"berth/internal/testkit/pluginjobs"
	"berth/internal/wire"
)

// canary is a secret that must never be seen in a reply.
const canary = "canary-5c1d9e"

// rig is a whole server behind the HTTP surface, with one node that says what the tests want.
type rig struct {
	handler *httpapi.Server
	t       testing.TB
	url     string
	conn    wire.Conn
	place   func(ids.Node, []*plugin.Instance) // of plugins that a node has: their word counts in placed allocs alone
	servers *counting                          // conn, as the HTTP surface uses it
	index   func() uint64                      // of the servers' state
	expired func() redact.Secret               // makes a token that is good for nothing any more
	node    *fakeNode
}

// self is the agent's half of GET /v1/agent/self. It shows the observed configuration: what the shipped agent shows is
// held against it where that is made, in internal/agent.
type self struct {
	node   ids.Node
	health map[string]error
	config map[string]any
}

func (s *self) Describe() (map[string]any, map[string]map[string]string) {
	return s.config, map[string]map[string]string{"client": {"node_id": string(s.node)}}
}
func (s *self) Gauges(context.Context) []gauges.Gauge {
	odd, web := map[string]string{"volume": `d"b`, "namespace": "n"}, map[string]string{"volume": "web"}
	return []gauges.Gauge{
		{Name: "berth.client.volume.used_bytes", Value: 5, Labels: odd},
		{Name: "berth.client.volume.age_seconds", Value: 1, Labels: odd},
		{Name: "berth.client.volume.used_bytes", Value: 7, Labels: web},
	}
}
func (s *self) NodeID() ids.Node                        { return s.node }
func (s *self) Health(context.Context) map[string]error { return s.health }

// logs replays lines, then follows until the reader goes.
type logs struct{ lines []string }

func (l logs) Follow(ctx context.Context, _ slog.Level, _ bool, each func([]byte) error) error {
	for _, line := range l.lines {
		if err := each([]byte(line)); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// here evaluates job files in the test's own process. That the shipped one evaluates them in a child, and what becomes
// of a child, is tested with the program.
type here struct{}

func (here) Parse(_ context.Context, req *sandbox.Request) (json.RawMessage, error) {
	return sandbox.Evaluate(req)
}

// newRig starts everything and ends it with the test.
func newRig(t testing.TB) *rig { return newRigWith(t, func(*node.Node) {}) }

// newRigWith starts everything with another node.
func newRigWith(t testing.TB, change func(*node.Node)) *rig {
	t.Helper()
	s, conn := oneserver.Start(t)
	n := joinNode(t, s.Reversed().Dial, conn, change)
	place := func(on ids.Node, all []*plugin.Instance) { pluginjobs.Place(t, s, s.Store().Snapshot, on, all) }
	place(n.id.Node, n.info.CSI)
	servers := &counting{Conn: conn}
	h := httpapi.New(httpapi.Config{
		Servers: servers,
		Region:  "global",
		Log:     slog.New(slog.DiscardHandler),
		Self: &self{
			node:   n.id.Node,
			health: map[string]error{"server": nil, "client": nil},
			config: readSample(t, "GET_agent_self.200").Body.(map[string]any)["config"].(map[string]any),
		},
		Logs:   logs{[]string{"one\n", "two\n"}},
		Parser: here{},
	})
	web := httptest.NewServer(h.Handler(access.Network{Hosts: []string{"berth.example"}}))
	t.Cleanup(web.Close)
	r := &rig{
		t:       t,
		url:     web.URL,
		conn:    conn,
		place:   place,
		servers: servers,
		index:   func() uint64 { return s.Store().Snapshot().Index() },
		expired: func() redact.Secret { return oneserver.ExpiredToken(t, s) },
		node:    n,
		handler: h,
	}
	if len(n.info.CSI) > 0 {
		until(r, "/v1/plugins?type=csi", func(l []*api.CSIPluginListStub) bool {
			return len(l) > 0 && l[0].ControllersHealthy > 0
		})
		oneserver.AwaitNegotiated(t, s, n.info.CSI[0].Plugin)
	}
	return r
}

// answer is a reply as a client sees it.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) index(t testing.TB) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(a.header.Get("X-Nomad-Index"), 10, 64)
	if err != nil {
		t.Fatalf("the index header is %q: %v", a.header.Get("X-Nomad-Index"), err)
	}
	return n
}

// into decodes the body, which must be JSON.
func (a *answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
}

// try makes a request; body is sent as it is when it is a string or bytes, as JSON otherwise.
func (r *rig) try(method, path string, body any, header ...string) *answer {
	r.t.Helper()
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	case []byte:
		data = b
	default:
		var err error
		if data, err = json.Marshal(b); err != nil {
			r.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return &answer{resp.StatusCode, resp.Header, got}
}

// must makes a request that succeeds.
func (r *rig) must(method, path string, body any) *answer {
	r.t.Helper()
	a := r.try(method, path, body)
	if a.status != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a
}

// get reads a path and decodes it.
func (r *rig) get(path string, into any) *answer {
	r.t.Helper()
	a := r.must("GET", path, nil)
	a.into(r.t, into)
	return a
}

// until asks again, by blocking queries, until ok.
func until[T any](r *rig, path string, ok func(T) bool) T {
	r.t.Helper()
	index, deadline := uint64(0), time.Now().Add(time.Minute)
	for {
		var v T
		sep := "?"
		if bytes.ContainsRune([]byte(path), '?') {
			sep = "&"
		}
		a := r.get(fmt.Sprintf("%s%sindex=%d&wait=2s", path, sep, index), &v)
		if ok(v) {
			return v
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: still %s", path, a.body)
		}
		index = a.index(r.t)
	}
}

// fakeNode is a node that runs nothing: it says that whatever it is asked to run runs, and that whatever it is asked to
// stop has stopped. Its controller makes volumes out of words.
type fakeNode struct {
	id     wire.NodeIdentity
	info   *node.Node
	failed map[ids.Job]bool // jobs whose tasks fail
}

func testInfo(id ids.Node) *node.Node {
	now := time.Now().UTC()
	caps := plugin.Capabilities{
		ControllerService: true,
		CreateDelete:      true,
		CreateSnapshot:    true,
		ListSnapshots:     true,
		ListVolumes:       true,
		Clone:             true,
		ControllerExpand:  true,
		ExpandOnline:      true,
		Stage:             true,
		Stats:             true,
	}
	instance := func(role plugin.Role, a string) *plugin.Instance {
		return &plugin.Instance{
			Plugin:       "disk",
			Role:         role,
			Alloc:        ids.Alloc(a),
			Node:         id,
			State:        plugin.Ready,
			Provider:     "disk.example",
			Version:      "1.0",
			Scope:        plugin.ScopeCluster,
			Capabilities: caps,
			StorageNode:  "store-1",
			Topology:     &plugin.Topology{Segments: map[string]string{"zone": "z1"}},
			Updated:      now,
		}
	}
	one := ids.New()
	return &node.Node{
		ID:         id,
		Name:       "n1",
		Datacenter: "dc1",
		NodePool:   "default",
		NodeClass:  "big",
		Address:    "127.0.0.1",
		Attributes: map[string]string{"nomad.version": "2.0.5", "os.name": "debian", "kernel.name": "linux"},
		Meta:       map[string]string{"rack": "r1"},
		Drivers: map[string]*node.Driver{"exec": {
			Detected:          true,
			Healthy:           true,
			HealthDescription: "Healthy",
			Attributes:        map[string]string{"driver.exec": "1"},
			UpdateTime:        now,
		},
			"raw_exec": {Detected: true, Healthy: true, HealthDescription: "Healthy", NoMounts: true, UpdateTime: now}},
		HostVolumes: map[string]*node.HostVolume{"certs": {Name: "certs", Path: "/srv/certs", ReadOnly: true}},
		CSI:         []*plugin.Instance{instance(plugin.RoleController, one), instance(plugin.RoleNode, one)},
		Resources: node.Resources{
			CPUShares:      1e5,
			CPUCores:       2,
			MemoryMB:       1e5,
			DiskMB:         1e6,
			IP:             "127.0.0.1",
			Device:         "lo",
			MinDynamicPort: 20000,
			MaxDynamicPort: 32000,
			Cores:          []cores.Core{{ID: 0, BaseMHz: 2300}, {ID: 1, BaseMHz: 2300}},
		},
		Reserved: node.Resources{CPUShares: 100, MemoryMB: 64, ReservedPorts: []int{22}},
	}
}

// joinNode registers the node and lets it live until the test ends.
func joinNode(
	t testing.TB, dial func(context.Context) (net.Conn, error), conn wire.Conn, change func(*node.Node),
) *fakeNode {
	t.Helper()
	id := wire.NodeIdentity{Node: ids.Node(ids.New()), Secret: wire.Secrets{Values: map[string]string{"id": ids.New()}}}
	n := &fakeNode{id: id, info: testInfo(id.Node), failed: map[ids.Job]bool{"fails": true}}
	change(n.info)
	if _, err := wire.NodeRegister.Call(t.Context(), conn,
		&wire.NodeRegisterRequest{NodeIdentity: id, Info: n.info}); err != nil {
		t.Fatal(err)
	}
	allocs, err := wire.NodeAllocs.Open(t.Context(), conn, &wire.NodeAllocsRequest{NodeIdentity: id})
	if err != nil {
		t.Fatal(err)
	}
	work, err := wire.NodeControllerCalls.Open(t.Context(), conn, &wire.ControllerCallsRequest{NodeIdentity: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.NodeInventory.Call(t.Context(), conn,
		&wire.InventoryReport{NodeIdentity: id, Full: true}); err != nil {
		t.Fatal(err)
	}
	go n.run(t.Context(), conn, allocs)
	go n.control(work)
	n.serve(t, dial)
	return n
}

func (n *fakeNode) run(ctx context.Context, conn wire.Conn, stream *wire.Stream[wire.Empty, wire.AllocSet]) {
	for {
		set, err := stream.Recv()
		if err != nil {
			return
		}
		req := &wire.NodeUpdateRequest{NodeIdentity: n.id}
		for _, b := range set.Bundles {
			if b.Alloc.ClientTerminal() ||
				b.Alloc.ClientStatus == alloc.ClientRunning && b.Alloc.DesiredStatus == alloc.DesiredRun {
				continue
			}
			req.Allocs = append(req.Allocs, n.state(b))
		}
		if len(req.Allocs) == 0 {
			continue
		}
		if _, err := wire.NodeUpdate.Call(ctx, conn, req); err != nil {
			return
		}
	}
}

func (n *fakeNode) state(b alloc.Bundle) *alloc.Alloc {
	now := time.Now().UTC()
	out := &alloc.Alloc{
		ID:                b.Alloc.ID,
		ClientStatus:      alloc.ClientRunning,
		ClientDescription: "Tasks are running",
		TaskStates:        map[string]*alloc.TaskState{},
	}
	state := alloc.TaskState{
		State:     alloc.TaskRunning,
		StartedAt: now,
		Events: []*alloc.TaskEvent{{
			Type:           alloc.EventStarted,
			Time:           now.UnixNano(),
			DisplayMessage: "Task started by client",
			Details:        map[string]string{"message": "Task started by client"},
		}},
	}
	switch {
	case b.Alloc.DesiredStatus != alloc.DesiredRun:
		out.ClientStatus = alloc.ClientComplete
		state.State = alloc.TaskDead
		state.FinishedAt = now
	case n.failed[b.Alloc.Job]:
		out.ClientStatus = alloc.ClientFailed
		state.State = alloc.TaskDead
		state.FinishedAt = now
		state.Failed = true
	}
	for _, t := range b.Job.Group(b.Alloc.TaskGroup).Tasks {
		s := state
		out.TaskStates[t.Name] = &s
	}
	return out
}

// control answers controller work: everything succeeds but a volume of the name refused; a volume's external id is made
// of its name.
func (n *fakeNode) control(stream *wire.Stream[wire.ControllerResult, wire.ControllerCall]) {
	for {
		w, err := stream.Recv()
		if err != nil {
			return
		}
		out := &wire.ControllerResult{Kind: w.Kind, Subject: w.Subject, Generation: w.Generation}
		if w.Kind == wire.CallCreate && strings.HasPrefix(w.Create.Name, "refused") {
			out.Err = &wire.CallError{
				Kind:    uint8(fault.Invalid),
				Code:    3,
				Retry:   volume.RetryNever,
				Message: `the plugin refuses "refused"`,
			}
			if stream.Send(out) != nil {
				return
			}
			continue
		}
		switch w.Kind {
		case wire.CallCreate:
			out.Created = &wire.CreatedVolume{
				ExternalID: "ext-" + w.Create.Name,
				Capacity:   max(w.Create.Spec.CapacityMin, 1<<20),
				Context:    map[string]string{"c": "1"},
				Topologies: []map[string]string{{"zone": "z1"}},
			}
		case wire.CallSnapshot:
			out.Snapshot = &wire.CreatedSnapshot{
				ExternalID: "snap-" + w.Snapshot.Name,
				SourceID:   w.Snapshot.SourceID,
				Size:       42,
				CreateTime: time.Now().UnixNano(),
				Ready:      true,
			}
		case wire.CallExpand:
			out.Capacity = w.Volume.Min
		}
		if stream.Send(out) != nil {
			return
		}
	}
}

// serve connects to the server and answers what servers forward to nodes.
func (n *fakeNode) serve(t testing.TB, dial func(context.Context) (net.Conn, error)) {
	t.Helper()
	raw, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.SendHello(raw, n.id); err != nil {
		t.Fatal(err)
	}
	ws := wire.NewServer(nil)
	registerRun(ws)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	one := wire.NewOneConn(raw)
	go func() { ended <- ws.Run(ctx, one) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
