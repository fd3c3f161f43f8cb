package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"berth/internal/agent/datadir"
	"berth/internal/agent/lastrun"
	"berth/internal/agent/leaving"
	"berth/internal/agent/runinfo"
	"berth/internal/base/bootclock"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logfeed"
	"berth/internal/base/logkey"
	"berth/internal/client"
	"berth/internal/client/suspects"
	"berth/internal/httpapi"
	"berth/internal/httpapi/audit"
	"berth/internal/model/trust"
	"berth/internal/port/credentials"
	"berth/internal/port/hostfs"
	"berth/internal/server"
)

// stopTimeout bounds how long a stopping -dev agent waits for its tasks beyond their own kill timeouts.
const stopTimeout = 60 * time.Second

// Agent is one running agent.
type Agent struct {
	cfg     *Config
	log     *slog.Logger
	feed    *logfeed.Feed
	level   *slog.LevelVar // of the log
	server  *server.Server
	own     *credentials.Credentials // of the server; nil: others do not reach it
	clock   *bootclock.Clock         // of the node's calls to CSI plugins
	client  *client.Client           // nil: the node is refused, or there is none
	refused error                    // why the node does not start; nil: it does, or there is to be none
	conn    *grpc.ClientConn
	http    *httpapi.Server
	audit   *audit.Log // nil: there is none
	begun   time.Time
	started bool          // the halves run
	runs    suspects.Runs // this one of the agent, and how that before it ended
	version string
}

// Run runs an agent until ctx ends, then stops it: with -dev its tasks first, otherwise they go on. again is asked
// again while stopping takes long; the second request ends the wait.
func Run(ctx context.Context, cfg *Config, version string, asked Signals) (err error) {
	feed := &logfeed.Feed{}
	to, least := cfg.logTo(os.Stderr)
	log := feed.Logger(to)
	a := &Agent{
		cfg:     cfg,
		log:     log,
		feed:    feed,
		level:   least,
		clock:   bootclock.New(bootclock.Now),
		begun:   time.Now(),
		version: version,
	}
	if cfg.tempDir {
		datadir.WarnOfAbandoned(cfg.DataDir, os.Geteuid(), log)
		defer datadir.RemoveTemp(cfg.DataDir, log)
	}
	trial, err := datadir.Try(cfg.DataDir, os.Geteuid())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, trial.End(err != nil && !a.started)) }()
	run := a.record()
	defer func() { run.End(err) }()
	if !cfg.Server.Enabled {
		return a.runNode(ctx, asked)
	}
	if err := a.openAudit(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.audit.Close()) }()
	entries, err := a.listen(ctx)
	if err != nil {
		return err
	}
	if err := a.build(ctx); err != nil {
		return errors.Join(err, shut(entries))
	}
	defer func() { _ = a.conn.Close() }() // in-process: nobody is at the other end any more
	return a.run(ctx, entries, asked)
}

// record begins the record of this run, and says how the run before ended.
func (a *Agent) record() *lastrun.Run {
	boot, err := hostfs.BootID()
	if err != nil {
		a.log.Warn("a crash of before the machine was started is not told from one of now", logkey.Error, err)
	}
	run, end := lastrun.Begin(filepath.Join(a.cfg.DataDir, "run"), boot, lastrun.KernelLog, a.log)
	a.runs = suspects.Runs{Now: run.ID(), Crashed: end.Crashes}
	if end.Crash != "" {
		a.log.Warn("the last run of the agent has crashed", logkey.Error, end.Crash, logkey.Path, end.Report)
	}
	return run
}

// openAudit opens the record of who did what by the API, if there is to be one.
func (a *Agent) openAudit() (err error) {
	if to := a.cfg.auditTo(); to.Path != "" {
		a.audit, err = audit.Open(to, a.log)
	}
	return err
}

func (c *Config) auditTo() audit.Config { return c.Audit.Config(c.dev, c.DataDir) }

// warnOfNode says what an agent that is not root cannot do, and what this kernel cannot keep tasks from.
func warnOfNode(log *slog.Logger, uid int, scopes bool) {
	if uid != 0 {
		log.Warn("the agent does not run as root: it mounts no volumes and confines no tasks, as its task drivers say "+
			"below; run it as root", "uid", uid)
	}
	if !scopes {
		log.Warn("tasks of driver exec may hand each other open files, also of other allocations, by sockets without " +
			"a file: this kernel has no scopes of Landlock; Linux 6.12 and later have, with landlock among the modules of " +
			"boot option lsm=")
	}
}

// run starts the halves and the surface, each on the one before, and stops them in the reverse order.
func (a *Agent) run(ctx context.Context, entries []httpapi.Entry, asked Signals) (err error) {
	base := context.WithoutCancel(ctx)
	servers, serverCtx := lifecycle.NewGroup(base)
	nodes, nodeCtx := lifecycle.NewGroup(base)
	surface, surfaceCtx := lifecycle.NewGroup(base)
	// The port outlives the server that serves what comes to it.
	ports, portCtx := lifecycle.NewGroup(base)
	defer func() {
		ports.Stop()
		err = errors.Join(err, ports.Wait())
	}()
	port, err := a.openPort(ctx)
	if err != nil {
		return errors.Join(err, shut(entries))
	}
	if port != nil {
		ports.Go("port for nodes", func() error { return port.Run(portCtx) })
	}
	a.started = true
	servers.Go("server", func() error { return a.server.Run(serverCtx, port.Listeners()) })
	if going, err := a.takeUp(ctx, serverCtx); !going {
		servers.Stop()
		return errors.Join(err, servers.Wait(), shut(entries))
	}
	bundled := a.bundled()
	if a.client != nil {
		nodes.Go("boot clock", func() error { return a.clock.Run(nodeCtx) })
		nodes.Go("node", func() error { return a.client.Run(nodeCtx) })
	}
	surface.Go("http", func() error { return a.http.Run(surfaceCtx, entries...) })
	surface.Go("reload", func() error { return a.rereads(surfaceCtx, asked.Reload) })
	surface.Go("bundled", func() error { return bundled(surfaceCtx) })

	select {
	case <-ctx.Done():
	case <-ports.Done():
	case <-servers.Done():
	case <-nodes.Done():
	case <-surface.Done():
	}
	leave := a.leaves(ctx, asked)
	var stopErr error
	if ctx.Err() != nil && a.cfg.dev && a.client != nil {
		stopErr = a.stopTasks(base, asked.Again)
	}
	leaves := leave(serverCtx)
	surface.Stop()
	err = surface.Wait()
	nodes.Stop()
	err = errors.Join(err, nodes.Wait())
	if a.cfg.dev && a.client != nil {
		err = errors.Join(err, a.client.Disclose())
	}
	servers.Stop()
	ended := servers.Wait()
	if leaves && trust.IsRemoved(ended) {
		ended = nil // as it was to be
	}
	return errors.Join(err, ended, stopErr)
}

// leaves is how the halves leave their cluster, if the signal that stops the agent is one by which they are to. asks:
// the server has asked to be taken off.
func (a *Agent) leaves(ctx context.Context, asked Signals) func(context.Context) (asks bool) {
	if ctx.Err() != nil {
		a.log.Info("berth stops")
	}
	on := leaving.On{Interrupt: a.cfg.LeaveOnInterrupt, Terminate: a.cfg.LeaveOnTerminate}
	if ctx.Err() == nil || asked.By == nil || a.cfg.dev || !on.By(asked.By()) {
		if a.server != nil {
			a.server.Stops()
		}
		return func(context.Context) bool { return false }
	}
	l := &leaving.Leaver{Name: a.cfg.serverName(), Self: a.server, Servers: a.conn, Log: a.log}
	if a.server != nil {
		l.Asked()
	}
	return func(ctx context.Context) bool {
		holds := a.client != nil && a.client.Leaves()
		return a.server != nil && l.Leave(ctx, holds)
	}
}

// takeUp has the servers take up a state that was put back beside them. going: the node may start; it may not where the
// state could not be taken up, or the agent is to stop, or its servers have ended.
func (a *Agent) takeUp(ctx, servers context.Context) (going bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(servers, cancel)()
	taken, err := datadir.TakeUp(ctx, a.cfg.DataDir, a.conn)
	if taken {
		a.log.Warn("the servers have the state of a backup; nothing is done with a volume before its recovery has "+
			"ended", "hint", "berth operator recovery status")
	}
	if ctx.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// stopTasks ends the tasks of a -dev agent within their kill timeouts. Those that it does not wait for are left to the
// next start with its data_dir, or killed if there can be none.
func (a *Agent) stopTasks(ctx context.Context, again <-chan struct{}) error {
	fate := "left to the next start"
	if a.cfg.tempDir {
		fate = "killed"
	}
	sctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	g, gctx := lifecycle.NewGroup(sctx)
	done := make(chan struct{})
	g.Go("impatience", func() error {
		select {
		case <-again:
			a.log.Warn("asked to stop again: tasks that still run are "+fate, logkey.Path, a.cfg.DataDir)
			cancel()
		case <-done:
		case <-gctx.Done():
		}
		return nil
	})
	err := a.client.Shutdown(gctx, true)
	close(done)
	if err != nil && a.cfg.tempDir {
		err = errors.Join(err, a.client.Kill(ctx))
	}
	return errors.Join(err, g.Wait())
}

// Describe implements httpapi.Self.
func (a *Agent) Describe() (map[string]any, map[string]map[string]string) {
	config := a.cfg.describe(a.version, levelName(a.level))
	stats := map[string]map[string]string{
		"berth":   {"version": a.version, "uptime": time.Since(a.begun).Round(time.Second).String()},
		"runtime": runinfo.Runtime(),
	}
	if a.cfg.Client.Enabled {
		stats["client"] = a.describeNode()
	}
	if a.server == nil {
		return config, stats
	}
	w := a.server.Counters()
	stats["raft_log"] = map[string]string{"entries": fmt.Sprint(w.Entries), "fsyncs": fmt.Sprint(w.Appends + w.Stable),
		"bytes": fmt.Sprint(w.Bytes)}
	stats["raft_commands"] = map[string]string{} // that this server brought into the log, by name
	for name, n := range a.server.Commands() {
		stats["raft_commands"][name] = strconv.FormatUint(n, 10)
	}
	return config, stats
}

// describeNode says how the node half stands.
func (a *Agent) describeNode() map[string]string {
	if a.client == nil {
		return map[string]string{"node_id": "", "accepted": a.refused.Error()}
	}
	accepted := "yes"
	if err := a.client.Refusal(); err != nil {
		accepted = err.Error()
	}
	ttl, last := a.client.Heartbeat()
	out := map[string]string{
		"node_id":         string(a.client.ID()),
		"armed":           strconv.FormatBool(a.client.Armed()),
		"accepted":        accepted,
		"seen_index":      fmt.Sprint(a.client.Seen().Index),
		"known_servers":   strings.Join(a.cfg.knownServers(), ","),
		"num_allocations": strconv.Itoa(a.client.Allocs()),
		"heartbeat_ttl":   ttl.String(),
		"last_heartbeat":  "never",
	}
	if !last.IsZero() {
		out["last_heartbeat"] = time.Since(last).String()
	}
	return out
}

// NodeID implements httpapi.Self.
func (a *Agent) NodeID() ids.Node {
	if a.client == nil {
		return ""
	}
	return a.client.ID()
}

// Health implements httpapi.Self.
func (a *Agent) Health(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	out := map[string]error{}
	if a.server != nil {
		out["server"] = a.server.Ready(ctx)
	}
	if a.refused != nil {
		out["client"] = a.refused
	}
	if a.client == nil {
		return out
	}
	out["client"] = nil
	select {
	case <-a.client.Registered():
	default:
		out["client"] = errors.New("the node has not been registered yet")
	}
	if err := a.client.Refusal(); err != nil {
		out["client"] = err
	}
	return out
}

func (a *Agent) dir(path ...string) string {
	return filepath.Join(append([]string{a.cfg.DataDir}, path...)...)
}
