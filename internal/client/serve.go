package client

import (
	"context"
	"fmt"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/allocdir"
	"berth/internal/client/allocrunner"
	"berth/internal/model/alloc"
	"berth/internal/wire"
)

// serveReverse dials the connection on which servers call this node and serves on it, again and again.
func (c *Client) serveReverse(ctx context.Context) error {
	if c.cfg.DialReverse == nil || !c.session.awaitRegistered(ctx) {
		return nil
	}
	for failures := 0; ctx.Err() == nil; failures++ {
		served, err := c.serveOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if served {
			failures = 0
		}
		if err != nil {
			c.session.unreachable("offer a connection to the servers", err)
		}
		sleep(ctx, failures)
	}
	return nil
}

func (c *Client) serveOnce(ctx context.Context) (served bool, err error) {
	conn, err := c.cfg.DialReverse(ctx)
	if err != nil {
		return false, err
	}
	if err := wire.SendHello(conn, c.Identity()); err != nil {
		_ = conn.Close() // the greeting failed: nothing was served
		return false, err
	}
	s := wire.NewServer()
	c.Register(s)
	return true, wire.ServeOne(ctx, s, conn)
}

// Register registers the methods that servers call on a node.
func (c *Client) Register(s *wire.Server) {
	wire.RunRestart.Serve(s, c.runRestart)
	wire.RunSignal.Serve(s, c.runSignal)
	wire.RunStats.Serve(s, c.runStats)
	wire.RunHost.Serve(s, c.runHost)
	wire.RunList.Serve(s, c.runList)
	wire.RunStat.Serve(s, c.runStat)
	wire.RunRead.Serve(s, c.runRead)
	wire.RunLogs.Serve(s, c.runLogs)
	wire.RunExec.Serve(s, c.runExec)
	wire.RunMonitor.Serve(s, c.runMonitor)
	wire.RunGC.Serve(s, c.runGC)
	for _, more := range c.parts.Serve {
		more(s)
	}
}

// forMe refuses what was meant for another node.
func (c *Client) forMe(n ids.Node) error {
	if n != "" && n != c.id.Node {
		return fault.New(fault.Invalid, "call", fmt.Sprintf("node %q", n), fmt.Sprintf("this is node %q", c.id.Node))
	}
	return nil
}

func (c *Client) target(ref wire.RunRef) (*allocrunner.Runner, error) {
	if err := c.forMe(ref.Node); err != nil {
		return nil, err
	}
	return c.allocs.find(ref.Alloc)
}

func (c *Client) runRestart(_ context.Context, r *wire.RunRestartRequest) (*wire.Empty, error) {
	a, err := c.target(r.RunRef)
	if err != nil {
		return nil, err
	}
	return &wire.Empty{}, a.Restart(r.Task, r.AllTasks, r.NoShutdownDelay)
}

func (c *Client) runSignal(ctx context.Context, r *wire.RunSignalRequest) (*wire.Empty, error) {
	a, err := c.target(r.RunRef)
	if err != nil {
		return nil, err
	}
	return &wire.Empty{}, a.Signal(ctx, r.Task, r.Signal)
}

func (c *Client) runGC(_ context.Context, r *wire.RunRef) (*wire.Empty, error) {
	if err := c.forMe(r.Node); err != nil {
		return nil, err
	}
	return &wire.Empty{}, c.Collect(r.Alloc)
}

// Collect removes what is left on the node of an alloc that has ended and whose end the servers know; an empty id means
// all of them.
func (c *Client) Collect(id ids.Alloc) error {
	if id != "" {
		a, err := c.allocs.find(id)
		if err != nil {
			return err
		}
		if !a.Released() {
			return fault.WithHint(fault.New(fault.Conflict, "collect", fmt.Sprintf("allocation %q", id), "it has not ended"), "stop it first")
		}
	}
	return c.allocs.collect(id)
}

// dir returns the directory of an alloc that is on this node.
func (c *Client) dir(ref wire.RunRef) (allocdir.Dir, error) {
	if _, err := c.target(ref); err != nil {
		return allocdir.Dir{}, err
	}
	return allocdir.New(c.AllocDir(), ref.Alloc), nil
}

func (c *Client) runList(_ context.Context, r *wire.RunPath) (*wire.RunListReply, error) {
	d, err := c.dir(r.RunRef)
	if err != nil {
		return nil, err
	}
	files, err := d.List(r.Path)
	return &wire.RunListReply{Files: files}, err
}

func (c *Client) runStat(_ context.Context, r *wire.RunPath) (*wire.RunListReply, error) {
	d, err := c.dir(r.RunRef)
	if err != nil {
		return nil, err
	}
	file, err := d.Stat(r.Path)
	return &wire.RunListReply{Files: []wire.FileInfo{file}}, err
}

func (c *Client) runRead(r *wire.RunReadRequest, s *wire.Stream[wire.RunFrame, wire.Empty]) error {
	d, err := c.dir(r.RunRef)
	if err != nil {
		return err
	}
	fromEnd, err := origin(r.Origin)
	if err != nil {
		return err
	}
	return d.Read(s.Context(), r.Path, allocdir.ReadRequest{Offset: r.Offset, Limit: r.Limit, End: fromEnd, Follow: r.Follow}, s.Send)
}

func origin(text string) (fromEnd bool, err error) {
	switch text {
	case "", "start":
		return false, nil
	case "end":
		return true, nil
	}
	return false, fault.WithHint(fault.New(fault.Invalid, "read", "", fmt.Sprintf("there is no origin %q", text)), "it is start or end")
}

func (c *Client) runLogs(r *wire.RunLogsRequest, s *wire.Stream[wire.RunFrame, wire.Empty]) error {
	a, err := c.target(r.RunRef)
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
	d := allocdir.New(c.AllocDir(), r.Alloc)
	if !d.Exists() {
		return fault.New(fault.NotReady, "read log of", fmt.Sprintf("task %q", r.Task), "it has not started yet")
	}
	req := allocdir.ReadRequest{Offset: r.Offset, End: fromEnd, Follow: r.Follow}
	if !r.Follow {
		return d.Log(s.Context(), r.Task, r.Type, req, s.Send)
	}
	done := make(chan struct{})
	req.Done = done
	g, gctx := lifecycle.NewGroup(s.Context())
	g.Go("watch task "+r.Task, func() error { return c.closeWhenDead(gctx, a, r.Task, done) })
	err = d.Log(gctx, r.Task, r.Type, req, s.Send)
	g.Stop()
	if werr := g.Wait(); err == nil {
		err = werr
	}
	return err
}

// closeWhenDead closes done when a task will not write any more.
func (c *Client) closeWhenDead(ctx context.Context, a *allocrunner.Runner, task string, done chan struct{}) error {
	t, err := a.Task(task)
	if err != nil {
		return err
	}
	for {
		changed := c.allocs.Changed()
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

func (c *Client) runMonitor(r *wire.RunMonitorRequest, s *wire.Stream[wire.RunFrame, wire.Empty]) error {
	if err := c.forMe(r.Node); err != nil {
		return err
	}
	if c.parts.Monitor == nil {
		return fault.New(fault.Unsupported, "monitor", fmt.Sprintf("node %q", c.id.Node), "this agent keeps no log to follow")
	}
	return c.parts.Monitor(r, s)
}

func (c *Client) runExec(r *wire.RunExecRequest, s *wire.Stream[wire.RunExecOut, wire.RunExecIn]) error {
	a, err := c.target(r.RunRef)
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
	return c.execute(s, live, r)
}
