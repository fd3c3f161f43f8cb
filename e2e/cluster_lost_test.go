package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// among has a job run on one of the machines whose names match.
func among(names, hcl string) string {
	return strings.Replace(hcl, "group \"g\" {", fmt.Sprintf(`group "g" {
    constraint {
      attribute = "${node.unique.name}"
      operator  = "regexp"
      value     = %q
    }`, names), 1)
}

// TestClusterIsRestored: given three machines with tasks that write to volumes, all of them lost with their disks, when
// the state that was saved is restored on a new machine with the recovery key, and two more join that one, then nothing
// is done with a volume before somebody has said that the old machines are dead; with that word each task goes on, on a
// new machine, with what it had written, and the new servers bear the loss of one.
func TestClusterIsRestored(t *testing.T) {
	long(t)
	c := newCluster(t)
	for i, names := range []string{"s[14]", "s[25]", "s[36]"} {
		id := fmt.Sprintf("data%d", i+1)
		c.m().create(id, "shared")
		c.m().run(among(names, writer{id: id, volume: id}.hcl()))
		c.writes(id)
	}
	kept := t.TempDir()
	saved, key := filepath.Join(kept, "saved"), filepath.Join(kept, "recovery.key")
	c.m().mustCLI("operator", "snapshot", "save", saved)
	secret, err := os.ReadFile(filepath.Join(c.m().data, "server", "keyring", "recovery.key"))
	must(t, err)
	must(t, os.WriteFile(key, secret, 0o600))
	var old []string
	for i := range 3 {
		old = append(old, c.m().ready(name(i)).ID)
	}
	for i := range 3 {
		c.burns(i)
	}

	c.begins()
	c.speak(3)
	c.m().ready(name(3))
	if out, code := c.m().cli("operator", "snapshot", "restore", "-yes", saved); code == 0 {
		t.Errorf("it was restored without the key:\n%s", out)
	}
	c.m().mustCLI("operator", "snapshot", "restore", "-yes", "-recovery-key-file", key, saved)
	for i := range 3 {
		c.m().mustCLI("server", "force-leave", name(i)+".global")
	}
	for i := 4; i < 6; i++ {
		c.joins(c.add(address(3)))
		c.m().voters(i-2, 0)
	}
	var now []string
	for i := 3; i < 6; i++ {
		now = append(now, c.m().ready(name(i)).ID)
	}
	calls := len(c.p.calls())
	status := c.m().mustCLI("operator", "recovery", "status")
	for _, id := range old {
		line := lineWith(status, id[:8])
		if strings.Contains(line, "answers") || line == "" {
			t.Errorf("of a node that is dead it says %q in:\n%s", line, status)
		}
	}
	for i := range old {
		c.down(old[i])
	}
	if got := c.p.calls()[calls:]; len(got) > 0 {
		t.Errorf("nobody has said that the old machines are dead, and %q was called", got)
	}
	for _, id := range old {
		c.m().mustCLI("operator", "recovery", "dismiss", "-yes", "-reason", "its machine burnt", id)
	}
	c.m().mustCLI("operator", "recovery", "finish", "-yes", "-reason", "there was no other node")
	c.m().healed()
	for i := range old {
		c.m().mustCLI("node", "replace", "-yes", "-reason", "its machine burnt", old[i], now[i])
	}
	var pids []int
	for i := range old {
		id := fmt.Sprintf("data%d", i+1)
		c.m().eventually(id+" to run on a new machine", func() bool {
			all := c.m().running(id, 1)
			return all[0].NodeName == name(3+i)
		})
		pid := c.writes(id)
		if log := c.m().seen(pid, "/data/log"); log != "started\nstarted\n" {
			t.Errorf("on the new machine volume %s tells of %q", id, log)
		}
		pids = append(pids, pid)
	}

	if last := name(5) + ".global"; c.m().voters(3, 0) != last {
		c.m().mustCLI("operator", "raft", "transfer-leadership", "-peer-id", last)
		c.m().eventually(last+" to lead", func() bool { return c.m().voters(3, 0) == last })
	}
	c.machines[5].kill()
	c.m().voters(3, 1)
	c.quickly(3, 4, "late")
	for _, pid := range pids[:2] {
		c.m().alive("another server is lost", pid)
	}
	c.machines[5].launch()
	c.machines[5].answers()
	c.m().voters(3, 0)
	c.m().ready(name(5))
	c.over("data1", "data2", "data3")
}

// lineWith is the line of a text that contains something.
func lineWith(text, what string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			return line
		}
	}
	return ""
}
