package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/api"
)

// inService makes a machine with an agent that is not for trying out; it does not run yet.
func inService(t *testing.T) *machine {
	t.Helper()
	m := prepare(t, false)
	m.service = true
	return m
}

// opened are the descriptors of a process, as the kernel names them.
func opened(t *testing.T, pid int) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil { // it may have been closed
			own[to] = true
		}
	}
	if len(own) == 0 {
		t.Fatalf("process %d has no descriptors", pid)
	}
	return own
}

// unnamed lists the unix sockets of a process that have no file: whoever shares its network may send to them.
func unnamed(t *testing.T, pid int) (out []string) {
	t.Helper()
	own := opened(t, pid)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) > 7 && own["socket:["+f[6]+"]"] && strings.HasPrefix(f[7], "@") {
			out = append(out, f[7])
		}
	}
	return out
}

// ports lists where a process listens for TCP: its sockets among those of its network namespace.
func ports(t *testing.T, pid int) (out []string) {
	t.Helper()
	own := opened(t, pid)
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, os.ErrNotExist) {
			continue // a kernel without IPv6
		}
		must(t, err)
		for line := range strings.Lines(string(text)) {
			const listening = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening && own["socket:["+f[9]+"]"] {
				out = append(out, f[1])
			}
		}
	}
	return out
}

// lendBinary puts the program where tasks and other users find it.
func (m *machine) lendBinary() string {
	m.t.Helper()
	data, err := os.ReadFile(binary)
	must(m.t, err)
	path := filepath.Join(m.rig, "berth")
	must(m.t, os.WriteFile(path, data, 0o755))
	return path
}

// knock is a job whose task tries addresses from within, as a user.
func knock(id, user string, addresses ...string) string {
	var script strings.Builder
	for _, a := range addresses {
		fmt.Fprintf(&script, "echo at %[1]s; /rig/berth node status -address %[1]s 2>&1; ", a)
	}
	return fmt.Sprintf(`
job %q {
  type = "batch"
  group "g" {
    volume "rig" {
      type   = "host"
      source = "rig"
    }
    task "t" {
      driver = "exec"
      user   = %q
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      volume_mount {
        volume      = "rig"
        destination = "/rig"
      }
    }
  }
}`, id, user, script.String()+"echo done")
}

// sleeper is a job of one isolated task that waits to be stopped.
func sleeper(id string) string {
	return fmt.Sprintf(`
job %q {
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
    }
  }
}`, id)
}

// TestAnAgentInServiceHasASocketAlone: given an agent whose configuration says nothing of who may use its API, then it
// is on the socket for root, with streams and sessions, nothing listens on TCP, and a task of nobody reaches neither.
func TestAnAgentInServiceHasASocketAlone(t *testing.T) {
	m := inService(t)
	seen := filepath.Join(m.rig, "api.sock") // in the volume of the task, so that its mode alone keeps the task out
	m.configure(false, fmt.Sprintf("socket = %q", seen), fmt.Sprintf("ports { http = %d }", m.port))
	m.api = m.client(api.Config{Address: "unix://" + seen})
	m.lendBinary()
	m.start()
	st, err := os.Lstat(seen)
	must(t, err)
	if st.Mode() != os.ModeSocket|0o600 || st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the socket is %+v", st)
	}
	if open := ports(t, m.cmd.Process.Pid); len(open) > 0 {
		t.Errorf("the agent listens at %v", open)
	}
	if open := unnamed(t, m.cmd.Process.Pid); len(open) > 0 {
		t.Errorf("the agent has sockets without files: %v", open)
	}
	tcp := fmt.Sprintf("127.0.0.1:%d", m.port)
	if _, err := net.Dial("tcp", tcp); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port: %v", err)
	}
	vain := []string{"level=WARN", "not served", tcp, "token_file"}
	for _, words := range [][]string{vain, {"berth starts", "socket=" + seen}} {
		if !m.logged(words...) {
			t.Errorf("the log does not say %q", words)
		}
	}

	m.run(knock("knock", "nobody", "unix:///rig/api.sock", "http://"+tcp))
	all := await(m, "the task of nobody to end", m.allocs("knock"), func(all []*api.AllocationListStub) bool {
		return len(all) == 1 && all[0].ClientStatus == api.AllocClientStatusComplete
	})
	logged := m.ask(seen, "alloc", "logs", all[0].ID)
	denied := "permission denied: the socket /rig/api.sock (mode 0600)"
	for _, want := range []string{denied, "no agent listens at http://" + tcp} {
		if !strings.Contains(logged, want) {
			t.Errorf("the task of nobody does not say %q:\n%s", want, logged)
		}
	}
	m.run(sleeper("sleeper"))
	m.sessions(seen, m.running("sleeper", 1)[0].ID)
	m.stopJob("sleeper")
	must(t, m.stop())
	if left, err := filepath.Glob(seen + "*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// ask runs a command against the agent of a socket and wants it to succeed.
func (m *machine) ask(socket string, args ...string) string {
	m.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "BERTH_ADDR=", "NOMAD_ADDR=unix://"+socket)
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("berth %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// sessions uses what is more than one answer: a program in a task with its input, and a log that is followed. Reads
// that wait are how the test itself waits.
func (m *machine) sessions(socket, alloc string) {
	m.t.Helper()
	cmd := exec.Command(binary, "alloc", "exec", "-i", "-t=false", alloc, "/bin/sh", "-c", "cat; exit 7")
	cmd.Env = append(os.Environ(), "BERTH_ADDR=unix://"+socket)
	cmd.Stdin = strings.NewReader("through the socket")
	out, err := cmd.CombinedOutput()
	if string(out) != "through the socket" || cmd.ProcessState.ExitCode() != 7 {
		m.t.Errorf("a program in the task: %v: %q", err, out)
	}
	monitor := exec.CommandContext(m.t.Context(), binary, "monitor", "-log-level", "debug")
	monitor.Env = append(os.Environ(), "BERTH_ADDR=unix://"+socket)
	lines, err := monitor.StdoutPipe()
	must(m.t, err)
	must(m.t, monitor.Start())
	read := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(lines).ReadString('\n')
		read <- err
	}()
	m.eventually("a line of the log", func() bool {
		m.ask(socket, "eval", "list") // something to log
		if _, _, err := m.api.Jobs().Get(m.t.Context(), "nobody", nil); !api.IsNotFound(err) {
			m.t.Error(err)
		}
		select {
		case err := <-read:
			must(m.t, err)
			return true
		default:
			return false
		}
	})
	must(m.t, monitor.Process.Kill())
	_ = monitor.Wait() // it was killed
}

// address is that of the port.
func (m *machine) address() string { return fmt.Sprintf("http://127.0.0.1:%d", m.port) }

// request asks the port and returns status and body.
func (m *machine) request(path string, header ...string) (int, string) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.address()+path, nil)
	must(m.t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	must(m.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(m.t, err)
	return resp.StatusCode, string(text)
}

// TestThePortOfAToken: given an agent with a token, then its port is for those who show it, by any client and under the
// names that are allowed; the socket needs none, and the token is nowhere to be read.
func TestThePortOfAToken(t *testing.T) {
	const token = "sesame-of-the-port-1f9c"
	m := inService(t)
	file := filepath.Join(m.root, "token")
	must(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	m.configure(false, fmt.Sprintf(`
  socket        = %q
  token_file    = %q
  allowed_hosts = ["berth.example"]
`, m.socket(), file), fmt.Sprintf("ports { http = %d }\nkeyring { recovery = [\"none\"] }", m.port))
	m.start()
	if open := ports(t, m.cmd.Process.Pid); len(open) != 1 {
		t.Errorf("the agent listens at %v", open)
	}
	const shown = "X-Nomad-Token"
	for name, c := range map[string]struct {
		path   string
		header []string
		status int
		text   string
	}{
		"no token":              {"/v1/jobs", nil, 403, "Permission denied"},
		"no token, no path":     {"/v1/nothing", nil, 403, "Permission denied"},
		"no token, no page":     {"/ui/", nil, 403, "Permission denied"},
		"no token for a stream": {"/v1/agent/monitor", nil, 403, "Permission denied"},
		"no token to exec": {"/v1/client/allocation/x/exec?command=[\"sh\"]",
			[]string{"Connection", "Upgrade", "Upgrade", "websocket",
				"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}, 403,
			"Permission denied"},
		"another token":          {"/v1/jobs", []string{shown, token + "x"}, 403, "not this agent's"},
		"the token":              {"/v1/jobs", []string{shown, token}, 200, "[]"},
		"the token of a bearer":  {"/v1/jobs", []string{"Authorization", "Bearer " + token}, 200, "[]"},
		"a name that is allowed": {"/v1/jobs", []string{shown, token, "Host", "berth.example"}, 200, "[]"},
		"a name that is not":     {"/v1/jobs", []string{shown, token, "Host", "evil.example"}, 403, "allowed_hosts"},
	} {
		if status, text := m.request(c.path, c.header...); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %s, want %d %s", name, status, text, c.status, c.text)
		}
	}

	m.run(sleeper("sleeper"))
	id := m.running("sleeper", 1)[0].ID
	command := slices.Clip([]string{"alloc", "exec", "-address", m.address()})
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"without the token":     {[]string{"node", "status", "-address", m.address()}, 1, "Permission denied"},
		"with its way out":      {[]string{"node", "status", "-address", m.address()}, 1, "BERTH_TOKEN"},
		"with the token":        {append(command, "-token", token, id, "echo", "inside"), 0, "inside\n"},
		"with another token":    {append(command, "-token", "x", id, "echo", "inside"), 1, "Permission denied"},
		"a token at the socket": {[]string{"node", "status", "-token", "anything"}, 0, "ready"},
	} {
		if out, code := m.cli(c.args...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("a command %s: %d %s, want %d %s", name, code, out, c.code, c.want)
		}
	}
	self, err := m.client(api.Config{Address: m.address(), Token: token}).Cluster().Self(t.Context())
	must(t, err)
	text := fmt.Sprint(self.Config)
	if strings.Contains(text, token) || !strings.Contains(text, "AllowedHosts:[berth.example]") {
		t.Errorf("the agent says of itself: %s", text)
	}
	m.stopJob("sleeper")
	must(t, m.stop())
	if log, err := os.ReadFile(m.logPath()); err != nil || bytes.Contains(log, []byte(token)) {
		t.Errorf("the log shows the token: %v", err)
	}
	if m.logged("level=WARN") {
		t.Error("a port with a token is nothing to warn of")
	}
}

// TestAnOpenPort: given an agent whose configuration asks for an open port, then it has one, and every start warns.
func TestAnOpenPort(t *testing.T) {
	m := inService(t)
	open := fmt.Sprintf("\n  socket      = %q\n  unsafe_open = true\n", m.socket())
	m.configure(false, open, fmt.Sprintf("ports { http = %d }", m.port))
	for start := 1; start <= 2; start++ {
		m.start()
		if status, text := m.request("/v1/jobs", "X-Nomad-Token", "anything"); status != 200 {
			t.Errorf("the port: %d %s", status, text)
		}
		if status, _ := m.request("/v1/jobs", "Host", "evil.example"); status != 403 {
			t.Errorf("a web page by another name: %d", status)
		}
		must(t, m.stop())
		log, err := os.ReadFile(m.logPath())
		must(t, err)
		n := bytes.Count(log, []byte("unsafe_open"))
		if n != start || !m.logged("level=WARN", "unsafe_open", "as root", "token_file") {
			t.Errorf("after %d starts the log warns %d times", start, n)
		}
	}
}

// TestTheSocketOfADeadAgent: given the socket of an agent that was killed, then the next one takes its place; a second
// agent on the path is refused, and a file that is no socket is kept.
func TestTheSocketOfADeadAgent(t *testing.T) {
	m := inService(t)
	m.start()
	second := func(words ...string) {
		t.Helper()
		args := []string{"agent", "-config", filepath.Join(m.root, "agent.hcl"), "-data-dir",
			filepath.Join(m.root, "d2")}
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		if err == nil {
			t.Fatalf("a second agent ran: %s", out)
		}
		for _, want := range words {
			if !strings.Contains(string(out), want) {
				t.Errorf("the refusal does not say %q: %s", want, out)
			}
		}
	}
	second(m.socket(), fmt.Sprintf("process %d", m.cmd.Process.Pid), "api { socket")
	await(m, "the first to answer", m.api.Nodes().List, func(all []*api.NodeListStub) bool { return len(all) == 1 })
	m.kill()
	if _, err := os.Lstat(m.socket()); err != nil {
		t.Errorf("this test proves nothing: %v", err)
	}
	m.start()
	must(t, m.stop())
	must(t, os.WriteFile(m.socket(), []byte("precious"), 0o600))
	second(m.socket(), "no socket", "not removed")
	if text, err := os.ReadFile(m.socket()); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	must(t, os.Remove(m.socket()))
}

// TestTheUsualSocket: given an agent in service on a machine of its own that says nothing of its API, then commands
// without an address find it, and others than root get a hint what to do.
func TestTheUsualSocket(t *testing.T) {
	m := inService(t)
	m.configure(false, "", "")
	must(t, os.Chmod(m.root, 0o711))
	lent := m.lendBinary()
	const alone = `mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up && exec "$0" "$@"`
	within := append([]string{"-m", "-n", "/bin/sh", "-c", alone, binary}, m.args()...)
	log, err := os.Create(m.logPath())
	must(t, err)
	defer log.Close()
	m.cmd = exec.Command("unshare", within...)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.done = make(chan error, 1)
	must(t, attended(m.cmd, m.done))
	berth := func(user string, args ...string) (string, bool) {
		enter := []string{"-t", strconv.Itoa(m.cmd.Process.Pid), "-m", "-n", "--"}
		become := []string{"setpriv", "--reuid", user, "--regid", user, "--clear-groups", lent}
		cmd := exec.Command("nsenter", slices.Concat(enter, become, args)...)
		cmd.Env = append(os.Environ(), "BERTH_ADDR=", "NOMAD_ADDR=")
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	const root, nobody = "0", "65534"
	m.eventually("a command to find the agent", func() bool {
		out, ok := berth(root, "node", "status")
		return ok && strings.Contains(out, "ready")
	})
	out, ok := berth(nobody, "node", "status")
	if ok || !strings.Contains(out, "the socket "+api.DefaultSocket+" (mode 0600)") || !strings.Contains(out, "sudo") {
		t.Errorf("a command of nobody: %s", out)
	}
	out, ok = berth(root, "node", "status", "-address", api.DefaultAddress)
	if ok || !strings.Contains(out, "no agent listens at "+api.DefaultAddress) {
		t.Errorf("a command to the port: %s", out)
	}
	must(t, m.cmd.Process.Signal(os.Interrupt))
	must(t, <-m.done)
	m.cmd = nil
}
