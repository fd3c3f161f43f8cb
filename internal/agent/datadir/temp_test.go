package datadir

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// Given directories beside that of a development agent, then those alone are abandoned that an agent of the same user
// has used whose process is gone.
func TestAbandonedAreThoseWhoseAgentsWereKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	cmd := exec.Command("/bin/true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	gone, here := strconv.Itoa(cmd.Process.Pid), strconv.Itoa(os.Getpid())
	begun := func(pid string) string {
		dir, err := MakeTemp()
		if err != nil {
			t.Fatal(err)
		}
		if pid == "" {
			return dir
		}
		if err := os.MkdirAll(filepath.Join(dir, "server", "raft"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, lockName), []byte(pid+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	own := begun(gone)
	killed := begun(gone)
	begun(here)
	begun("nobody")
	begun("")
	foreign := begun(gone)
	if err := os.Chown(foreign, 4242, -1); err != nil {
		t.Fatal(err)
	}
	unused := begun(gone)
	if err := os.RemoveAll(filepath.Join(unused, "server")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(killed, filepath.Join(filepath.Dir(own), tempPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(begun(gone), filepath.Join(filepath.Dir(own), "other")); err != nil {
		t.Fatal(err)
	}
	if got := Abandoned(own, os.Geteuid()); !slices.Equal(got, []string{killed}) {
		t.Errorf("abandoned are %v, want %v alone", got, killed)
	}
}
