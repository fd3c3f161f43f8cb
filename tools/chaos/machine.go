package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/api"
	"berth/internal/base/retry"
	"berth/internal/testkit/freeport"
)

// machine is a directory in which one agent after the other runs.
type machine struct {
	root string // short, so that the paths of sockets and volumes stay within their limits
	data string // the agent's data_dir
	rig  string // what is lent to tasks: this program, acknowledgements, results
	api  *api.Client

	cmd  *exec.Cmd
	seen map[string]bool // ids of the allocs that there were
}

const agentConfig = `
server { enabled = true }
client {
  enabled      = true
  local_csi = true
  host_volume "rig" { path = %q }
}
api { socket = %q }
ports { http = %d }
plugin "raw_exec" { # the storage plugin, and a job, run with it
  config {
    enabled = true
  }
}
`

func newMachine(o options) (*machine, error) {
	root, err := os.MkdirTemp("/tmp", "bc")
	if err != nil {
		return nil, err
	}
	m := &machine{root: root, data: filepath.Join(root, "d"), rig: filepath.Join(root, "r"), seen: map[string]bool{}}
	socket := filepath.Join(root, "s")
	if m.api, err = api.NewClient(api.Config{Address: "unix://" + socket}); err != nil {
		return nil, err
	}
	// Tasks acknowledge there as the users that they run as, nobody and root. No umask may take that away.
	if err := errors.Join(os.Mkdir(m.rig, 0o755), os.Chmod(m.rig, 0o777)); err != nil {
		return nil, err
	}
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	text := fmt.Appendf(nil, agentConfig, m.rig, socket, port)
	if err := os.WriteFile(filepath.Join(root, "agent.hcl"), text, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Copies: a build during the run changes nothing.
	return m, errors.Join(copyFile(self, filepath.Join(m.rig, "chaos")), copyFile(o.binary, m.program()))
}

func (m *machine) program() string { return filepath.Join(m.root, "berth") }

func (m *machine) logPath() string { return filepath.Join(m.root, "log") }

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// start runs an agent; more are further arguments. It does not wait for anything.
func (m *machine) start(more ...string) error {
	log, err := os.OpenFile(m.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"agent", "-config", filepath.Join(m.root, "agent.hcl"), "-log-level", "debug", "-data-dir",
		m.data}, more...)
	m.cmd = exec.Command(m.program(), args...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := m.cmd.Start(); err != nil {
		m.cmd = nil
		return err
	}
	return nil
}

// awake makes sure that an agent runs and answers.
func (m *machine) awake(ctx context.Context, within time.Duration) error {
	if m.cmd == nil {
		if err := m.start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		nodes, _, err := m.api.Nodes().List(ctx, nil)
		if err == nil && len(nodes) == 1 && nodes[0].Status == api.NodeStatusReady {
			return nil
		}
		if ended, status := m.ended(); ended {
			m.cmd = nil
			return fmt.Errorf("the agent ended by itself: %s", status)
		}
		if !retry.Sleep(ctx, 50*time.Millisecond) {
			return fmt.Errorf("the agent's node is not ready within %s: %w", within, err)
		}
	}
}

// ended says whether the agent is a zombie, and leaves it.
func (m *machine) ended() (bool, string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.cmd.Process.Pid))
	if err != nil {
		return true, err.Error()
	}
	after := text[bytes.LastIndexByte(text, ')')+1:]
	if f := strings.Fields(string(after)); len(f) > 0 && f[0] == "Z" {
		return true, fmt.Sprint(m.cmd.Wait())
	}
	return false, ""
}

// signal sends one to the agent, which may not run.
func (m *machine) signal(s syscall.Signal) error {
	if m.cmd == nil {
		return nil
	}
	return m.cmd.Process.Signal(s)
}

// kill ends the agent as a crash does. Tasks go on.
func (m *machine) kill() error {
	if m.cmd == nil {
		return nil
	}
	err := m.cmd.Process.Kill()
	_ = m.cmd.Wait() // it was killed
	m.cmd = nil
	m.api.CloseIdle()
	return err
}

// stop ends the agent as a service manager does.
func (m *machine) stop() error {
	if m.cmd == nil {
		return nil
	}
	if err := m.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	m.api.CloseIdle()
	late := time.AfterFunc(90*time.Second, func() {
		_ = m.signal(syscall.SIGQUIT) // its goroutines go to the log; it may have ended just now
	})
	err := m.cmd.Wait()
	m.cmd = nil
	if !late.Stop() {
		return errors.New("the agent did not stop within 90 s of SIGTERM")
	}
	return err
}

// tellAgentsEnd prints the end of the agent's log.
func (m *machine) tellAgentsEnd() {
	data, err := os.ReadFile(m.logPath())
	if err != nil {
		fmt.Println(err)
		return
	}
	lines := slices.DeleteFunc(strings.Split(string(data), "\n"), func(l string) bool {
		return strings.Contains(l, `msg="request failed"`) // those are this program's own
	})
	if n := len(lines) - 200; n > 0 {
		lines = lines[n:]
	}
	fmt.Printf("---- the end of the agent's log\n%s\n----\n", strings.Join(lines, "\n"))
}
