package e2e

import (
	"strings"
	"testing"
)

// TestSessionsEndAsInAShell: a script that calls alloc exec tells a command that is not there from one that failed.
func TestSessionsEndAsInAShell(t *testing.T) {
	m := prepare(t, false)
	m.start()
	for _, driver := range []string{"exec", "raw_exec"} {
		m.run(shellJob(driver, driver, "exec sleep 1000", ""))
		a := m.running(driver, 1)[0]
		for _, c := range []struct {
			command []string
			code    int
			says    string
		}{
			{[]string{"no-such-command"}, 127, `berth: command "no-such-command": not found in `},
			{[]string{"/usr"}, 126, `berth: command "/usr": is a directory in `},
			{[]string{"/bin/sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
			{[]string{"/bin/sh", "-c", "kill -KILL $$"}, 128 + 9, ""},
			{[]string{"/bin/sh", "-c", "exit 3"}, 3, ""},
		} {
			args := []string{"alloc", "exec", "-i=false", "-t=false", a.ID}
			out, code := m.cli(append(args, c.command...)...)
			if code != c.code || !strings.HasPrefix(out, c.says) || c.says == "" && out != "" {
				t.Errorf("%s: %q: exit code %d, want %d; says %q", driver, c.command, code, c.code, out)
			}
		}
		m.stopJob(driver)
	}
}
