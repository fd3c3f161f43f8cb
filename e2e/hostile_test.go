package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

	"berth/api"
	"berth/e2e/hostile"
	"berth/jobspec"
)

// TestAHostileTask: given a task that tries everything to leave its sandbox or to take more than its share, as root, as
// nobody, and as root of a user namespace of its own, then each attempt has the answer that stands in its row, and
// nothing on the node has suffered.
func TestAHostileTask(t *testing.T) {
	m := inService(t)
	m.inherit()
	token := filepath.Join(m.root, "token")
	must(t, os.WriteFile(token, []byte("sesame-of-the-hostile-3c5d\n"), 0o600))
	m.configure(false, fmt.Sprintf("\nsocket = %q\ntoken_file = %q\n", m.socket(), token),
		fmt.Sprintf("ports { http = %d }\nplugin \"exec\" {\n config {\n  denied_users = []\n }\n}\n", m.port))
	m.start()
	m.buildHostile()
	m.run(sleeper("victim"))
	victim := m.running("victim", 1)[0]
	site := m.site(victim.ID)

	answers := map[string]map[string]string{}
	users := []string{"root", "nobody"}
	for _, user := range users {
		answers[user] = m.attack(site, user)
		m.alive("the attack as "+user, site.PID, m.cmd.Process.Pid)
	}
	const mapped = "0" // root, by another name: its job is another one
	users = append(users, mapped)
	must(t, m.stop())
	m.configure(false, fmt.Sprintf("\nsocket = %q\ntoken_file = %q\n", m.socket(), token), fmt.Sprintf(
		"ports { http = %d }\nplugin \"exec\" {\n config {\n  denied_users = []\n"+
			"  user_namespaces = \"2000000-4000000\"\n }\n}\n", m.port))
	m.start()
	answers[mapped] = m.attack(site, mapped)
	m.alive("the attack as root of a user namespace", site.PID, m.cmd.Process.Pid)
	all := append(hostile.Within(site), hostile.Outside()...)
	t.Log("\n" + table(all, users, answers))
	for _, user := range users {
		for _, a := range all {
			if got, made := answers[user][a.Name]; !made || !slices.Contains(a.Want, got) {
				t.Errorf("as %s, %s: %q, want %s", user, a.Name, got, strings.Join(a.Want, " or "))
			}
			delete(answers[user], a.Name)
		}
		for name := range answers[user] {
			t.Errorf("%s is in no list", name)
		}
	}
	m.stopJob("victim")
}

// buildHostile puts the program where tasks see it, and once more as one that runs as root whoever starts it.
func (m *machine) buildHostile() {
	m.t.Helper()
	program := filepath.Join(m.rig, "program")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./hostile/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		m.t.Fatalf("build the program: %v\n%s", err, out)
	}
	m.lend(program, "setuid")
	must(m.t, os.Chmod(filepath.Join(m.rig, "setuid"), 0o755|os.ModeSetuid))
}

// site is what the program gets to know. All of it is there: what is not cannot be reached in any case.
func (m *machine) site(victim string) hostile.Site {
	m.t.Helper()
	var data syscall.Stat_t
	must(m.t, syscall.Stat(m.data, &data))
	for _, path := range []string{m.socket(), filepath.Join(m.data, "shim"), filepath.Join(m.data, "alloc", victim)} {
		_, err := os.Stat(path)
		must(m.t, err)
	}
	peer := fmt.Sprintf("@hostile-%d", os.Getpid())
	listener, err := net.Listen("unix", peer)
	must(m.t, err)
	m.t.Cleanup(func() { must(m.t, listener.Close()) })
	return hostile.Site{
		Data:   m.data,
		Peer:   peer,
		Socket: m.socket(),
		Port:   m.port,
		Victim: victim,
		PID:    m.pid(victim, "t", "100000"),
		Disk:   data.Dev,
	}
}

// attack runs the job as a user, and returns the answer to each attempt.
func (m *machine) attack(site hostile.Site, user string) map[string]string {
	m.t.Helper()
	outside := filepath.Join(m.root, "outside")
	must(m.t, os.MkdirAll(outside, 0o777))
	must(m.t, os.Chmod(outside, 0o777))
	text, err := json.Marshal(site)
	must(m.t, err)
	source, err := os.ReadFile("hostile/job.nomad.hcl")
	must(m.t, err)
	job, err := jobspec.Parse(jobspec.ParseConfig{Path: "job.nomad.hcl", Source: source,
		Vars: map[string]string{"user": user, "site": string(text), "outside": outside}})
	must(m.t, err)
	_, _, err = m.api.Jobs().Register(m.t.Context(), &api.JobRegisterRequest{Job: job}, nil)
	must(m.t, err)

	out := m.tried(*job.ID)
	maps.Copy(out, m.asked(*job.ID))
	out["logs: write more than the job's share"] = m.flooded(*job.ID)
	const allows = "ephemeral_disk allows 10" // MiB, or that in bytes where it is not much more
	for group, end := range map[string]struct{ name, answer, event string }{
		"memory":  {"memory: take more than the limit", "OOM Killed", "OOM Killed"},
		"unnamed": {"memory: take more than the limit in files without a name", "OOM Killed", "OOM Killed"},
		"disk":    {"disk: write more than the group asks for", "stopped", allows},
		"inodes":  {"disk: make files without content", "stopped", allows},
		"names":   {"disk: write below names that are no text", "stopped", allows},
		"open":    {"disk: write to a file that was removed", "stopped", "removed but are open by task"},
		"gone":    {"disk: have directories gone when they are looked at", "stopped", allows},
	} {
		out[end.name] = end.answer
		if events := m.ending(*job.ID, group); !strings.Contains(events, end.event) {
			out[end.name] = "ended otherwise: " + events
		}
	}
	for group, name := range map[string]string{"tcp": "TCP", "udp": "UDP"} {
		out["memory: take more than the limit in buffers of "+name] = m.buffered(*job.ID, group)
	}
	out["API: read through a directory that is exchanged for a link to the node's, over and over"] = m.swapped(*job.ID)
	out["session: look at its process from its birth on, for what is the node's"] = m.peeked(*job.ID)
	out["session: put something else where terminals are opened"] = m.terminal(*job.ID)
	killer := m.of(*job.ID, "killall", func(a *api.AllocationListStub) bool {
		return a.ClientStatus != api.AllocClientStatusPending && strings.Contains(m.output(a.ID), hostile.End)
	})
	out["processes: kill everybody"] = "its own alone"
	if killer.ClientStatus != api.AllocClientStatusRunning {
		out["processes: kill everybody"] = killer.ClientStatus
	}
	written := "template: write past the task's directory by a link laid between starts"
	out[written] = "refused"
	events := m.ending(*job.ID, "template")
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		out[written] = fmt.Sprint("written: ", left, err)
	} else if !strings.Contains(events, "local/out") {
		out[written] = "not tried: " + events
	}
	m.stopJob(*job.ID)
	return out
}

// of waits for the alloc of a group of the job to be as wanted.
func (m *machine) of(job, group string, ok func(*api.AllocationListStub) bool) *api.AllocationListStub {
	m.t.Helper()
	var found *api.AllocationListStub
	m.eventually("the tasks of group "+group, func() bool {
		for _, a := range m.now(job) {
			if a.TaskGroup == group && ok(a) {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

// ending waits until the task of a group has failed, and returns what its events say.
func (m *machine) ending(job, group string) string {
	m.t.Helper()
	a := m.of(job, group, func(a *api.AllocationListStub) bool { return a.ClientStatus == api.AllocClientStatusFailed })
	var out []string
	for _, e := range a.TaskStates["t"].Events {
		out = append(out, e.DisplayMessage)
	}
	return strings.Join(out, "\n")
}

// tried are the answers that the program has had.
func (m *machine) tried(job string) map[string]string {
	m.t.Helper()
	a := m.of(job, "attempts", func(a *api.AllocationListStub) bool {
		return a.ClientStatus == api.AllocClientStatusComplete || a.ClientStatus == api.AllocClientStatusFailed
	})
	out, ended := hostile.Answers(m.output(a.ID))
	if !ended {
		m.t.Fatalf("the program ended early:\n%s", m.output(a.ID))
	}
	return out
}

// asked are the answers of the API to who reads what the task has laid.
func (m *machine) asked(job string) map[string]string {
	m.t.Helper()
	id := m.of(job, "lay", func(a *api.AllocationListStub) bool {
		return strings.Contains(m.output(a.ID), hostile.End)
	}).ID
	read := func(path string) string {
		r, err := m.api.Allocations().CatFile(m.t.Context(), id, path, nil)
		if err == nil {
			text, readErr := io.ReadAll(r)
			must(m.t, errors.Join(readErr, r.Close()))
			return fmt.Sprintf("%s: %q", hostile.Allowed, text)
		}
		return status(err)
	}
	_, err := m.api.Allocations().ListFiles(m.t.Context(), id, "t/local/root", nil)
	listed := "listed"
	if _, err := m.api.Allocations().ListFiles(m.t.Context(), id, "alloc", nil); err != nil {
		listed = status(err)
	}
	return map[string]string{
		"API: read a file of the node by a link in the task's directory": read("t/local/shadow"),
		"API: read the task's secrets by a link":                         read("t/local/secret"),
		"API: read the task's secrets":                                   read("t/secrets/own"),
		"API: read the data_dir by dots":                                 read("../../client/client.db"),
		"API: read a pipe that nobody writes to":                         read("t/local/pipe"),
		"API: list the node's root by a link":                            status(err),
		"API: list a directory whose names are no text":                  listed,
	}
}

// laid waits until the program of a group has laid what it lays, and returns the allocation.
func (m *machine) laid(job, group string) string {
	m.t.Helper()
	return m.of(job, group, func(a *api.AllocationListStub) bool {
		return strings.Contains(m.output(a.ID), hostile.End)
	}).ID
}

// swapped says what the API reads below a name that is a directory of the task's one moment, and a link the next.
func (m *machine) swapped(job string) string {
	m.t.Helper()
	id := m.laid(job, "swap")
	read, refused := 0, 0
	for read < 100 || refused < 100 {
		r, err := m.api.Allocations().CatFile(m.t.Context(), id, hostile.Swapped, nil)
		if code := status(err); err != nil && code != "403" && code != "404" {
			return fmt.Sprintf("answered %s: %v", code, err)
		}
		if err != nil {
			refused++
			continue
		}
		text, err := io.ReadAll(r)
		must(m.t, errors.Join(err, r.Close()))
		if string(text) != hostile.Own {
			return fmt.Sprintf("%s: %q", hostile.Allowed, text)
		}
		read++
	}
	return "its own alone"
}

// peeked says what a task has found in the processes of many sessions.
func (m *machine) peeked(job string) string {
	m.t.Helper()
	const sessions, least = 30, 3
	id := m.laid(job, "peek")
	for range sessions {
		if out, code := m.cli("alloc", "exec", "-i=false", "-t=false", id, "/bin/true"); code != 0 {
			m.t.Fatalf("a session ends with %d: %s", code, out)
		}
	}
	stop := []string{"alloc", "exec", "-i=false", "-t=false", id, "/bin/sh", "-c", ": > /alloc/data/stop"}
	if out, code := m.cli(stop...); code != 0 {
		m.t.Fatalf("a session ends with %d: %s", code, out)
	}
	m.of(job, "peek", func(a *api.AllocationListStub) bool { return a.ClientStatus == api.AllocClientStatusComplete })
	ways, seen, _ := strings.Cut(m.output(id), hostile.Seen)
	if n, err := strconv.Atoi(strings.TrimSpace(seen)); err != nil || n < least {
		return fmt.Sprintf("not tried: it has seen %q", seen)
	}
	if ways = strings.TrimSpace(strings.Replace(ways, hostile.End, "", 1)); ways != "" {
		return ways
	}
	return "nothing"
}

// terminal says where a session is whose task would have put something else in the place of its terminals.
func (m *machine) terminal(job string) string {
	m.t.Helper()
	id := m.laid(job, "ptmx")
	out, code := m.cli("alloc", "exec", "-i=false", "-t=true", id, "/bin/sh", "-c", "tty; ls -l /alloc/data/terminal")
	if code != 0 && strings.Contains(out, "open a terminal in the task: ") {
		return "refused"
	}
	if code != 0 || !strings.HasPrefix(out, "/dev/pts/") || !strings.Contains(out, " 0 ") {
		return fmt.Sprintf("%d: %q", code, out)
	}
	return "the task's terminal"
}

// status is the code of a refusal.
func status(err error) string {
	if refused, ok := errors.AsType[*api.StatusError](err); ok {
		return fmt.Sprint(refused.Code)
	}
	return fmt.Sprintf("%s (%v)", hostile.Allowed, err)
}

// buffered says what became of far more data in buffers of sockets than the task's memory.
func (m *machine) buffered(job, group string) string {
	m.t.Helper()
	a := m.of(job, group, func(a *api.AllocationListStub) bool {
		return a.ClientStatus == api.AllocClientStatusComplete || a.ClientStatus == api.AllocClientStatusFailed
	})
	said := strings.TrimSpace(m.output(a.ID))
	m.t.Logf("%s: %s", group, said)
	if strings.HasPrefix(said, hostile.Bounded+" at ") {
		return hostile.Bounded
	}
	return said
}

// flooded says what became of far more output than the job's logs hold.
func (m *machine) flooded(job string) string {
	m.t.Helper()
	const share = 2 << 20 // max_files times max_file_size
	var dir string
	m.of(job, "flood", func(a *api.AllocationListStub) bool {
		dir = filepath.Join(m.data, "alloc", a.ID, "alloc/logs")
		said, err := os.ReadFile(filepath.Join(dir, "t.stderr.0"))
		return err == nil && strings.Contains(string(said), hostile.End)
	})
	files, err := filepath.Glob(filepath.Join(dir, "t.stdout.*"))
	must(m.t, err)
	var kept int64
	for _, f := range files {
		info, err := os.Stat(f)
		must(m.t, err)
		kept += info.Size()
	}
	if kept == 0 || kept > share {
		return fmt.Sprint("kept ", kept, " bytes")
	}
	return "dropped"
}

// table shows the answers, a row for each attempt.
func table(all []hostile.Attempt, users []string, answers map[string]map[string]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "attempt\tas "+strings.Join(users, "\tas ")) // to memory
	for _, a := range all {
		row := a.Name
		for _, user := range users {
			row += "\t" + answers[user][a.Name]
		}
		_, _ = fmt.Fprintln(w, row)
	}
	_ = w.Flush()
	return b.String()
}
