// Package remote owns what servers ask of a node: to act on a task, to read its files and logs, to run a command in it,
// to tell what it uses, and to ask a plugin. Only package client imports it.
package remote

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logfeed"
	"berth/internal/base/retry"
	"berth/internal/client/allocdir"
	"berth/internal/client/allocrunner"
	"berth/internal/client/allocs"
	"berth/internal/client/checks"
	"berth/internal/client/csimanager/controller"
	"berth/internal/client/csimanager/meter"
	"berth/internal/client/disks"
	"berth/internal/client/host"
	"berth/internal/client/nodemeta"
	"berth/internal/client/servers"
	"berth/internal/client/servicesync"
	"berth/internal/model/alloc"
	"berth/internal/model/device"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// Volumes takes the word of a person about what is mounted, and tells what is held for an alloc; the node keeper does.
type Volumes interface {
	HeldBy(ids.Alloc) []wire.HeldVolume
	ForgetMount(path, reason, by string) error
	ReleaseVolume(key volume.StagingKey, reason, by string) error
}

// Usage tells how full the volumes in use are; the meter does.
type Usage interface {
	Of(volume.StagingKey) (meter.Reading, bool)
}

// Disks tells what allocs take of the disk; the sweep does.
type Disks interface {
	Of(ids.Alloc) (disks.Measured, bool)
}

// Config wires Methods.
type Config struct {
	Link *servers.Link
	// Reverse dials the connection on which servers call the node; nil: none is made.
	Reverse servers.Dialer
	DataDir string
	Allocs  *allocs.Allocs
	Host    *host.Host
	Meta    *nodemeta.Meta
	Plugins controller.Reads
	Volumes Volumes
	Usage   Usage
	Disks   Disks
	Devices Devices
	Checks  *checks.Keeper
	Consul  *servicesync.Keeper // nil: the node has no agent of it
	Feed    *logfeed.Feed       // the agent's log; nil: it keeps none to follow
	// Dirs tells of files that are followed.
	Dirs *hostfs.Directories
	Log  *slog.Logger
}

// Devices tells the figures of the node's devices.
type Devices interface{ Stats() []device.Stats }

// Methods answers the servers.
type Methods struct {
	cfg   Config
	usage usage
	// streams holds what reads the callers' side of open streams: it ends when its stream does.
	streams *lifecycle.Group
}

// New returns methods that serve nothing before Run.
func New(cfg Config) *Methods { return &Methods{cfg: cfg} }

// Run dials the connection on which servers call this node and serves on it, again and again.
func (m *Methods) Run(ctx context.Context) error {
	m.streams, _ = lifecycle.NewGroup(ctx)
	m.serve(ctx)
	return m.streams.Wait()
}

func (m *Methods) serve(ctx context.Context) {
	if m.cfg.Reverse == nil {
		return
	}
	for failures := 1; m.cfg.Link.AwaitRegistered(ctx); failures++ {
		begun, accepted := time.Now(), m.cfg.Link.Changed()
		err := m.serveOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > servers.Pause.Max { // one that ends sooner may have been refused
			failures = 1
		}
		if err != nil {
			m.cfg.Link.Failed("offer a connection to the servers", err)
		}
		// Servers that did not know the node's session know it once they accept it anew.
		retry.SleepOr(ctx, servers.Pause.Jittered(failures), accepted)
	}
}

func (m *Methods) serveOnce(ctx context.Context) error {
	conn, err := m.cfg.Reverse.Dial(ctx)
	if err != nil {
		return err
	}
	if err := wire.SendHello(conn, m.cfg.Link.Identity()); err != nil {
		_ = conn.Close() // the greeting failed: nothing was served
		return err
	}
	s := wire.NewServer(m.cfg.Log)
	m.register(s)
	return wire.ServeOne(ctx, s, conn)
}

// register registers the methods that servers call on a node.
func (m *Methods) register(s *wire.Server) {
	wire.AllocRestart.Serve(s, m.runRestart)
	wire.AllocSignal.Serve(s, m.runSignal)
	wire.AllocStats.Serve(s, m.runStats)
	wire.AllocChecks.Serve(s, m.runChecks)
	wire.AgentHostStats.Serve(s, m.runHost)
	wire.AgentMeta.Serve(s, m.runMeta)
	wire.AgentSetMeta.Serve(s, m.runSetMeta)
	wire.AllocFiles.Serve(s, m.runList)
	wire.AllocFileStat.Serve(s, m.runStat)
	wire.AllocFileRead.Serve(s, m.runRead)
	wire.AllocLogs.Serve(s, m.runLogs)
	wire.AllocExec.Serve(s, m.runExec)
	wire.AgentMonitor.Serve(s, m.runMonitor)
	wire.AgentGC.Serve(s, m.runGC)
	wire.AllocEndOrphan.Serve(s, m.runEndOrphan)
	wire.AgentForgetMount.Serve(s, m.runForgetMount)
	wire.AgentReleaseVolume.Serve(s, m.runReleaseVolume)
	wire.AllocOrphan.Serve(s, m.runOrphan)
	wire.AgentVolumeUsage.Serve(s, m.runVolumeUsage)
	m.cfg.Plugins.Register(s)
}

// forMe refuses what was meant for another node.
func (m *Methods) forMe(n ids.Node) error {
	if n != "" && n != m.cfg.Link.Node() {
		return fault.New(fault.Invalid, "call", fmt.Sprintf("node %q", n),
			fmt.Sprintf("this is node %q", m.cfg.Link.Node()))
	}
	return nil
}

func (m *Methods) target(ref wire.AgentRef) (*allocrunner.Runner, error) {
	if err := m.forMe(ref.Node); err != nil {
		return nil, err
	}
	return m.cfg.Allocs.Find(ref.Alloc)
}

// runRestart restarts tasks. An alloc that is not taken up is, which lets its tasks be.
func (m *Methods) runRestart(ctx context.Context, r *wire.AllocRestartRequest) (*wire.Empty, error) {
	a, err := m.target(r.AgentRef)
	if err != nil {
		return nil, err
	}
	if taken, err := m.cfg.Allocs.TakeUp(ctx, a.ID()); taken || err != nil {
		return &wire.Empty{}, err
	}
	return &wire.Empty{}, a.Restart(r.Task, r.AllTasks, r.NoShutdownDelay)
}

func (m *Methods) runSignal(ctx context.Context, r *wire.AllocSignalRequest) (*wire.Empty, error) {
	a, err := m.target(r.AgentRef)
	if err != nil {
		return nil, err
	}
	if err := a.Usable("signal"); err != nil {
		return nil, err
	}
	return &wire.Empty{}, a.Signal(ctx, r.Task, r.Signal)
}

func (m *Methods) runEndOrphan(ctx context.Context, r *wire.AgentRef) (*wire.Empty, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	return &wire.Empty{}, m.cfg.Allocs.EndOrphan(ctx, r.Alloc)
}

func (m *Methods) runMeta(_ context.Context, r *wire.AgentRef) (*wire.NodeMetaReply, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	return m.cfg.Meta.Show(), nil
}

func (m *Methods) runSetMeta(_ context.Context, r *wire.NodeMetaRequest) (*wire.NodeMetaReply, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	return m.cfg.Meta.Apply(r.Meta.Map())
}

func (m *Methods) runForgetMount(_ context.Context, r *wire.ForgetMountRequest) (*wire.Empty, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	return &wire.Empty{}, m.cfg.Volumes.ForgetMount(r.Path, r.Reason, r.By)
}

func (m *Methods) runReleaseVolume(_ context.Context, r *wire.ReleaseVolumeRequest) (*wire.Empty, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	return &wire.Empty{}, m.cfg.Volumes.ReleaseVolume(r.StagingKey, r.Reason, r.By)
}

func (m *Methods) runVolumeUsage(_ context.Context, r *wire.VolumeUsageRequest) (*wire.VolumeUsage, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	reading, known := m.cfg.Usage.Of(r.StagingKey)
	if !known {
		return nil, fault.New(fault.NotFound, "measure", `volume "`+r.ExternalID+`"`,
			"no task of this node has it, or none has for long: its plugin is asked within a minute of the first use")
	}
	out := &wire.VolumeUsage{Node: m.cfg.Link.Node(), Measured: reading.Measured}
	out.Allocs = slices.Sorted(maps.Keys(reading.Volume.Users))
	return out, nil
}

func (m *Methods) runOrphan(ctx context.Context, r *wire.AgentRef) (*wire.Orphan, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	b, received, err := m.cfg.Allocs.Orphan(ctx, r.Alloc)
	if err != nil {
		return nil, err
	}
	return &wire.Orphan{Bundle: b, Received: received, Volumes: m.cfg.Volumes.HeldBy(r.Alloc)}, nil
}

func (m *Methods) runGC(_ context.Context, r *wire.AgentRef) (*wire.Empty, error) {
	if err := m.forMe(r.Node); err != nil {
		return nil, err
	}
	return &wire.Empty{}, m.cfg.Allocs.Collect(r.Alloc)
}

// dir returns the directory of an alloc that is on this node.
func (m *Methods) dir(ref wire.AgentRef) (allocdir.Dir, error) {
	if _, err := m.target(ref); err != nil {
		return allocdir.Dir{}, err
	}
	return m.cfg.Allocs.AllocDir(ref.Alloc), nil
}

func (m *Methods) runList(_ context.Context, r *wire.AllocPath) (*wire.FilesReply, error) {
	d, err := m.dir(r.AgentRef)
	if err != nil {
		return nil, err
	}
	files, err := d.List(r.Path)
	return &wire.FilesReply{Files: files}, err
}

func (m *Methods) runStat(_ context.Context, r *wire.AllocPath) (*wire.FilesReply, error) {
	d, err := m.dir(r.AgentRef)
	if err != nil {
		return nil, err
	}
	file, err := d.Stat(r.Path)
	return &wire.FilesReply{Files: []wire.FileInfo{file}}, err
}

func (m *Methods) runRead(r *wire.FileReadRequest, s *wire.Stream[wire.StreamFrame, wire.Empty]) error {
	d, err := m.dir(r.AgentRef)
	if err != nil {
		return err
	}
	fromEnd, err := origin(r.Origin)
	if err != nil {
		return err
	}
	return d.Read(s.Context(), r.Path,
		allocdir.ReadRequest{
			Offset: r.Offset,
			Limit:  r.Limit,
			End:    fromEnd,
			Follow: r.Follow,
			Dirs:   m.cfg.Dirs,
		}, s.Send)
}

func origin(text string) (fromEnd bool, err error) {
	switch text {
	case "", "start":
		return false, nil
	case "end":
		return true, nil
	}
	return false,
		fault.WithHint(fault.New(fault.Invalid, "read", "", fmt.Sprintf("there is no origin %q", text)),
			"it is start or end")
}

func (m *Methods) runLogs(r *wire.AllocLogsRequest, s *wire.Stream[wire.StreamFrame, wire.Empty]) error {
	a, err := m.target(r.AgentRef)
	if err != nil {
		return err
	}
	if _, err := a.Task(r.Task); err != nil {
		return err
	}
	fromEnd, err := origin(r.Origin)
	if err != nil {
		return err
	}
	d := m.cfg.Allocs.AllocDir(r.Alloc)
	if !d.Exists() {
		return fault.New(fault.NotReady, "read log of", fmt.Sprintf("task %q", r.Task), "it has not started yet")
	}
	req := allocdir.ReadRequest{Offset: r.Offset, End: fromEnd, Follow: r.Follow, Dirs: m.cfg.Dirs}
	if !r.Follow {
		return d.Log(s.Context(), r.Task, r.Type, req, s.Send)
	}
	done := make(chan struct{})
	req.Done = done
	g, gctx := lifecycle.NewGroup(s.Context())
	g.Go("watch task "+r.Task, func() error { return m.closeWhenDead(gctx, a, r.Task, done) })
	err = d.Log(gctx, r.Task, r.Type, req, s.Send)
	g.Stop()
	if werr := g.Wait(); err == nil {
		err = werr
	}
	return err
}

// closeWhenDead closes done when a task will not write any more.
func (m *Methods) closeWhenDead(ctx context.Context, a *allocrunner.Runner, task string, done chan struct{}) error {
	t, err := a.Task(task)
	if err != nil {
		return err
	}
	for {
		changed := m.cfg.Allocs.Changed()
		if t.View().State == alloc.TaskDead {
			close(done)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (m *Methods) runMonitor(r *wire.AgentMonitorRequest, s *wire.Stream[wire.StreamFrame, wire.Empty]) error {
	if err := m.forMe(r.Node); err != nil {
		return err
	}
	if m.cfg.Feed == nil {
		return fault.New(fault.Unsupported, "monitor", fmt.Sprintf("node %q", m.cfg.Link.Node()),
			"this agent keeps no log to follow")
	}
	return m.cfg.Feed.Follow(s.Context(), logfeed.Level(r.Level), r.JSON, func(line []byte) error {
		return s.Send(&wire.StreamFrame{Data: line})
	})
}

func (m *Methods) runExec(r *wire.AllocExecRequest, s *wire.Stream[wire.ExecOutput, wire.ExecInput]) error {
	a, err := m.target(r.AgentRef)
	if err == nil {
		err = a.Usable("exec")
	}
	if err != nil {
		return err
	}
	name := r.Task
	if name == "" && len(a.Tasks()) == 1 {
		name = a.Tasks()[0]
	}
	t, err := a.Task(name)
	if err != nil {
		return err
	}
	if len(r.Command) == 0 {
		return fault.New(fault.Invalid, "run in", fmt.Sprintf("task %q", name), "the command is empty")
	}
	live, err := t.Live()
	if err != nil {
		return err
	}
	return m.execute(s, live, r)
}
