package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// examples are the files that come with the program, as an ordinary user of the machine has them.
type examples struct {
	m     *machine
	berth string // the program, where that user may run it
	dir   string
	run   []string // the files that commands have named
}

// borrow gives an ordinary user the examples, and the program. Words in them that each user replaces are replaced.
func (m *machine) borrow(words map[string]string) *examples {
	m.t.Helper()
	must(m.t, os.Chmod(m.root, 0o711))
	x := &examples{m: m, berth: m.lendBinary(), dir: filepath.Join(m.rig, "examples")}
	must(m.t, os.Mkdir(x.dir, 0o755))
	for _, path := range x.files() {
		text, err := os.ReadFile(path)
		must(m.t, err)
		for word, with := range words {
			text = []byte(strings.ReplaceAll(string(text), word, with))
		}
		must(m.t, os.WriteFile(filepath.Join(x.dir, filepath.Base(path)), text, 0o644))
	}
	return x
}

// files are those that are run by a command; the agent's configuration is run by the guides.
func (x *examples) files() []string {
	x.m.t.Helper()
	all, err := filepath.Glob("../examples/*.hcl")
	must(x.m.t, err)
	return slices.DeleteFunc(all, func(path string) bool { return filepath.Base(path) == "agent.hcl" })
}

// does runs a command as user nobody, who has the port of the API alone, where the examples are.
func (x *examples) does(args ...string) string {
	x.m.t.Helper()
	become := []string{"--reuid", "65534", "--regid", "65534", "--clear-groups", x.berth}
	cmd := exec.Command("setpriv", append(become, args...)...)
	cmd.Dir = x.dir
	cmd.Env = append(os.Environ(), "BERTH_ADDR="+x.m.address())
	out, err := cmd.CombinedOutput()
	if err != nil {
		x.m.t.Fatalf("berth %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, a := range args {
		if strings.HasSuffix(a, ".hcl") {
			x.run = append(x.run, a)
		}
	}
	return string(out)
}

// TestTheExamplesRun: given an agent for trying out, when an ordinary user of the machine runs what the examples say in
// their first lines, then the database runs on its volume, and on what is made of that; and a plugin of somebody else
// keeps a volume for it, too.
func TestTheExamplesRun(t *testing.T) {
	m := newMachine(t, true)
	plugin := filepath.Join(m.rig, "my-csi-plugin")
	x := m.borrow(map[string]string{"/usr/local/bin/my-csi-plugin": plugin})
	x.does("volume", "create", "redis-data.volume.hcl")
	x.does("job", "run", "redis.nomad.hcl")
	m.redis("redis").write(1000)
	x.does("volume", "create", "redis-clone.volume.hcl")
	x.does("volume", "snapshot", "create", "redis-data", "before")
	m.redis("redis").do("set", "after-the-snapshot", "x")
	id := regexp.MustCompile(`(?m)^\S+`).FindAllString(x.does("volume", "snapshot", "list", "-t",
		`{{range .}}{{.ID}}{{"\n"}}{{end}}`), -1)
	if len(id) != 1 {
		t.Fatalf("snapshots: %q", id)
	}
	restored := filepath.Join(x.dir, "redis-restored.volume.hcl")
	text, err := os.ReadFile(restored)
	must(t, err)
	must(t, os.WriteFile(restored, []byte(strings.Replace(string(text), "SNAPSHOT", id[0], 1)), 0o644))
	x.does("volume", "create", "redis-restored.volume.hcl")
	for _, volume := range []string{"redis-clone", "redis-restored"} {
		x.does("job", "run", "-var", "name="+volume, "-var", "volume="+volume, "redis.nomad.hcl")
		m.redis(volume).expect(1000)
	}

	// The bundled plugin is the one of somebody else here: its flags are others than those of the example.
	script := fmt.Sprintf("#!/bin/sh\nexec %s plugin local-csi -data-dir %s \"$1\" -node-id \"${2#--nodeid=}\"\n",
		x.berth, filepath.Join(m.rig, "images"))
	must(t, os.WriteFile(plugin, []byte(script), 0o755))
	x.does("job", "run", "csi-plugin.nomad.hcl")
	m.awaitPlugin("my-storage")
	mine := filepath.Join(x.dir, "mine.volume.hcl")
	text, err = os.ReadFile(filepath.Join(x.dir, "redis-data.volume.hcl"))
	must(t, err)
	must(t, os.WriteFile(mine, []byte(strings.NewReplacer(`"redis-data"`, `"mine"`, `"local-csi"`, `"my-storage"`).
		Replace(string(text))), 0o644))
	x.does("volume", "create", "mine.volume.hcl")
	x.does("job", "run", "-var", "name=mine", "-var", "volume=mine", "redis.nomad.hcl")
	m.redis("mine").write(1000)

	for _, name := range []string{"mine", "redis-clone", "redis-restored", "redis"} {
		x.does("job", "stop", "-purge", name)
	}
	for _, volume := range []string{"mine", "redis-clone", "redis-restored"} {
		x.does("volume", "delete", "-wait", "30s", volume)
	}
	x.does("volume", "snapshot", "delete", "local-csi", id[0])
	x.does("volume", "delete", "-wait", "30s", "redis-data")
	x.does("job", "stop", "-purge", "my-storage")
	for _, path := range x.files() {
		if !slices.Contains(x.run, filepath.Base(path)) {
			t.Errorf("nobody has run %s", path)
		}
	}
}
