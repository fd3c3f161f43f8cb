// Package pluginhost owns the processes of plugins that are programs of their own, as others wrote them: it starts
// them, speaks the handshake and the base service of the public protocol with them, and finds them again after a
// restart of the agent. What a plugin is for, those know who use it: the drivers and the devices of others.
package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/internal/base/fault"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/port/hostfs"
	"berth/pluginproto/basepb"
	"berth/pluginproto/structspb"
)

// Config of a plugin.
type Config struct {
	Block  string         // the name of the agent's plugin block, and of the file in plugin_dir
	Path   string         // of the program
	Args   []string       // of the program
	Values map[string]any // the block's config
	Dir    string         // the plugin's own: its socket, what it says, and how it is found again
	// EndWithAgent: what it holds ends with the agent, and so does it.
	EndWithAgent bool
	ProbePeriod  time.Duration // how often it is asked whether it answers; 0: the default

	Dirs  *hostfs.Directories // tells when the plugin said something
	Ports [2]int              // the least and the highest port that the node gives to tasks
	Log   *slog.Logger
}

// Kind is what a plugin is for.
type Kind string

// Kinds of plugins.
const (
	Driver Kind = "driver"
	Device Kind = "device"
)

var kinds = map[basepb.PluginType]Kind{basepb.PluginType_DRIVER: Driver, basepb.PluginType_DEVICE: Device}

// Use is what a plugin is used for.
type Use struct {
	Kind Kind
	// HandsOn: a plugin of another kind is taken by a host of that kind. Otherwise it is refused.
	HandsOn bool
	// Open makes a process ready, which has its configuration. An error: it is of no use, and is ended.
	Open func(context.Context, *Process) (Connection, error)
	// Lost hears why the plugin is not there. It is started again.
	Lost func(error)
	// Answers hears why a plugin that is there does not answer, again and again; nil: it does again.
	Answers func(error)
	// Holds reports whether something needs the plugin while no agent is there: then it goes on.
	Holds func() bool
	// Kept reports whether something may need the process of an earlier run of the agent; nil: that is not known.
	Kept func() bool
}

// Connection is the use of one process, until it ends or ctx does.
type Connection interface {
	Follow(ctx context.Context) error
}

// Process is one process of a plugin that is connected.
type Process struct {
	Conn  *grpc.ClientConn
	About *basepb.PluginInfoResponse
	rec   *record
}

// Another is the error of a plugin that is for something else than it was started for. Its process goes on, and is
// found by a host of that kind.
type Another struct {
	Subject string
	Kind    Kind
}

func (e *Another) Error() string {
	return fmt.Sprintf("%s says that it is a %s plugin", e.Subject, e.Kind)
}

// Host keeps the process of one plugin.
type Host struct {
	cfg   Config
	use   Use
	group *lifecycle.Group // of Run; the plugin's processes are waited for in it

	mu      sync.Mutex
	name    string // as the plugin calls itself
	version string
}

// New returns a host that does nothing before Run.
func New(cfg Config, use Use) *Host {
	h := &Host{cfg: cfg, use: use, name: cfg.Block}
	if r := cfg.recorded(); r != nil {
		h.name = r.Name
	}
	return h
}

// Recorded is what the plugin said last that it is, as far as that is recorded; empty: it is not.
func (c Config) Recorded() Kind {
	r := c.recorded()
	switch {
	case r == nil:
		return ""
	case r.Kind == "": // an earlier version wrote it, which knew drivers alone
		return Driver
	}
	return r.Kind
}

// Name is what the plugin called itself last, and its block's when it was never there.
func (h *Host) Name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.name
}

// Version is that of the plugin, as it says; empty: it was not there yet.
func (h *Host) Version() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
}

// Subject names the plugin in errors.
func (h *Host) Subject() string { return h.cfg.subject(h.use.Kind) }

// StderrPath is where what the plugin says is read.
func (h *Host) StderrPath() string { return h.cfg.stderrPath() }

// Pauses before a plugin is started again that ended. One that ran for steadyAfter counts as one that did not fail.
var again = retry.Backoff{Min: time.Second, Max: 2 * time.Minute}

const steadyAfter = time.Minute

// Run keeps the plugin running and in use, until ctx ends. A plugin that holds something goes on then. It returns an
// *Another of a plugin of another kind, and nil otherwise.
func (h *Host) Run(ctx context.Context) error {
	// Its processes are not waited for at the end: they go on, and have to be reaped until then.
	h.group, _ = lifecycle.NewGroup(context.WithoutCancel(ctx))
	defer h.group.Stop()
	for failures := 0; ctx.Err() == nil; {
		begun := time.Now()
		p, s, err := h.connect(ctx)
		if err == nil {
			err = h.follow(ctx, p, s)
			h.leave(ctx, p)
		}
		if other := (*Another)(nil); errors.As(err, &other) {
			return other
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > steadyAfter {
			failures = 0
		}
		failures++
		h.cfg.Log.Warn("a plugin is not there", h.key(), h.Name(), logkey.Error, err, "tries", failures)
		h.use.Lost(err)
		again.Sleep(ctx, failures)
	}
	return nil
}

// key is the attribute of log lines that names the plugin.
func (h *Host) key() string { return string(h.use.Kind) }

func (h *Host) follow(ctx context.Context, p *Process, s Connection) error {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("prints", func() error { return h.prints(gctx, p.Conn) })
	g.Go("words", func() error { return h.listen(gctx) })
	g.Go("probe", func() error { return h.probe(gctx, p) })
	g.Go("use", func() error {
		defer g.Stop()
		return s.Follow(gctx)
	})
	return g.Wait()
}

// leave gives the connection back. The process goes on when it holds something and ctx ended with the agent.
func (h *Host) leave(ctx context.Context, p *Process) {
	switch {
	case ctx.Err() != nil:
		if h.cfg.EndWithAgent || !h.use.Holds() {
			h.end(ctx, p)
		}
	case !p.rec.lives():
		h.cfg.Log.Warn("a plugin has ended", h.key(), h.Name(), logkey.PID, p.rec.PID)
	default:
		h.end(ctx, p) // it lives, and does not speak
	}
	if err := p.Conn.Close(); err != nil {
		h.cfg.Log.Warn("closing the connection to a plugin failed", h.key(), h.Name(), logkey.Error, err)
	}
}

// connect finds the plugin's process again, or starts one, and gives it its configuration.
func (h *Host) connect(ctx context.Context) (*Process, Connection, error) {
	p, s, errs := h.reconnect(ctx)
	if other := (*Another)(nil); p != nil || errors.As(errs, &other) {
		return p, s, errs
	}
	if err := errors.Join(h.endAll(), h.check(), h.prepare()); err != nil {
		return nil, nil, errors.Join(errs, err)
	}
	rec, err := h.launch(ctx)
	if err != nil {
		return nil, nil, errors.Join(errs, err)
	}
	p, s, err = h.open(ctx, rec)
	if other := (*Another)(nil); errors.As(err, &other) {
		if failed := h.save(rec); failed != nil {
			return nil, nil, errors.Join(failed, h.endAll())
		}
		return nil, nil, other
	}
	if err == nil {
		if err = h.save(rec); err != nil {
			err = errors.Join(err, p.Conn.Close())
		}
	}
	if err != nil {
		return nil, nil, fault.Note(errors.Join(err, h.endAll()), "use", h.Subject())
	}
	return p, s, nil
}

// reconnect finds the plugin's process of an earlier run of the agent. No process and no error: there is none. One that
// does not answer is ended by who calls, before another is started.
func (h *Host) reconnect(ctx context.Context) (*Process, Connection, error) {
	rec := h.cfg.recorded()
	if rec == nil || !rec.lives() {
		if rec = h.found(); rec == nil {
			return nil, nil, nil
		}
	}
	if now := h.cfg.stamp(); rec.Program != "" && rec.Program != now {
		if h.use.Kept != nil && !h.use.Kept() {
			h.cfg.Log.Info("a plugin is another program now, or has other arguments; it is started again", h.key(),
				h.Name(), logkey.PID, rec.PID)
			return nil, nil, nil
		}
		h.cfg.Log.Warn("a plugin is another program now, or has other arguments, and runs as it was, for it may hold "+
			"something: end its process to have it started again", h.key(), h.Name(), logkey.PID, rec.PID)
	}
	p, s, err := h.open(ctx, rec)
	other := (*Another)(nil)
	if err == nil || errors.As(err, &other) {
		if failed := h.save(rec); failed != nil {
			if p != nil {
				failed = errors.Join(failed, p.Conn.Close())
			}
			return nil, nil, failed
		}
		return p, s, err
	}
	h.cfg.Log.Warn("a plugin of an earlier run of the agent does not answer; another is started",
		h.key(), h.Name(), logkey.PID, rec.PID, logkey.Error, err)
	return nil, nil, fault.Note(err, "connect again with", h.Subject())
}

// open connects with a plugin's process and makes it ready, as the protocol has it.
func (h *Host) open(ctx context.Context, rec *record) (p *Process, s Connection, err error) {
	conn, err := dial(ctx, rec.Address)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, conn.Close())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	base := basepb.NewBasePluginClient(conn)
	about, err := base.PluginInfo(ctx, &basepb.PluginInfoRequest{})
	if err != nil {
		return nil, nil, Problem(err, "ask", "who it is")
	}
	rec.Name, rec.Kind = about.GetName(), kinds[about.GetType()]
	if err := h.admit(about); err != nil {
		return nil, nil, err
	}
	if err := h.configure(ctx, base); err != nil {
		return nil, nil, err
	}
	p = &Process{Conn: conn, About: about, rec: rec}
	if s, err = h.use.Open(ctx, p); err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	h.name, h.version = about.GetName(), about.GetPluginVersion()
	h.mu.Unlock()
	return p, s, nil
}

// Problem gives what a plugin answered a kind. Only the status tells what to do about it: FailedPrecondition with a
// detail says whether trying again can help; another answer is the plugin's last word.
func Problem(err error, op, what string) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return fault.Wrap(err, fault.Unavailable, op, what)
	}
	kind, text := fault.Invalid, st.Message()
	switch st.Code() {
	case codes.Unavailable, codes.Canceled:
		kind = fault.NotReady
	case codes.DeadlineExceeded:
		// The plugin's half of the connection knows the same bound: whose end of the call is seen first is chance.
		kind, text = fault.Unavailable, "no answer in time: "+text
	case codes.Aborted, codes.ResourceExhausted:
		kind = fault.Unavailable
	case codes.Unimplemented:
		kind = fault.Unsupported
	case codes.PermissionDenied:
		kind = fault.Denied
	}
	for _, d := range st.Details() {
		if r, ok := d.(*structspb.RecoverableError); ok && r.GetRecoverable() {
			kind = fault.Unavailable
		}
	}
	return fault.New(kind, op, what, text)
}

// Clip bounds a text of a plugin.
func Clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "\uFFFD") }

func (c Config) subject(k Kind) string { return string(k) + " plugin " + strconv.Quote(c.Block) }
