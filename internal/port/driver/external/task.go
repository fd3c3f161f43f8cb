package external

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/port/driver"
	"berth/internal/port/pluginhost"
	"berth/pluginproto/driverpb"
)

// stateVersion is the version of TaskHandle.State that this code writes.
const stateVersion = 1

// state is what finds a task again.
type state struct {
	ID     string // of the task, as the plugin knows it
	Handle []byte // of the plugin, as it gave it
	Output driver.ProcessHandle
}

// task is a started task of a plugin.
type task struct {
	d      *Driver
	id     string
	handle driver.TaskHandle
	theirs *driverpb.TaskHandle
	output driver.Process // reads what the task writes; nil: it has ended

	mu   sync.Mutex
	at   *connection // that knows the task
	used usage
	end  *driver.ExitResult // nil: it is not known
}

var _ driver.Task = (*task)(nil)

// taskID names an attempt of a task. It follows from what it names, so that one whose start was cut off is found.
func taskID(id ids.Alloc, name string, attempt int) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s/%s/%d", id, name, attempt)))
	return fmt.Sprintf("%s/%s/%s", id, name, hex.EncodeToString(sum[:4]))
}

// endEarlier has the plugin end attempts of a task that an agent started which died before it wrote them down: nobody
// could find them again. newest is the last of them, 0 if there was none.
func (s *connection) endEarlier(ctx context.Context, id ids.Alloc, name string) (newest int, err error) {
	stem := s.d.cfg.stem(id, name)
	found, err := filepath.Glob(stem + "*" + stdoutEnd)
	if err != nil {
		return 0, fault.Wrap(err, fault.Internal, "look for", stem)
	}
	for _, path := range found {
		attempt, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(path, stem), stdoutEnd))
		if err != nil {
			continue // it is nobody's
		}
		newest = max(newest, attempt)
		if err := s.endAttempt(ctx, id, name, attempt); err != nil {
			return newest, err
		}
		// What reads its output, too. The pipes go last: by them the attempt is found.
		if err := s.d.cfg.Launcher.Abort(ctx, id, name, attempt); err != nil {
			return newest, err
		}
		if err := s.d.cfg.forget(id, name, attempt); err != nil {
			return newest, err
		}
	}
	return newest, nil
}

// endAttempt returns when nothing of an attempt lives or can begin to, by the plugin's word, or because who could begin
// it is gone.
func (s *connection) endAttempt(ctx context.Context, id ids.Alloc, name string, attempt int) error {
	task := taskID(id, name, attempt)
	if err := s.d.awaitStart(ctx, task); err != nil {
		return err
	}
	known, err := s.destroy(ctx, task)
	if err == nil && !known {
		err = s.neverBegins(ctx, id, name, attempt)
	}
	return err
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (driver.Task, error) {
	fail := func(err error) (driver.Task, error) {
		return nil, fault.Note(err, "start", fmt.Sprintf("task %q with driver %s", cfg.Task, d.Name()))
	}
	s, err := d.usable()
	if err != nil {
		return fail(err)
	}
	config, err := s.taskConfig(cfg)
	if err != nil {
		return fail(err)
	}
	newest, err := s.endEarlier(ctx, cfg.Alloc, cfg.Task)
	if err != nil {
		return fail(err)
	}
	if newest >= cfg.Attempt {
		return nil, &driver.AttemptOver{Task: cfg.Task, Attempt: cfg.Attempt, Newest: newest}
	}
	if err := makeFIFOs(config.GetStdoutPath(), config.GetStderrPath()); err != nil {
		return fail(err)
	}
	output, err := d.collect(ctx, cfg, config)
	if err != nil {
		return fail(err)
	}
	t := &task{d: d, id: config.GetId(), output: output, at: s}
	t.handle = driver.TaskHandle{
		Driver:  d.Name(),
		Version: stateVersion,
		Alloc:   cfg.Alloc,
		Task:    cfg.Task,
		Attempt: cfg.Attempt,
	}
	undo := func(err error) (driver.Task, error) {
		if left := t.undo(ctx, s, cfg); left != nil {
			return fail(errors.Join(err, left))
		}
		return fail(err)
	}
	answer, err := d.starts(ctx, s, config, cfg.Attempt)
	if ctx.Err() != nil { // the plugin may start it yet: Abort waits for that, or the next start
		return fail(ctx.Err())
	}
	if err != nil {
		return undo(problem(err, "", ""))
	}
	d.tellOverride(cfg, answer.GetNetworkOverride())
	if t.theirs = answer.GetHandle(); t.theirs == nil {
		return undo(fault.New(fault.Invalid, "", "", "the plugin gave no handle of the task"))
	}
	encoded, err := proto.Marshal(t.theirs)
	if err != nil {
		return undo(err)
	}
	t.handle.Started = time.Now()
	t.handle.State, err = json.Marshal(state{ID: t.id, Handle: encoded, Output: output.Handle()})
	if err != nil {
		return undo(err)
	}
	d.hold(t)
	return t, nil
}

// collect starts what reads a task's output.
func (d *Driver) collect(
	ctx context.Context, cfg *driver.TaskConfig, config *driverpb.TaskConfig,
) (driver.Process, error) {
	output, err := d.cfg.Launcher.Launch(ctx, collector(cfg, config))
	if err == nil {
		return output, nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), pluginhost.CallLimit)
	defer cancel()
	if aborted := d.cfg.Launcher.Abort(limited, cfg.Alloc, cfg.Task, cfg.Attempt); aborted != nil {
		return nil, errors.Join(err, aborted) // it is found by its pipes
	}
	return nil, errors.Join(err, d.cfg.forget(cfg.Alloc, cfg.Task, cfg.Attempt))
}

// Abort implements driver.Driver: of a start that was cut off the plugin may hold a task.
func (d *Driver) Abort(ctx context.Context, id ids.Alloc, name string, attempt int) error {
	s, err := d.soon(ctx)
	if err == nil {
		_, err = s.endEarlier(ctx, id, name)
	}
	return fault.Note(err, "abort", subject(taskID(id, name, attempt)))
}

// tell makes an event of the task.
func (d *Driver) tell(cfg *driver.TaskConfig, text string) {
	if d.cfg.Events != nil {
		d.cfg.Events(Event{Alloc: cfg.Alloc, Task: cfg.Task, Message: text})
	}
}

// tellOverride says of an address that a driver gives a task that it is not used.
func (d *Driver) tellOverride(cfg *driver.TaskConfig, o *driverpb.NetworkOverride) {
	if o.GetAddr() == "" && len(o.GetPortMap()) == 0 {
		return
	}
	d.tell(cfg, fmt.Sprintf("The driver gives the task address %q and %d ports of its own, which are not used: "+
		"services announce the allocation's", pluginhost.Clip(o.GetAddr()), len(o.GetPortMap())))
}

// Recover implements driver.Driver. A task that the plugin does not take up is ended by it: then it is gone.
func (d *Driver) Recover(ctx context.Context, h driver.TaskHandle) (driver.Task, error) {
	fail := func(err error) (driver.Task, error) { return nil, fault.Note(err, "recover", subject(h.Task)) }
	if h.Version != stateVersion {
		return fail(fault.New(fault.Invalid, "", "", fmt.Sprintf("its handle is of version %d; this is %d", h.Version,
			stateVersion)))
	}
	var st state
	if err := json.Unmarshal(h.State, &st); err != nil {
		return fail(fault.Wrap(err, fault.Invalid, "", ""))
	}
	t := &task{d: d, id: st.ID, handle: h, theirs: &driverpb.TaskHandle{}}
	if st.ID == "" { // its record was lost, and only what reads its output was found: the plugin's handle is not there
		t.id, t.theirs = taskID(h.Alloc, h.Task, h.Attempt), nil
		if err := json.Unmarshal(h.State, &st.Output); err != nil {
			return fail(fault.Wrap(err, fault.Invalid, "", ""))
		}
	} else if err := proto.Unmarshal(st.Handle, t.theirs); err != nil {
		return fail(fault.Wrap(err, fault.Invalid, "", ""))
	}
	output, err := d.cfg.Launcher.Attach(ctx, st.Output)
	switch {
	case err == nil:
		t.output = output
	case !fault.Has(err, fault.NotFound):
		return fail(err)
	}
	s, err := d.soon(ctx)
	if err != nil {
		return fail(err)
	}
	if err := t.takeUp(ctx, s); err != nil {
		if !fault.Has(err, fault.NotFound) {
			return fail(err)
		}
		return fail(errors.Join(err, t.closeOutput(ctx)))
	}
	d.hold(t)
	return t, nil
}

func (d *Driver) hold(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[t.id] = t
}

func (d *Driver) release(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, t.id)
}

// takeUp gives a plugin a task that another process of it, or another agent, started. fault.NotFound: the plugin does
// not take it up, and nothing of it is left by the plugin's own word.
func (t *task) takeUp(ctx context.Context, s *connection) error {
	if t.theirs == nil {
		if _, err := s.destroy(ctx, t.id); err != nil {
			return err
		}
		return fault.New(fault.NotFound, "", "", "the record of it was lost, and the plugin was told to end it")
	}
	ctx, cancel := context.WithTimeout(ctx, pluginhost.CallLimit)
	defer cancel()
	_, err := s.rpc.RecoverTask(ctx, &driverpb.RecoverTaskRequest{TaskId: t.id, Handle: t.theirs})
	if err == nil {
		t.at = s
		return nil
	}
	if lost(err) {
		return problem(err, "", "")
	}
	if _, failed := s.destroy(ctx, t.id); failed != nil {
		return errors.Join(failed, problem(err, "", ""))
	}
	return fault.New(fault.NotFound, "", "", "the plugin has lost it: "+status.Convert(err).Message())
}

// lost reports that a plugin did not answer.
func lost(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return false
}

// connection is a plugin that knows the task. One that was started since it was used last takes it up first.
func (t *task) connection(ctx context.Context) (*connection, error) {
	s, err := t.d.connection()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at != s {
		return s, t.takeUp(ctx, s)
	}
	return s, nil
}

// Handle implements driver.Task.
func (t *task) Handle() driver.TaskHandle { return t.handle }

// Wait implements driver.Task. A plugin that ends meanwhile is waited for.
func (t *task) Wait(ctx context.Context) (driver.ExitResult, error) {
	if r := t.ended(nil); r != nil {
		return *r, nil
	}
	r, err := t.wait(ctx)
	if err != nil {
		return driver.ExitResult{}, err
	}
	return *t.ended(&r), nil
}

// ended notes how the task ended, and returns what was noted first; nil: nothing was.
func (t *task) ended(r *driver.ExitResult) *driver.ExitResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end == nil {
		t.end = r
	}
	return t.end
}

func (t *task) wait(ctx context.Context) (driver.ExitResult, error) {
	var before *connection
	for {
		s, err := t.d.wait(ctx, before)
		if err != nil {
			return driver.ExitResult{}, err
		}
		if _, err = t.connection(ctx); err == nil {
			var answer *driverpb.WaitTaskResponse
			answer, err = s.rpc.WaitTask(ctx, &driverpb.WaitTaskRequest{TaskId: t.id})
			if err == nil {
				return exit(answer), nil
			}
			if isUnknownTask(err) {
				return unknown("the plugin does not know it any more"), nil
			}
			if ctx.Err() == nil && !lost(err) {
				return unknown(status.Convert(err).Message()), nil
			}
		} else if fault.Has(err, fault.NotFound) {
			return unknown(err.Error()), nil
		}
		if ctx.Err() != nil {
			return driver.ExitResult{}, ctx.Err()
		}
		before = s // it has ended, or is about to be found dead
	}
}

func unknown(why string) driver.ExitResult {
	return driver.ExitResult{Unknown: true, Err: why, Ended: time.Now()}
}

func exit(answer *driverpb.WaitTaskResponse) driver.ExitResult {
	r := answer.GetResult()
	return driver.ExitResult{
		ExitCode:  int(r.GetExitCode()),
		Signal:    int(r.GetSignal()),
		OOMKilled: r.GetOomKilled(),
		Err:       answer.GetErr(),
		Unknown:   answer.GetErr() != "",
		Ended:     time.Now(),
	}.WithCode()
}

// Stop implements driver.Task: the plugin ends the task and forgets it, and then nothing reads its output any more.
func (t *task) Stop(ctx context.Context, signal string, grace time.Duration) error {
	s, err := t.connection(ctx)
	if err != nil && !fault.Has(err, fault.NotFound) {
		return err
	}
	if err == nil {
		if err := s.stop(ctx, t.id, signal, grace); err != nil {
			return err
		}
		// Once it is destroyed the plugin does not know any more how it ended.
		limited, cancel := context.WithTimeout(ctx, pluginhost.CallLimit)
		_, err := t.Wait(limited)
		cancel()
		if err != nil {
			return fault.Note(err, "wait for the end of", subject(t.id))
		}
		if _, err := s.destroy(ctx, t.id); err != nil {
			return err
		}
	}
	if err := t.closeOutput(ctx); err != nil {
		return err
	}
	t.d.release(t)
	return nil
}

// stop has a plugin end a task. Its escalation is the plugin's.
func (s *connection) stop(ctx context.Context, id, signal string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+pluginhost.CallLimit)
	defer cancel()
	_, err := s.rpc.StopTask(ctx, &driverpb.StopTaskRequest{TaskId: id, Timeout: durationpb.New(grace), Signal: signal})
	if err == nil || isUnknownTask(err) {
		return nil
	}
	return problem(err, "stop", subject(id))
}

// destroy has a plugin forget a task, and end what is left of it. known: it did not say that it knows of none.
func (s *connection) destroy(ctx context.Context, id string) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pluginhost.CallLimit)
	defer cancel()
	// Without force no plugin ends what runs.
	_, err = s.rpc.DestroyTask(ctx, &driverpb.DestroyTaskRequest{TaskId: id, Force: true})
	if isUnknownTask(err) {
		return false, nil
	}
	return err == nil, problem(err, "destroy", subject(id))
}

// Signal implements driver.Task.
func (t *task) Signal(ctx context.Context, signal string) error {
	s, err := t.connection(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pluginhost.CallLimit)
	defer cancel()
	_, err = s.rpc.SignalTask(ctx, &driverpb.SignalTaskRequest{TaskId: t.id, Signal: signal})
	if isUnknownTask(err) || err != nil && t.ended(nil) != nil {
		return fault.New(fault.NotFound, "signal", subject(t.id), "it has ended")
	}
	return problem(err, "signal", subject(t.id))
}
