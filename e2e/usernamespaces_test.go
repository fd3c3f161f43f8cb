package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ownUsers lets tasks of exec be root, of user namespaces with numbers from a range.
const ownUsers = `
plugin "exec" {
  config {
    denied_users    = []
    user_namespaces = "3000000-3399999"
  }
}
`

// firstID is the number of the node that root of a process is; -1: it has none.
func (m *machine) firstID(pid int) int {
	m.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	must(m.t, err)
	var inside, outside, n int
	_, err = fmt.Sscan(string(text), &inside, &outside, &n)
	must(m.t, err)
	if inside != 0 || n != 65536 {
		return -1
	}
	return outside
}

// foreign lists what below a directory belongs to numbers that the node itself would not have given.
func foreign(t *testing.T, dir string) (out []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		must(t, syscall.Lstat(p, &st))
		if st.Uid >= 65536 || st.Gid >= 65536 {
			out = append(out, fmt.Sprintf("%s %d:%d", p, st.Uid, st.Gid))
		}
		return nil
	}))
	return out
}

// TestTasksHaveUsersOfTheirOwn: given an agent with user namespaces, when root writes to a volume, then its files are
// what they would be without, so that the next alloc reads and changes them, by another user namespace or none, and a
// volume's ownership is as asked; templates, secrets, output, files by the API and commands beside the task are as
// ever. A task goes on over a killed agent with the numbers it has, which no other alloc gets; constraints see the
// node.
func TestTasksHaveUsersOfTheirOwn(t *testing.T) {
	m := prepare(t, true)
	m.append(ownUsers)
	m.start()
	m.awaitPlugin("local-csi")
	spec := filepath.Join(m.root, "v.hcl")
	must(t, os.WriteFile(spec, []byte(`
id = "data"
name = "data"
type = "csi"
plugin_id = "local-csi"
capacity_min = "32MiB"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
ownership {
  gid    = 5555
  mode   = "2770"
  policy = "root_only"
}
`), 0o600))
	m.mustCLI("volume", "create", spec)
	// each reads what those before it wrote, and adds to it
	const writes = `umask 077; echo who $(id -u) of $(stat -c %u:%g:%a /data); cat /data/d/* 2>/dev/null
mkdir -p /data/d && echo line-$RUN > /data/d/$RUN && chown 77:78 /data/d/$RUN
stat -c %u:%g /data/d/* | sort | uniq -c
cat /secrets/key; echo; echo x > /alloc/data/x && echo x > /local/x && echo x > /secrets/x
echo read; exec sleep 100000`
	onVolume := func(id string) string {
		hcl := writer{id: id, volume: "data", script: strings.ReplaceAll(writes, "$RUN", id)}.hcl()
		return strings.Replace(hcl, "driver  ", `user = "root"
      template {
        data        = "sealed"
        destination = "secrets/key"
        perms       = "0600"
      }
      driver  `, 1)
	}
	said := func(alloc, task string) (text string) {
		m.eventually("task "+task+" to have said all", func() bool {
			out, code := m.cli("alloc", "logs", alloc, task)
			text = out
			return code == 0 && strings.Contains(out, "read\n")
		})
		return text
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: it says\n%s, want\n%s", what, got, want)
		}
	}
	m.run(onVolume("a"))
	a := m.running("a", 1)[0]
	expect("the first", said(a.ID, "write"), "who 0 of 0:5555:2770\n      1 77:78\nsealed\nread\n")
	pid := m.pid(a.ID, "write", "100000")
	first := m.firstID(pid)
	var st syscall.Stat_t
	must(t, syscall.Stat(fmt.Sprintf("/proc/%d", pid), &st))
	if first != 3000000 || st.Uid != 3000000 {
		t.Errorf("root of the task is %d on the node, its process %d's", first, st.Uid)
	}
	m.kill()
	m.start()
	m.alive("the agent was killed", pid)
	m.run(strings.Replace(shellJob("b", "exec", "echo read; exec sleep 100000", ""), "group \"g\" {", `group "g" {
    constraint {
      attribute = "${attr.driver.exec.user_namespaces}"
      operator  = "is_set"
    }`, 1))
	b := m.running("b", 1)[0]
	if other := m.firstID(m.pid(b.ID, "t", "100000")); other != first+65536 {
		t.Errorf("the next alloc has numbers from %d on, the first one's begin at %d", other, first)
	}
	out, code := m.cli("alloc", "exec", "-i=false", "-t=false", "-task", "write", a.ID, "/bin/sh", "-c",
		"id -u; cat /secrets/x /data/d/a; readlink /proc/self/ns/user")
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
	must(t, err)
	if code != 0 || out != "0\nx\nline-a\n"+ns+"\n" {
		t.Errorf("a command beside it ends with %d and says\n%s", code, out)
	}
	if out := m.mustCLI("alloc", "fs", a.ID, "write/local/x"); out != "x\n" {
		t.Errorf("a file of the task by the API: %q", out)
	}
	m.mustCLI("alloc", "restart", a.ID)
	m.eventually("the task to be started anew", func() bool {
		found := processesOfTask(a.ID, "write", "100000")
		return len(found) == 1 && found[0].pid != pid
	})
	if again := m.firstID(m.pid(a.ID, "write", "100000")); again != first {
		t.Errorf("started anew it has numbers from %d on, not from %d", again, first)
	}
	if got := foreign(t, filepath.Join(m.data, "alloc")); len(got) > 0 {
		t.Errorf("on the node it belongs to nobody that there is: %v", got)
	}
	m.stopJob("a")
	m.run(onVolume("c"))
	expect("another alloc", said(m.running("c", 1)[0].ID, "write"),
		"who 0 of 0:5555:2770\nline-a\n      2 77:78\nsealed\nread\n")
	m.stopJob("c")
	m.stopJob("b")
	must(t, m.stop())
	m.configure(true, fmt.Sprintf("socket = %q", m.socket()), strings.Replace(ownUsers, "user_namespaces", "# ", 1))
	m.start()
	m.awaitPlugin("local-csi")
	m.run(onVolume("d"))
	d := m.running("d", 1)[0]
	expect("without user namespaces", said(d.ID, "write"),
		"who 0 of 0:5555:2770\nline-a\nline-c\n      3 77:78\nsealed\nread\n")
	if got := m.firstID(m.pid(d.ID, "write", "100000")); got != -1 {
		t.Errorf("with the option taken away a task has users from %d on", got)
	}
	m.stopJob("d")
	m.remove("data")
}
