package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/logkey"
	"berth/internal/port/driver"
	"berth/internal/port/hostfs"
)

// owned is what this driver adds to the state of a task's process.
type owned struct {
	Monitor string `json:",omitempty"` // the socket by which the machine is asked to shut down; empty: it is not
}

// task is a machine: a process of exec, with a monitor.
type task struct {
	driver.Task
	d      *Driver
	own    owned
	handle driver.TaskHandle
}

func (d *Driver) task(t driver.Task, own owned) (*task, error) {
	out := &task{Task: t, d: d, own: own, handle: t.Handle()}
	if own.Monitor == "" {
		return out, nil
	}
	var state map[string]any
	err := json.Unmarshal(out.handle.State, &state)
	if err == nil {
		state["Monitor"] = own.Monitor
		out.handle.State, err = json.Marshal(state)
	}
	return out, fault.Wrap(err, fault.Internal, "record", "task "+strconv.Quote(out.handle.Task))
}

// Handle implements driver.Task.
func (t *task) Handle() driver.TaskHandle { return t.handle }

// OOMKills implements driver.OOMCounter.
func (t *task) OOMKills() int64 {
	if c, ok := t.Task.(driver.OOMCounter); ok {
		return c.OOMKills()
	}
	return 0
}

// Signal implements driver.Task.
func (t *task) Signal(context.Context, string) error {
	return fault.WithHint(fault.New(fault.Unsupported, "signal", "task "+strconv.Quote(t.handle.Task),
		"it is a machine, which knows no signals"), "stop or restart it")
}

// Exec implements driver.Task.
func (t *task) Exec(context.Context, driver.ExecRequest) (driver.ExitResult, error) {
	return driver.ExitResult{}, fault.WithHint(
		fault.New(fault.Unsupported, "run a command in", "task "+strconv.Quote(t.handle.Task),
			"it is a machine: the command would run beside it"),
		"reach it by a port of its own, as by ssh")
}

// unheard is a signal that a process does not notice: it is asked by its monitor.
const unheard = "SIGCONT"

// Stop implements driver.Task. The power button of a machine that is to shut down by itself is pressed, and then it has
// grace.
func (t *task) Stop(ctx context.Context, signal string, grace time.Duration) error {
	if t.own.Monitor == "" || grace <= 0 {
		return t.Task.Stop(ctx, signal, grace)
	}
	err := powerDown(ctx, t.own.Monitor)
	if err == nil {
		return t.Task.Stop(ctx, unheard, grace)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOENT) { // qemu is there
		t.d.cfg.Log.Warn("a machine could not be asked to shut down, and is ended as other tasks are",
			logkey.Alloc, t.handle.Alloc, logkey.Task, t.handle.Task, logkey.Error, err)
	}
	return t.Task.Stop(ctx, signal, grace)
}

// Bounds of what a monitor may take and say: whoever breaks out of a machine is qemu.
const (
	monitorPatience = 5 * time.Second
	monitorBytes    = 64 << 10
)

// powerDown presses the power button of the machine whose monitor listens at a socket.
func powerDown(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, monitorPatience)
	defer cancel()
	conn, err := hostfs.DialSocket(ctx, socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	end, _ := ctx.Deadline() // it has one
	if err := conn.SetDeadline(end); err != nil {
		return err
	}
	words := bufio.NewScanner(io.LimitReader(conn, monitorBytes))
	for _, command := range []string{"qmp_capabilities", "system_powerdown"} {
		if _, err := fmt.Fprintf(conn, "{\"execute\":%q}\n", command); err != nil {
			return err
		}
		if err := answered(words, command); err != nil {
			return err
		}
	}
	return nil
}

// answered reads up to the answer to a command; greetings and events stand between.
func answered(words *bufio.Scanner, command string) error {
	for words.Scan() {
		var m struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Text string `json:"desc"`
			} `json:"error"`
		}
		if err := json.Unmarshal(words.Bytes(), &m); err != nil {
			return fault.Wrap(err, fault.Unavailable, command, "the monitor of qemu")
		}
		if m.Error != nil {
			return fault.New(fault.Unavailable, command, "the monitor of qemu", m.Error.Text)
		}
		if m.Return != nil {
			return nil
		}
	}
	if err := words.Err(); err != nil {
		return err
	}
	return fault.New(fault.Unavailable, command, "the monitor of qemu", "it hung up")
}
