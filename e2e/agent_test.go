package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/api"
	"berth/internal/testkit/freeport"
)

// machine is one node under test: a directory of its own, and one agent after the other on it.
type machine struct {
	t    *testing.T
	root string // short, so that the paths of sockets and volumes stay within their limits
	data string // the agent's data_dir
	rig  string // what the test lends to plugins: programs, records, images; "rig" as a host volume
	port int    // that of a -dev agent's API, beside its socket
	api  *api.Client

	service bool            // the agent is not one for trying out: its tasks outlive it, and it has a socket alone
	temp    bool            // the agent makes a data_dir of its own
	env     []string        // of the agent, beside the test's own
	earlier string          // an earlier program that is run instead of the one under test
	wrap    func(*exec.Cmd) // what is done to the agent's command before it starts
	// files are descriptors from 3 on that the agent is started with, besides the standard ones.
	files []*os.File
	// window is for how long after it has taken up allocs the agent's end is counted against them. What is suspected
	// has its turn one after another, each for so long: short, for tests end agents in all ways.
	window string
	// alarm is part of the one error that the agent is expected to log; empty: none.
	alarm string

	cmd  *exec.Cmd
	done chan error // the end of the running agent
}

const agentConfig = `
acl { enabled = false }
server { enabled = true }
client {
  enabled   = true
  local_csi = %t
  host_volume "rig" { path = %q }
}
api { %s }
%s
`

// newMachine makes a machine and runs an agent on it until the test ends; then everything is stopped and nothing of it
// may be left. bundled says whether the bundled storage plugin runs.
func newMachine(t *testing.T, bundled bool) *machine {
	t.Helper()
	m := prepare(t, bundled)
	m.start()
	if bundled {
		m.awaitPlugin("local-csi")
	}
	return m
}

// prepare makes a machine on which no agent runs yet.
func prepare(t *testing.T, bundled bool) *machine {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "b")
	must(t, err)
	m := &machine{
		t:    t,
		root: root,
		data: filepath.Join(root, "d"),
		rig:  filepath.Join(root, "r"),
		port: freeport.Pick(t),

		window: "1s",
	}
	must(t, os.MkdirAll(m.rig, 0o755))
	m.configure(bundled, fmt.Sprintf("socket = %q", m.socket()), "")
	m.api = m.client(api.Config{Address: "unix://" + m.socket()})
	t.Cleanup(m.end)
	return m
}

// configure writes the agent's file.
func (m *machine) configure(bundled bool, api, more string) {
	m.t.Helper()
	text := fmt.Appendf(nil, agentConfig, bundled, m.rig, api, more)
	must(m.t, os.WriteFile(filepath.Join(m.root, "agent.hcl"), text, 0o600))
}

// socket is where the agent's API is.
func (m *machine) socket() string { return filepath.Join(m.root, "api.sock") }

func (m *machine) client(config api.Config) *api.Client {
	m.t.Helper()
	c, err := api.NewClient(config)
	must(m.t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) logPath() string { return filepath.Join(m.root, "log") }

// start starts an agent and waits until its node is ready.
func (m *machine) start() {
	m.t.Helper()
	m.launch()
	m.answers()
	await(m, "the node to be ready", m.api.Nodes().List, func(all []*api.NodeListStub) bool {
		return len(all) == 1 && all[0].Status == api.NodeStatusReady
	})
}

// launch starts an agent.
func (m *machine) launch() {
	m.t.Helper()
	log, err := os.OpenFile(m.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(m.t, err)
	defer log.Close()
	m.cmd = exec.Command(m.program(), m.args()...)
	m.cmd.Env = append(os.Environ(), m.env...)
	m.cmd.Stdout = log
	m.cmd.Stderr = log
	m.cmd.ExtraFiles = m.files
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if m.wrap != nil {
		m.wrap(m.cmd)
	}
	m.done = make(chan error, 1)
	must(m.t, attended(m.cmd, m.done))
}

// attended starts an agent that ends as by a person's word, with its tasks, when the test's program ends without a
// word: by its time-out, or killed. Its end goes to done. A signal by the kernel at the end of the parent would come
// once for each of its threads, and a second word has an agent leave its tasks.
func attended(cmd *exec.Cmd, done chan<- error) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	watcher := exec.Command("/bin/sh", "-c", `read -r _; kill -s INT "$0"`, strconv.Itoa(cmd.Process.Pid))
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_, err := watcher.StdinPipe() // it is closed with this program
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	go func() {
		ended := cmd.Wait()
		_ = watcher.Process.Kill() // it has nobody to watch any more
		_ = watcher.Wait()         // it was killed
		done <- ended
	}()
	return nil
}

// program is what the agent, and the bundled plugin where it runs as a job of the test, are.
func (m *machine) program() string { return cmp.Or(m.earlier, binary) }

func (m *machine) args() []string {
	out := []string{"agent", "-config", filepath.Join(m.root, "agent.hcl"), "-log-level", "debug"}
	if path := filepath.Join(m.root, "window.hcl"); m.earlier == "" { // an earlier one may not know the setting
		must(m.t, os.WriteFile(path, fmt.Appendf(nil, "client { crash_window = %q }\n", m.window), 0o600))
		out = append(out, "-config", path)
	}
	if !m.service {
		out = append(out, "-dev", "-http-port", strconv.Itoa(m.port))
	}
	if !m.temp {
		out = append(out, "-data-dir", m.data)
	}
	return out
}

// answers waits until the agent's API does.
func (m *machine) answers() {
	m.t.Helper()
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(m.t.Context(), patience)
		_, _, err := m.api.Nodes().List(ctx, nil)
		cancel()
		if err == nil {
			return
		}
		select {
		case end := <-m.done:
			m.cmd = nil
			m.t.Fatalf("the agent ended: %v\n%s", end, m.tail())
		case <-time.After(20 * time.Millisecond): // nothing to wait on before the agent listens
		}
		if time.Now().After(end) {
			m.t.Fatalf("the agent does not answer: %v\n%s", err, m.goroutines())
		}
	}
}

// goroutines ends an agent that stands still, and returns where each of its goroutines is.
func (m *machine) goroutines() string {
	m.t.Helper()
	text, err := os.ReadFile(m.logPath())
	must(m.t, err)
	must(m.t, m.cmd.Process.Signal(syscall.SIGQUIT))
	select {
	case <-m.done:
		m.cmd = nil
	case <-time.After(patience):
		return fmt.Sprintf("and does not say where it is; its log:\n%s", text)
	}
	all, err := os.ReadFile(m.logPath())
	must(m.t, err)
	return fmt.Sprintf("its log:\n%s\nits goroutines:\n%s", text, all[len(text):])
}

// kill ends the agent as a person's kill -9 does. Tasks go on.
func (m *machine) kill() {
	m.t.Helper()
	m.die(syscall.SIGKILL)
}

// crash has the agent die as of a fault of its own.
func (m *machine) crash() {
	m.t.Helper()
	m.die(syscall.SIGSEGV)
}

func (m *machine) die(of syscall.Signal) {
	m.t.Helper()
	must(m.t, m.cmd.Process.Signal(of))
	<-m.done
	m.cmd = nil
	m.api.CloseIdle()
}

// stop ends an agent as a person does; the tasks of a -dev agent end with it.
func (m *machine) stop() error {
	if m.cmd == nil {
		return nil
	}
	if err := m.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	m.api.CloseIdle()
	defer func() { m.cmd = nil }()
	select {
	case err := <-m.done:
		return err
	case <-time.After(patience):
		_ = m.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines go to the log
		<-m.done
		return fmt.Errorf("the agent did not stop within %s of SIGINT", patience)
	}
}

// end stops the agent and looks for what it has left.
func (m *machine) end() {
	if err := m.stop(); err != nil {
		m.t.Errorf("stop the agent: %v", err)
	}
	for _, what := range leftovers(m) {
		m.t.Error("left behind: " + what)
	}
	if m.alarm != "" && !m.logged("level=ERROR", m.alarm) {
		m.t.Errorf("nobody was alarmed: no error in the log says %q", m.alarm)
	}
	if m.unexpected() {
		m.t.Error("the agent's log has an error: what users or plugins do wrong is none of the agent's, and a clean " +
			"start has none")
	}
	if m.t.Failed() {
		m.t.Logf("the agent's log:\n%s", m.tail())
		m.logTasks()
	}
	if os.Getenv("BERTH_E2E_KEEP") != "" && m.t.Failed() {
		m.t.Logf("kept: %s", m.root)
		return
	}
	if err := sweep(m.root); err != nil {
		m.t.Errorf("clean up: %v", err)
	}
}

// unexpected reports an error in the agent's log that the test does not expect.
func (m *machine) unexpected() bool {
	data, err := os.ReadFile(m.logPath())
	if err != nil {
		m.t.Error(err)
		return false
	}
	return slices.ContainsFunc(strings.Split(string(data), "\n"), func(line string) bool {
		return strings.Contains(line, "level=ERROR") && (m.alarm == "" || !strings.Contains(line, m.alarm))
	})
}

// tail is the end of the agent's log without what comes with every start.
func (m *machine) tail() string {
	data, err := os.ReadFile(m.logPath())
	if err != nil {
		return err.Error()
	}
	if m.cmd == nil && bytes.Contains(data, []byte("panic:")) {
		return string(data)
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) > 150 {
		lines = lines[len(lines)-150:]
	}
	return strings.Join(lines, "\n")
}

// logTasks shows what tasks have written.
func (m *machine) logTasks() {
	files, err := filepath.Glob(filepath.Join(m.data, "alloc/*/alloc/logs/*.std*.0"))
	if err != nil {
		m.t.Error(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || len(data) == 0 {
			continue
		}
		if len(data) > 4096 {
			data = data[len(data)-4096:]
		}
		m.t.Logf("%s:\n%s", f, data)
	}
}

// logged reports whether the agent's log has a line with all of these words.
func (m *machine) logged(words ...string) bool {
	m.t.Helper()
	data, err := os.ReadFile(m.logPath())
	must(m.t, err)
next:
	for line := range strings.Lines(string(data)) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		return true
	}
	return false
}
