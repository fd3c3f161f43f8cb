package agent

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/testkit/freeport"
)

// entries are the paths below a directory, without it; nil: it is not there.
func entries(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != dir {
			out = append(out, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return out
}

// short is a temporary directory whose path leaves the kernel's limit to those of sockets below it.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "refused")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// taken is a port on which somebody else listens.
func taken(t *testing.T) int {
	t.Helper()
	port := freeport.Pick(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return port
}

// Given starts of agents that are refused, by what their files say or by what is in the way on the machine, when no
// agent has used the data_dir before, then what was there is there as before, and nothing else.
func TestARefusedStartLeavesNothing(t *testing.T) {
	open := "api {\n unsafe_open = true\n}\nacl {\n enabled = false\n}\n"
	both := "server {\n enabled = true\n}\nclient {\n enabled = true\n}\n"
	for name, c := range map[string]struct{ file, says string }{
		"a value that means nothing": {both + "log_level = \"loud\"\n", "loud"},
		"the port of the API": {both + open + fmt.Sprintf("ports {\n http = %d\n}\n", taken(t)),
			"listen for the HTTP API"},
		"a socket in no directory": {both + "api {\n socket = \"/proc/nowhere/api.sock\"\n}\n", "/proc/nowhere"},
		"the port of servers": {both + "addresses {\n rpc = \"127.0.0.1\"\n}\n" +
			fmt.Sprintf("ports {\n rpc = %d\n}\n", taken(t)), "address already in use"},
		"the port of a node's API": {"acl {\n enabled = true\n}\n" + fmt.Sprintf("ports {\n http = %d\n}\n", taken(t)) +
			"client {\n enabled = true\n servers = [\"127.0.0.1:4\"]\n}\n", "listen for the HTTP API"},
	} {
		t.Run(name, func(t *testing.T) {
			for what, there := range map[string][]string{"no directory": nil, "an empty one": {},
				"file systems prepared": {"lost+found", "audit", "server/lost+found"}} {
				top := short(t)
				dir := filepath.Join(top, "data")
				for _, path := range there {
					if err := os.MkdirAll(filepath.Join(dir, path), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				if there != nil && len(there) == 0 {
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				socket := ""
				if !strings.Contains(c.file, "api {") {
					socket = fmt.Sprintf("api {\n socket = %q\n}\n", filepath.Join(top, "api.sock"))
				}
				before := entries(t, top)
				file := write(t, t.TempDir(), "a.hcl", fmt.Sprintf("data_dir = %q\n%s%s", dir, c.file, socket))
				cfg, err := Parse([]string{"-config", file}, io.Discard)
				if err == nil {
					err = Run(t.Context(), cfg, "9", Signals{})
				}
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%s: %v", what, err)
				}
				if after := entries(t, top); !slices.Equal(before, after) {
					t.Errorf("%s: there was %v, there is %v", what, before, after)
				}
			}
		})
	}
}

// Given a data_dir that an agent has used, when a start is refused, then everything in it stays.
func TestARefusedStartLeavesWhatAnAgentHasMade(t *testing.T) {
	dir := filepath.Join(short(t), "data")
	write(t, dir, "server/keyring/key", "x")
	write(t, dir, "audit/audit.log", "")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "audit"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := write(t, t.TempDir(), "a.hcl", fmt.Sprintf("data_dir = %q\nserver {\n enabled = true\n}\n"+
		"api {\n socket = \"/proc/nowhere/api.sock\"\n}\n", dir))
	if err := Run(t.Context(), parse(t, "-config", file), "9", Signals{}); err == nil {
		t.Fatal("it runs")
	}
	for _, path := range []string{"server/keyring/key", "audit/audit.log", "lock"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
}
