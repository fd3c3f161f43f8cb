// Package docker owns the driver "docker": a task is a container of the node's Docker daemon. The client makes it.
//
// Containers are the daemon's: they outlive the agent, and the next run finds them by what it wrote down, or by their
// names. What they write is kept by the daemon, and read by a process of the alloc's shim, so that it is in the same
// files as the output of other tasks whether an agent is there or not. Whether a container runs is the daemon's word.
package docker

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker/images"
	"berth/internal/port/driver/docker/spec"
)

// Name of the driver in a job's task block.
const Name = spec.Name

// DefaultSocket is where a daemon listens that nobody configured.
const DefaultSocket = "/var/run/docker.sock"

// Driver implements driver.Driver.
type Driver struct {
	cfg Config
	api *dockerapi.Client

	agentRun string // names this run, in commands of sessions: those of another have lost who held them

	changed lifecycle.Signal // whether the daemon is there

	mu    sync.Mutex
	group *lifecycle.Group // of Follow; what goes on when its caller has left
	now   driver.Fingerprint
	why   error            // why the daemon is not there; nil: it is
	tasks map[string]*task // those that were not stopped, by the ids of their containers
	// list lists the containers with a label, for as long as Follow runs; nil: it does not yet.
	list func(label string) ([]dockerapi.Listed, error)

	starts   int // so many have begun
	starting map[int]context.CancelCauseFunc

	images *images.Images
}

var (
	_ driver.Driver   = (*Driver)(nil)
	_ driver.Follower = (*Driver)(nil)
	_ driver.Keeper   = (*Driver)(nil)
)

// New returns a driver that knows nothing of its daemon before Follow.
func New(cfg Config) *Driver {
	cfg = cfg.filled()
	d := &Driver{
		cfg:      cfg,
		api:      dockerapi.New(cfg.Socket),
		agentRun: ids.New(),
		tasks:    map[string]*task{},
		starting: map[int]context.CancelCauseFunc{},
	}
	cfg.Images.Log, cfg.Images.Tell = cfg.Log, d.tell
	d.images = images.New(cfg.Images, d.api)
	d.why = fault.New(fault.NotReady, "use", "Docker at "+cfg.Socket, "it has not been asked yet")
	d.now = driver.Fingerprint{Health: driver.Undetected, Description: d.why.Error()}
	return d
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return Name }

// Info implements driver.Driver.
func (d *Driver) Info() driver.Info {
	return driver.Info{
		Name:    Name,
		Version: "1",
		Schema:  spec.Schema,
		Capabilities: driver.Capabilities{
			SendSignals:   true,
			Exec:          true,
			FSIsolation:   driver.IsolationImage,
			Mounts:        driver.MountAll,
			Evidence:      driver.EvidenceDriver,
			DefaultSignal: defaultSignal,
		},
	}
}

// Fingerprint implements driver.Driver: what Follow found last.
func (d *Driver) Fingerprint(context.Context) driver.Fingerprint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// Pauses before a daemon that is away is asked again. One that answered for steadyAfter did not fail.
var again = retry.Backoff{Min: 500 * time.Millisecond, Max: 15 * time.Second}

const (
	steadyAfter = time.Minute
	// pingEvery is how often a daemon is asked whether it answers: it tells of its containers, and not of itself.
	pingEvery = 30 * time.Second
	// pingLimit is how long it may take to answer.
	pingLimit = 10 * time.Second
	// callLimit bounds calls that have nothing to wait for.
	callLimit = 30 * time.Second
)

// Follow implements driver.Follower: it hears what happens to containers, and says how the daemon is, until ctx ends.
func (d *Driver) Follow(ctx context.Context, say func(driver.Fingerprint)) error {
	// What a stop has begun goes on when the agent ends, as far as it gets.
	group, _ := lifecycle.NewGroup(context.WithoutCancel(ctx))
	defer group.Stop()
	d.mu.Lock()
	d.group = group
	d.list = func(label string) ([]dockerapi.Listed, error) {
		limited, cancel := context.WithTimeout(ctx, pingLimit)
		defer cancel()
		return d.api.List(limited, label)
	}
	d.mu.Unlock()
	if err := d.places().FreeAll(); err != nil {
		d.cfg.Log.Warn("what mounts of containers were held at could not be given back", logkey.Driver, Name,
			logkey.Error, err)
	}
	for failures := 0; ctx.Err() == nil; {
		begun := time.Now()
		err := d.follow(ctx, say)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) > steadyAfter {
			failures = 0
		}
		failures++
		say(d.lose(err))
		again.Sleep(ctx, failures)
	}
	return nil
}

// follow hears one daemon until it is gone.
func (d *Driver) follow(ctx context.Context, say func(driver.Fingerprint)) error {
	g, gctx := lifecycle.NewGroup(ctx)
	g.Go("events", func() error {
		return d.hear(gctx, func() {
			g.Go("containers", func() error { return d.tend(gctx) })
		}, say)
	})
	g.Go("pings", func() error {
		for retry.Sleep(gctx, d.cfg.PingEvery) {
			limited, cancel := context.WithTimeout(gctx, pingLimit)
			err := d.api.Ping(limited)
			cancel()
			if err != nil {
				return d.silent(gctx, err)
			}
		}
		return nil
	})
	return g.Wait()
}

// silent says of a daemon that was given up what is the matter.
func (d *Driver) silent(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "ask", "Docker at "+d.cfg.Socket,
			"it does not answer within "+pingLimit.String())
	}
	return err
}

// hear takes up the conversation with a daemon.
func (d *Driver) hear(ctx context.Context, begun func(), say func(driver.Fingerprint)) error {
	limited, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	daemon, err := d.api.Agree(limited)
	if err != nil {
		return d.silent(ctx, err)
	}
	info, err := d.api.Info(limited)
	if err != nil {
		return d.silent(ctx, err)
	}
	if info.OSType != "linux" {
		return fault.New(fault.Unsupported, "use", "Docker at "+d.cfg.Socket, "its containers are of "+info.OSType)
	}
	return d.api.Events(ctx, func() {
		f := fingerprint(&d.cfg, daemon, info)
		d.mu.Lock()
		d.now, d.why = f, nil
		all := make([]*task, 0, len(d.tasks))
		for _, t := range d.tasks {
			all = append(all, t)
		}
		d.mu.Unlock()
		d.changed.Notify()
		for _, t := range all { // whatever happened while nobody heard it
			t.changed.Notify()
		}
		begun()
		say(f)
	}, d.happened)
}

// happened wakes who waits for a container.
func (d *Driver) happened(e dockerapi.Event) {
	switch e.Action {
	case "die", "destroy":
		d.mu.Lock()
		t := d.tasks[e.Actor.ID]
		d.mu.Unlock()
		if t != nil {
			t.changed.Notify()
		}
	case "oom":
		d.mu.Lock()
		t := d.tasks[e.Actor.ID]
		d.mu.Unlock()
		if t != nil {
			t.killedForMemory()
		}
	}
}

// lose notes why the daemon is not there.
func (d *Driver) lose(err error) driver.Fingerprint {
	f := driver.Fingerprint{Health: driver.Unhealthy, Description: err.Error()}
	if _, missing := os.Stat(d.cfg.Socket); errors.Is(missing, fs.ErrNotExist) {
		f = driver.Fingerprint{Health: driver.Undetected, Description: "there is no Docker at " + d.cfg.Socket}
	}
	d.mu.Lock()
	d.now, d.why = f, err
	for _, cut := range d.starting {
		cut(err)
	}
	d.mu.Unlock()
	d.changed.Notify()
	return f
}

// there waits a moment for a daemon that is about to be found, and says why there is none.
func (d *Driver) there(ctx context.Context, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		changed := d.changed.C()
		d.mu.Lock()
		why := d.why
		d.mu.Unlock()
		if why == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return fault.WithHint(fault.Wrap(why, fault.NotReady, "use", "driver "+Name),
				"it goes on by itself when the daemon answers again")
		case <-changed:
		}
	}
}

// beside runs something that is to go on when its caller has left, and returns what it returned, or that ctx ended.
func (d *Driver) beside(ctx context.Context, what string, fn func(context.Context) error) error {
	d.mu.Lock()
	group := d.group
	d.mu.Unlock()
	done := make(chan error, 1)
	free := context.WithoutCancel(ctx)
	if group == nil || !group.Go(what, func() error { done <- fn(free); return nil }) {
		return fn(ctx) // the agent ends
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		return err
	}
}

func (d *Driver) hold(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[t.st.Container] = t
}

func (d *Driver) release(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, t.st.Container)
}

// tell makes an event of a task.
func (d *Driver) tell(alloc ids.Alloc, task, text string, annotations map[string]string) {
	if d.cfg.Events != nil {
		d.cfg.Events(Event{Alloc: alloc, Task: task, Message: text, Annotations: annotations})
	}
}

func (d *Driver) warn(what string, id ids.Alloc, err error) {
	d.cfg.Log.Warn(what, logkey.Driver, Name, logkey.Alloc, id, logkey.Error, err)
}

func (c Config) filled() Config {
	if c.Socket == "" {
		c.Socket = DefaultSocket
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.PingEvery == 0 {
		c.PingEvery = pingEvery
	}
	c.Policy, c.Images.Dir = c.WithDefaults(), cmp.Or(c.Images.Dir, c.Dir)
	return c
}
