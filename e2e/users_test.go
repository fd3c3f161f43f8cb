package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRawExecWithAUserReachesItsDirectories: by the paths in its environment, as the job's user, and so does a command
// beside it; other allocs are not there for it.
func TestRawExecWithAUserReachesItsDirectories(t *testing.T) {
	m := prepare(t, false)
	must(t, os.Chmod(m.root, 0o711))
	m.start()
	m.run(shellJob("other", "raw_exec", "echo secret > $NOMAD_ALLOC_DIR/data/f; exec sleep 1000", ""))
	other := m.running("other", 1)[0]
	script := `id -un; pwd; cat $NOMAD_TASK_DIR/hello
for d in $NOMAD_ALLOC_DIR $NOMAD_ALLOC_DIR/data $NOMAD_TASK_DIR $NOMAD_SECRETS_DIR tmp; do echo x > $d/made || echo no $d; done
ls -d ` + m.data + "/alloc/" + other.ID + ` 2>/dev/null || echo alone
echo read; exec sleep 1000`
	job := strings.Replace(shellJob("own", "raw_exec", script, ""), "driver = ", `user = "nobody"
      template {
        data        = "rendered"
        destination = "local/hello"
      }
      driver = `, 1)
	m.run(job)
	a := m.running("own", 1)[0]
	m.eventually("the task to say what it reaches", func() bool { return strings.Contains(m.output(a.ID), "read\n") })
	want := "nobody\n" + m.data + "/alloc/" + a.ID + "/t\nrenderedalone\nread\n"
	if got := m.output(a.ID); got != want {
		t.Errorf("it says\n%s, want\n%s", got, want)
	}
	out, code := m.cli("alloc", "exec", "-i=false", "-t=false", a.ID, "/bin/sh", "-c",
		"id -un; cat $NOMAD_ALLOC_DIR/data/made $NOMAD_SECRETS_DIR/made; ls "+m.data)
	if code != 0 || out != "nobody\nx\nx\nalloc\n" {
		t.Errorf("a command beside it ends with %d and says\n%s", code, out)
	}
	m.stopJob("own")
	m.stopJob("other")
}

// TestATaskThatNamesNoUserIsNobody: its directories and what is rendered for it are its own. Root, by any name, and its
// group are refused by name of job, task and user, until the agent's configuration allows them; then who names none is
// whom that says.
func TestATaskThatNamesNoUserIsNobody(t *testing.T) {
	m := newMachine(t, false)
	rendered := func(job string) string {
		return strings.Replace(job, "driver = ", `template {
        data        = "sealed"
        destination = "secrets/conf.d/key"
        perms       = "0600"
      }
      driver = `, 1)
	}
	script := `id -un; cat /secrets/conf.d/key; echo
for d in /alloc /alloc/data /local /secrets /secrets/conf.d /tmp; do echo x > $d/made || echo no $d; done
echo read; exec sleep 1000`
	said := func(job string) string {
		a := m.running(job, 1)[0]
		m.eventually("the task to say who it is", func() bool { return strings.Contains(m.output(a.ID), "read\n") })
		return m.output(a.ID)
	}
	m.run(rendered(shellJob("plain", "exec", script, "")))
	if got := said("plain"); got != "nobody\nsealed\nread\n" {
		t.Errorf("it says %q", got)
	}
	m.stopJob("plain")
	as := func(job, user string) string {
		return strings.Replace(job, "driver = ", fmt.Sprintf("user = %q\n      driver = ", user), 1)
	}
	for i, user := range []string{"0", "0:1", "65534:0", "nobody:root"} {
		job := fmt.Sprint("denied", i)
		_, err := m.register(as(shellJob(job, "exec", "exec sleep 1000", ""), user))
		if strings.HasPrefix(user, "0") { // what the node says of numbers is known before
			mustSay(t, "the refusal of user "+user, fmt.Sprint(err), `task "t"`, fmt.Sprintf("user %q", user))
			continue
		}
		must(t, err)
		mustSay(t, "the refusal of user "+user, m.failure(job), fmt.Sprintf("job %q", job), `task "t"`,
			fmt.Sprintf("user %q", user), `plugin "exec"`, "denied_users")
		m.stopJob(job)
	}
	must(t, m.stop())
	m.append(`
plugin "exec" {
  config {
    default_user = "root"
    denied_users = []
  }
}
plugin "raw_exec" {
  config { denied_host_uids = "1-99,65534" }
}
`)
	m.start()
	m.run(rendered(shellJob("allowed", "exec", script, "")))
	if got := said("allowed"); got != "root\nsealed\nread\n" {
		t.Errorf("it says %q", got)
	}
	m.run(as(shellJob("ranged", "raw_exec", "exec sleep 1000", ""), "nobody"))
	mustSay(t, "the refusal of a number", m.failure("ranged"), `job "ranged"`, "uid 65534", `plugin "raw_exec"`)
	m.stopJob("ranged")
	m.stopJob("allowed")
}

// TestAVolumeBelongsToItsTasksUser: a fresh one without a word, one with files when its specification says so.
func TestAVolumeBelongsToItsTasksUser(t *testing.T) {
	m := newMachine(t, true)
	spec := func(id, ownership string) string {
		path := filepath.Join(m.root, id+".hcl")
		must(t, os.WriteFile(path, fmt.Appendf(nil, `
id = %q
name = %q
type = "csi"
plugin_id = "local-csi"
capacity_min = "32MiB"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
%s
`, id, id, ownership), 0o600))
		return path
	}
	create := func(id, ownership string) {
		t.Helper()
		if out, code := m.cli("volume", "create", spec(id, ownership)); code != 0 {
			t.Fatalf("%d: %s", code, out)
		}
	}
	const writes = `umask 077; stat -c '%u:%g %a' /data; mkdir -p /data/d && echo x >> /data/d/f && ` +
		`cat /data/d/f; echo read; exec sleep 1000`
	run := func(job, volume, user string) string {
		t.Helper()
		hcl := writer{id: job, volume: volume, script: writes}.hcl()
		m.run(strings.Replace(hcl, "driver  ", fmt.Sprintf("user = %q\n      driver  ", user), 1))
		a := m.running(job, 1)[0]
		log := filepath.Join(m.data, "alloc", a.ID, "alloc/logs/write.stdout.0")
		var said string
		m.eventually("the task to say whose its volume is", func() bool {
			b, err := os.ReadFile(log)
			said = string(b)
			return err == nil && strings.Contains(said, "read\n")
		})
		m.stopJob(job)
		return said
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: it says %q, want %q", what, got, want)
		}
	}
	create("plain", "")
	expect("a fresh volume", run("first", "plain", "4321:8765"), "4321:8765 755\nx\nread\n")
	expect("a volume with files, and another user", run("second", "plain", "4444:4444"), "4321:8765 755\nread\n")

	create("asked", `ownership {
  gid    = 5555
  mode   = "2770"
  policy = "recursive_if_root_differs"
}`)
	expect("the first", run("third", "asked", "4321:8765"), "4321:5555 2770\nx\nread\n")
	expect("another user", run("fourth", "asked", "4444:4444"), "4444:5555 2770\nx\nx\nread\n")

	create("grouped", `ownership {
  gid    = 5555
  policy = "root_only"
}`)
	// 755 became 2775 by the plugin, which has VOLUME_MOUNT_GROUP.
	expect("a group that the plugin gives", run("fifth", "grouped", "4321:8765"), "4321:5555 2775\nx\nread\n")

	out, code := m.cli("volume", "create", spec("wrong", `ownership {
  mode   = "9"
  policy = "all"
}`))
	if code == 0 {
		t.Error("a policy that there is not was taken")
	}
	mustSay(t, "the refusal", out, `policy "all"`, "root_only", `mode "9"`)
	m.remove("plain")
	m.remove("asked")
	m.remove("grouped")
}
