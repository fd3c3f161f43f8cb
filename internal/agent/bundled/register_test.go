package bundled

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/volumestore"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// servers keep jobs and nodes as servers do, as far as the bundled plugin sees.
type servers struct {
	mu    sync.Mutex
	jobs  map[ids.Job]*job.Job
	nodes map[ids.Node]bool
	index uint64
	// volumes are the external ids of those that the servers know, by their ids.
	volumes map[ids.Volume]string
	// before is called before a registration is looked at; nil: nothing is.
	before func()
}

const one, two = ids.Node("11111111-aaaa"), ids.Node("22222222-bbbb")

func (s *servers) register(_ context.Context, r *wire.JobRegisterRequest) (*wire.JobRegisterReply, error) {
	if s.before != nil {
		s.before()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	has := uint64(0)
	if old := s.jobs[r.Job.ID]; old != nil {
		has = old.JobModifyIndex
	}
	if r.EnforceIndex && r.ModifyIndex != has {
		return nil, fault.New(fault.Conflict, "", "", "Enforcing job modify index")
	}
	s.index++
	r.Job.JobModifyIndex = s.index
	s.jobs[r.Job.ID] = r.Job
	return &wire.JobRegisterReply{}, nil
}

func (s *servers) list(_ context.Context, r *wire.VolumeListRequest) (*wire.VolumeLines, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &wire.VolumeLines{}
	for id, external := range s.volumes {
		if r.Plugin == PluginID && r.Lines && r.Namespace == wire.AllNamespaces {
			line := wire.VolumeLine{ID: volume.ID{Namespace: "default", ID: id}, Plugin: PluginID}
			line.ExternalID = external
			out.Lines = append(out.Lines, line)
		}
	}
	return out, nil
}

// of is a plugin of a node that is registered with the servers.
func (s *servers) of(t *testing.T, n ids.Node) *Plugin {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	work, ctx := lifecycle.NewGroup(ctx)
	srv := wire.NewServer(nil)
	wire.JobRegister.Serve(srv, s.register)
	wire.JobGet.Serve(srv, func(_ context.Context, r *wire.Ref[ids.Job]) (*wire.One[wire.JobView], error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if j := s.jobs[r.ID]; j != nil && r.Namespace == ids.ReservedNamespace {
			return &wire.One[wire.JobView]{Item: &wire.JobView{Job: j}}, nil
		}
		return &wire.One[wire.JobView]{}, nil
	})
	wire.VolumeList.Serve(srv, s.list)
	wire.NodeGet.Serve(srv, func(_ context.Context, r *wire.Ref[ids.Node]) (*wire.NodeGetReply, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		reply := &wire.NodeGetReply{}
		if s.nodes[r.ID] {
			reply.Item = &node.Node{ID: r.ID}
		}
		return reply, nil
	})
	pipe := wire.NewPipe()
	work.Go("serve", func() error { return srv.Run(ctx, pipe.Listener()) })
	conn, err := wire.Connect(pipe.Dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		if err := work.Wait(); err != nil {
			t.Error(err)
		}
	})
	s.mu.Lock()
	s.nodes[n] = true
	s.mu.Unlock()
	return &Plugin{Servers: conn, Node: n, Dir: "/v", Log: slog.New(slog.DiscardHandler)}
}

func (s *servers) pinned() map[ids.Job]ids.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[ids.Job]ids.Node{}
	for id, j := range s.jobs {
		out[id] = pinnedTo(j)
	}
	return out
}

func run(t *testing.T, p *Plugin) {
	t.Helper()
	registered := make(chan struct{})
	close(registered)
	if err := p.Run(t.Context(), registered); err != nil {
		t.Fatal(err)
	}
}

func newServers() *servers { return &servers{jobs: map[ids.Job]*job.Job{}, nodes: map[ids.Node]bool{}} }

// Given the copy of the identity of a directory that is not there, when an agent starts, then its log says so at ERROR
// and what to mount, and the job of the plugin names the copy.
func TestADirectoryThatIsNotThereIsSaidByTheAgent(t *testing.T) {
	s := newServers()
	p := s.of(t, one)
	var said bytes.Buffer
	p.Dir, p.Log = filepath.Join(t.TempDir(), "volumes"), slog.New(slog.NewTextHandler(&said, nil))
	run(t, p)
	if said.Len() > 0 {
		t.Errorf("of a new one it says:\n%s", said.String())
	}
	if err := volumestore.Keep(volumestore.Copy(p.Dir), volumestore.Identity{Instance: "a"}); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	if !strings.Contains(said.String(), "level=ERROR") || !strings.Contains(said.String(), "mount it on "+p.Dir) {
		t.Errorf("it says:\n%s", said.String())
	}
	args, _ := s.jobs[PluginID].TaskGroups[0].Tasks[0].Config["args"].([]any)
	if i := slices.Index(args, any("--identity-copy")); i < 0 || args[i+1] != volumestore.Copy(p.Dir) {
		t.Errorf("the plugin is started with %q", args)
	}
}

// Given servers that know volumes of a node and of another one, and a directory of volumes that nobody has begun, as
// after an upgrade with its disk away, when the agent starts, then no plugin begins it, and the log names the volumes
// of this node and what to mount; a store that was begun there and has none is said; with none known it may be begun.
func TestADirectoryThatNobodyHasBegunIsNotTheStoreOfKnownVolumes(t *testing.T) {
	s := newServers()
	p := s.of(t, one)
	var said bytes.Buffer
	p.Dir, p.Log = filepath.Join(t.TempDir(), "volumes"), slog.New(slog.NewTextHandler(&said, nil))
	start := func() error {
		t.Helper()
		again := *p
		again.asks, again.answered = false, false
		said.Reset()
		again.Begin()
		before := volumestore.Judge(p.Dir, volumestore.Copy(p.Dir))
		run(t, &again)
		return before
	}
	s.volumes = map[ids.Volume]string{"kept": "vol-a@" + string(one), "other": "vol-b@" + string(two), "made": ""}
	if err := start(); !fault.Has(err, fault.NotReady) {
		t.Errorf("before the servers have answered: %v", err)
	}
	text := said.String()
	for _, want := range []string{"level=ERROR", "volumes of this node: default/kept;", "mount it on " + p.Dir} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if err := volumestore.Judge(p.Dir, volumestore.Copy(p.Dir)); !fault.Has(err, fault.Conflict) {
		t.Errorf("after they have: %v", err)
	}
	delete(s.volumes, "kept")
	if err := start(); !fault.Has(err, fault.Conflict) || said.Len() > 0 {
		t.Errorf("of a new one: %v, and it says:\n%s", err, said.String())
	}
	if err := volumestore.Judge(p.Dir, volumestore.Copy(p.Dir)); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Mkdir(p.Dir, 0o700), os.WriteFile(filepath.Join(p.Dir, volumestore.IdentityFile),
		[]byte(`{"schema":1,"node":"n","instance":"a"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.volumes["kept"] = "vol-a@" + string(one)
	if err := start(); err != nil || !strings.Contains(said.String(), "has no volume") ||
		!strings.Contains(said.String(), "default/kept") {
		t.Errorf("of one that was begun: %v, and it says:\n%s", err, said.String())
	}
}

// TestEveryNodeHasItsOwnJob: given nodes beside servers, when their agents start, again and in any order, then each has
// one job that is its own and stays it; that of a node which is forgotten goes to who asks next.
func TestEveryNodeHasItsOwnJob(t *testing.T) {
	s := newServers()
	first, second := s.of(t, one), s.of(t, two)
	for _, p := range []*Plugin{first, second, first, second, second, first} {
		run(t, p)
	}
	want := map[ids.Job]ids.Node{"local-csi": one, "local-csi-22222222": two}
	if got := s.pinned(); !maps.Equal(got, want) {
		t.Errorf("the jobs are %v, want %v", got, want)
	}
	s.mu.Lock()
	delete(s.nodes, one)
	s.mu.Unlock()
	const three = ids.Node("33333333-cccc")
	run(t, s.of(t, three))
	run(t, second)
	want["local-csi"] = three
	if got := s.pinned(); !maps.Equal(got, want) {
		t.Errorf("with a node that is forgotten the jobs are %v, want %v", got, want)
	}
}

// TestTwoNodesAtOnceDoNotShareAJob: given two agents that start at once, when both have seen that nobody has the first
// job, then one of them gets it, and the other one another.
func TestTwoNodesAtOnceDoNotShareAJob(t *testing.T) {
	s := newServers()
	first, second := s.of(t, one), s.of(t, two)
	var begun atomic.Bool
	s.before = func() {
		if begun.CompareAndSwap(false, true) {
			run(t, second)
		}
	}
	run(t, first)
	if got := slices.Sorted(maps.Values(s.pinned())); !slices.Equal(got, []ids.Node{one, two}) {
		t.Errorf("the jobs are %v", s.pinned())
	}
}
