package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
)

// Config of a proxy.
type Config struct {
	Endpoint string // the public socket: a path or a unix:// URL (the CSI_ENDPOINT of the plugin's task)
	Record   string // file that every entry is appended to
	Rules    string // file of rules, read again whenever it changed; may be empty or absent
	Plugin   string // plugin id, for the record
	Name     string // of this proxy, unique in a record; empty derives one from plugin and endpoint
	Backend  Backend
	Witness  Witness // asked about what stands around calls; nil: nobody observe it
	Restart  bool    // after the end of the plugin begin it anew; otherwise Run returns, as the plugin's task would
	Log      *slog.Logger
}

// errCrashed ends a plugin without a chance to tidy up, and is the end that its task then has.
var errCrashed = errors.New("the plugin was killed by a rule of the proxy")

// startTimeout is how long a plugin may take to listen.
const startTimeout = 30 * time.Second

// Proxy is one proxy. Run does its work; the other methods are for tests in the same process.
type Proxy struct {
	cfg    Config
	socket string
	rec    *recorder
	rules  *ruleset
	calls  atomic.Int64

	mu    sync.Mutex
	run   *pluginRun
	runs  int
	ready lifecycle.Signal
	paths map[string]bool // where the plugin has mounted: staging paths and targets
}

// New checks the configuration. It starts nothing.
func New(cfg Config) (*Proxy, error) {
	p := &Proxy{
		cfg:    cfg,
		socket: strings.TrimPrefix(cfg.Endpoint, "unix://"),
		rules:  &ruleset{path: cfg.Rules},
		paths:  map[string]bool{},
	}
	switch {
	case !filepath.IsAbs(p.socket):
		return nil, fmt.Errorf("the endpoint %q of the CSI proxy is no absolute path of a unix socket", cfg.Endpoint)
	case cfg.Record == "":
		return nil, errors.New("the CSI proxy is given no file for its record")
	case cfg.Backend == nil:
		return nil, errors.New("the CSI proxy is given no plugin")
	}
	if p.cfg.Name == "" {
		// a restarted proxy of the same task has the same name
		p.cfg.Name = cfg.Plugin + "-" + ids.Segment(p.socket)[:8]
	}
	if p.cfg.Log == nil {
		p.cfg.Log = slog.New(slog.DiscardHandler)
	}
	return p, nil
}

// Run lives until ctx ends, or, without Config.Restart, until the plugin has ended; then it returns the plugin's end.
func Run(ctx context.Context, cfg Config) error {
	p, err := New(cfg)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// Run lives until ctx ends, or, without Config.Restart, until the plugin has ended.
func (p *Proxy) Run(ctx context.Context) (err error) {
	if p.rec, err = openRecorder(p.cfg.Record); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.rec.close()) }()
	for {
		p.mu.Lock()
		p.runs++
		n := p.runs
		p.mu.Unlock()
		l := &pluginRun{p: p, number: n}
		err := l.run(ctx)
		if writing := p.rec.write(Entry{
			Kind:   PluginEnds,
			Proxy:  p.cfg.Name,
			Run:    n,
			Plugin: p.cfg.Plugin,
			Node:   l.node,
			Text:   text(err),
		}); writing != nil {
			return writing
		}
		if ctx.Err() != nil {
			return nil
		}
		if !p.cfg.Restart {
			return err
		}
		p.cfg.Log.Info("the plugin behind the proxy has ended; it begins anew", "run", n, "error", err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// pluginRun is one run of the plugin.
type pluginRun struct {
	p      *Proxy
	number int
	node   string
	conn   *grpc.ClientConn
	kill   context.CancelCauseFunc

	mu   sync.Mutex
	drop context.CancelFunc // ends the present server and its connections
}

func (l *pluginRun) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	private := filepath.Join(dir, "p.sock")
	g, gctx := lifecycle.NewGroup(ctx)
	pctx, kill := context.WithCancelCause(gctx)
	l.kill = kill
	g.Go("plugin", func() error {
		err := l.p.cfg.Backend.Run(pctx, private, l.started)
		switch {
		case errors.Is(context.Cause(pctx), errCrashed):
			return errCrashed
		case err != nil && pctx.Err() == nil:
			return err
		}
		g.Stop()
		return nil
	})
	g.Go("proxy", func() error {
		defer kill(nil) // the plugin never outlives its front
		return l.serve(gctx, private)
	})
	return g.Wait()
}

func (l *pluginRun) started(pid int) {
	if err := l.p.rec.write(Entry{
		Kind:   PluginStarts,
		Proxy:  l.p.cfg.Name,
		Run:    l.number,
		Plugin: l.p.cfg.Plugin,
		PID:    pid,
	}); err != nil {
		l.p.cfg.Log.Error("the record cannot be written", "error", err)
		l.kill(err)
	}
}

// serve waits for the plugin, then answers on the public socket until the run ends.
func (l *pluginRun) serve(ctx context.Context, private string) error {
	if err := waitListening(ctx, private); err != nil {
		return err
	}
	conn, err := grpc.NewClient("unix://"+private, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	l.conn = conn
	l.askNode(ctx)
	for ctx.Err() == nil {
		if err := l.listen(ctx); err != nil {
			return err
		}
	}
	return nil
}

// askNode learns the storage node id, which node calls do not carry. A plugin without a node service has none.
func (l *pluginRun) askNode(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	info, err := pb.NewNodeClient(l.conn).NodeGetInfo(ctx, &pb.NodeGetInfoRequest{})
	if err != nil {
		l.p.cfg.Log.Info("the plugin tells no node id", "code", status.Code(err).String())
		return
	}
	l.node = info.GetNodeId()
}

// listen serves one server; drop-socket ends it and the caller makes the next.
func (l *pluginRun) listen(ctx context.Context) error {
	if err := os.Remove(l.p.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	sock, err := (&net.ListenConfig{}).Listen(ctx, "unix", l.p.socket)
	if err != nil {
		return fmt.Errorf("listen in place of the plugin: %w", err)
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(l.handle),
		grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(1<<30), grpc.MaxSendMsgSize(1<<30))
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	l.mu.Lock()
	l.drop = drop
	l.mu.Unlock()
	l.p.setRun(l)
	defer l.p.setRun(nil)
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("serve", func() error {
		err := s.Serve(sock)
		if gctx.Err() != nil || errors.Is(err, grpc.ErrServerStopped) {
			return nil
		}
		return err
	})
	g.Go("stop", func() error { <-gctx.Done(); s.Stop(); return nil })
	return g.Wait()
}

// dropSocket closes every connection of callers. It does not wait for them, for it is called by one of their calls.
func (l *pluginRun) dropSocket() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

func waitListening(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", socket)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the plugin behind the proxy does not listen: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p *Proxy) setRun(l *pluginRun) {
	p.mu.Lock()
	p.run = l
	p.mu.Unlock()
	p.ready.Notify()
}

// current waits for a run that answers.
func (p *Proxy) current(ctx context.Context) (*pluginRun, error) {
	for {
		c := p.ready.C()
		p.mu.Lock()
		l := p.run
		p.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-c:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// WaitReady waits until the plugin is served, and returns which run of it that is.
func (p *Proxy) WaitReady(ctx context.Context) (int, error) {
	l, err := p.current(ctx)
	if err != nil {
		return 0, err
	}
	return l.number, nil
}

// Crash kills the plugin as it is. With Config.Restart another run follows; WaitReady waits for it.
func (p *Proxy) Crash(ctx context.Context) error {
	l, err := p.current(ctx)
	if err != nil {
		return err
	}
	p.setRun(nil)
	l.kill(errCrashed)
	return nil
}

// LoseMounts unmounts all that the plugin has mounted, as the end of a FUSE daemon does.
func (p *Proxy) LoseMounts(ctx context.Context) error {
	l, err := p.current(ctx)
	if err != nil {
		return err
	}
	return l.loseMounts()
}

func (l *pluginRun) call() string {
	return l.p.cfg.Name + "-" + strconv.FormatInt(l.p.calls.Add(1), 10)
}
