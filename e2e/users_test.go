package e2e

import (
	"os"
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
