package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"berth/internal/conformance/csi/csitest"
	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"

	"github.com/moby/sys/mountinfo"
)

// judged is a storage plugin that runs as a job, behind the proxy whose record the oracle judges when the test ends.
type judged struct {
	m      *machine
	asked  atomic.Pointer[machine] // whose agent is asked for claims and records; nil: that of m
	id     string
	driver string
	argv   []string // of the real plugin, as its task sees it
	scope  string   // of its controller
	more   string   // of its csi_plugin block
	nodes  int      // on which it runs; 0: one
	crew   *crew    // where they are; nil: there is one
	faults []string // from the start
	facts  oracle.Facts
	// forgotten are volumes at the provider that the test had the servers forget.
	forgotten []oracle.Record
}

// localPlugin runs the bundled plugin as a job like that of anybody, with a driver of choice.
func (m *machine) localPlugin(id, driver string, flags ...string) *judged {
	m.t.Helper()
	return m.localPluginOf(id, driver, flags...).begin()
}

// localPluginOf is localPlugin before it begins.
func (m *machine) localPluginOf(id, driver string, flags ...string) *judged {
	m.t.Helper()
	m.lend(m.program(), "berth")
	p := &judged{m: m, id: id, driver: driver, scope: "node"}
	p.argv = append(
		[]string{p.see("berth"), "plugin", "local-csi", "--data-dir", p.see("images-" + id), "--node-id",
			"${node.unique.id}"}, flags...)
	return p
}

// begin runs the plugin's job, and has the record judged in the end, after the machine's agent has been stopped.
func (p *judged) begin() *judged {
	p.m.t.Helper()
	p.m.lend(csitest.Binary(p.m.t), "csi-proxy")
	must(p.m.t, os.WriteFile(p.file("record"), nil, 0o644))
	p.rules(p.faults...)
	p.facts = p.world()
	p.testify()
	p.start()
	// Cleanups run last in, first out: this one must see the world at rest but with the agent alive.
	p.m.t.Cleanup(p.judge)
	return p
}

// lend puts a program where tasks of every driver see it.
func (m *machine) lend(path, name string) {
	m.t.Helper()
	target := filepath.Join(m.rig, name)
	if _, err := os.Stat(target); err == nil {
		return
	}
	from, err := os.Open(path)
	must(m.t, err)
	defer from.Close()
	to, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o755)
	must(m.t, err)
	_, err = io.Copy(to, from)
	must(m.t, err)
	must(m.t, to.Close())
}

// see is the path of something in the rig as the plugin's task sees it.
func (p *judged) see(name string) string {
	if p.driver == "exec" {
		return filepath.Join("/rig", name)
	}
	return filepath.Join(p.m.rig, name)
}

func (p *judged) file(what string) string { return filepath.Join(p.m.rig, p.id+"."+what) }

// start registers the plugin's job and waits until it can be used.
func (p *judged) start() {
	p.m.t.Helper()
	p.m.run(p.hcl())
	p.m.pluginOn(p.id, max(p.nodes, 1))
}

func (p *judged) hcl() string {
	args := []string{"-plugin", p.id, "-record", p.see(p.id + ".record"), "-rules", p.see(p.id + ".rules"),
		"-witness", p.see(p.id + ".witness")}
	if p.nodes > 1 {
		args = append(args, "-name", p.on("${node.unique.name}"))
	}
	args = append(append(args, "--"), p.argv...)
	var quoted []string
	for _, a := range args {
		quoted = append(quoted, strconv.Quote(a))
	}
	volume, mount := "", ""
	if p.driver == "exec" {
		volume = "volume \"rig\" {\n type = \"host\"\n source = \"rig\"\n}"
		mount = "volume_mount {\n volume = \"rig\"\n destination = \"/rig\"\n}"
	}
	return fmt.Sprintf(`
job %q {
  type = "system"
  group "plugin" {
    %s
    task "plugin" {
      driver = %q
      config {
        command = %q
        args    = [%s]
      }
      csi_plugin {
        id                     = %q
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
        controller_scope       = %q
        %s
      }
      %s
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}`, p.id, volume, p.driver, p.see("csi-proxy"), strings.Join(quoted, ", "), p.id, p.scope,
		p.more, mount)
}

// on is the name of the proxy of a node in the record, where there are several.
func (p *judged) on(node string) string { return p.id + "@" + node }

// rules replaces the faults that the proxy makes.
func (p *judged) rules(rules ...string) {
	p.m.t.Helper()
	must(p.m.t, proxy.WriteRules(p.file("rules"), rules...))
}

func (p *judged) entries() []proxy.Entry {
	p.m.t.Helper()
	all, err := proxy.ReadRecord(p.file("record"))
	must(p.m.t, err)
	return all
}

// calls are the names of all calls so far that can change something, in order, with their codes when not OK.
func (p *judged) calls() []string {
	p.m.t.Helper()
	var out []string
	for _, e := range p.entries() {
		if e.Kind != proxy.CallEnds || !csi.RPC(e.RPC).Mutating() {
			continue
		}
		name := strings.TrimSuffix(e.RPC, "Volume")
		if e.Code != "OK" {
			name += "=" + e.Code
		}
		out = append(out, name)
	}
	return out
}

// count says how many of the calls have a name.
func (p *judged) count(name string) int {
	n := 0
	for _, c := range p.calls() {
		if c == name {
			n++
		}
	}
	return n
}

// mark adds a fact to the record.
func (p *judged) mark(what proxy.Mark) {
	p.m.t.Helper()
	p.note(proxy.Entry{Mark: what})
}

// note adds a fact with more to it.
func (p *judged) note(e proxy.Entry) {
	p.m.t.Helper()
	e.Plugin = p.id
	must(p.m.t, proxy.AppendMark(p.file("record"), e))
}

// pluginPID is the process of the plugin's present run.
func (p *judged) pluginPID() int {
	p.m.t.Helper()
	a := p.m.running(p.id, 1)[0]
	for _, x := range processes(func(x process) bool { return x.env["NOMAD_ALLOC_ID"] == a.ID }) {
		if x.args[0] == p.argv[0] {
			return x.pid
		}
	}
	p.m.t.Fatalf("plugin %s has no process", p.id)
	return 0
}

// crash kills the plugin as it is; its task ends with it and is started again.
func (p *judged) crash() {
	p.m.t.Helper()
	must(p.m.t, syscall.Kill(p.pluginPID(), syscall.SIGKILL))
}

// lives says how many lives of the plugin have begun.
func (p *judged) lives() int {
	n := 0
	for _, e := range p.entries() {
		if e.Kind == proxy.PluginStarts {
			n++
		}
	}
	return n
}

// ended are the ends of lives of the plugin.
func (p *judged) ended() (out []proxy.Entry) {
	for _, e := range p.entries() {
		if e.Kind == proxy.PluginEnds {
			out = append(out, e)
		}
	}
	return out
}

// quiet tells the oracle that nothing may be changed from now until the returned function is called.
func (p *judged) quiet() (end func()) {
	from := time.Now()
	return func() { p.facts.Quiet.Add(oracle.Quiet{From: from, To: time.Now()}) }
}

// restoring is quiet for a time in which an older state is restored.
func (p *judged) restoring() (end func()) {
	from := time.Now()
	return func() { p.facts.Quiet.Add(oracle.Quiet{From: from, To: time.Now(), Restored: true}) }
}

// atRest tells the oracle that all users of the plugin have stopped: nothing may be left.
func (p *judged) atRest(volumes ...string) {
	p.m.t.Helper()
	for _, id := range volumes {
		p.m.free(id)
	}
	p.facts.Rest = oracle.Feed(oracle.Rest{Mounts: volumeMounts(p.m)})
}

// judge lets the oracle look at the record.
func (p *judged) judge() {
	p.facts.Records = p.records()
	found, err := oracle.Check(p.entries(), p.facts)
	if err != nil {
		p.m.t.Errorf("plugin %s: the oracle cannot judge: %v", p.id, err)
	}
	for _, v := range found {
		p.m.t.Errorf("plugin %s: %s", p.id, v)
	}
	if p.m.t.Failed() {
		var b strings.Builder
		for _, e := range p.entries() {
			fmt.Fprintf(&b, "  %s\n", e)
		}
		p.m.t.Logf("the record of plugin %s:\n%s", p.id, b.String())
	}
}

// volumeMounts are the mount points of volumes on a machine. A plugin's own shared base stays as long as it runs.
func volumeMounts(m *machine) []string {
	m.t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(filepath.Join(m.data, "csi")))
	must(m.t, err)
	var out []string
	for _, mount := range mounts {
		if filepath.Base(filepath.Dir(mount.Mountpoint)) != "csi" {
			out = append(out, mount.Mountpoint)
		}
	}
	return out
}
