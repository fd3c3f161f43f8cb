package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestATaskIsHeldToItsDisk: given a task that takes a part of its ephemeral disk, then that is shown; when it takes too
// much, while no agent runs, then the next agent stops it, and says what it took, what it may take and where it lies.
func TestATaskIsHeldToItsDisk(t *testing.T) {
	m := inService(t)
	m.start()
	const script = `head -c 3M /dev/zero > /local/part
while [ ! -e /alloc/data/go ]; do sleep 0.1; done
head -c 30M /dev/zero > /local/big; exec sleep 1000`
	m.run(strings.NewReplacer(
		"group \"g\" {", "group \"g\" {\n ephemeral_disk {\n size = 10\n}",
		"resources {", "logs {\n max_files = 1\n max_file_size = 1\n}\nresources {",
	).Replace(shellJob("hungry", "exec", script, "")))
	a := m.running("hungry", 1)[0]
	m.eventually("what it takes to be shown", func() bool {
		out, code := m.cli("alloc", "status", "-stats", a.ID)
		return code == 0 && strings.Contains(out, "3 MiB/10 MiB (shared by the tasks)")
	})
	m.kill()
	must(t, os.WriteFile(filepath.Join(m.data, "alloc", a.ID, "alloc/data/go"), nil, 0o644))
	m.start()
	mustSay(t, "the end", m.failure("hungry"), `Task "t" is stopped: the allocation takes `,
		"of the node's disk, ephemeral_disk allows 10 MiB", " in t/local")
	m.stopJob("hungry")
}
