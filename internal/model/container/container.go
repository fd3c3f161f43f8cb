// Package container owns what a task's config of the driver docker can ask for that reaches beyond its container, and
// what an agent has to allow for it. Nodes refuse by it what their agents do not allow, servers what no agent does.
package container

import (
	"slices"
	"strconv"
	"strings"

	"berth/internal/model/taskconfig"
)

// Driver is its name.
const Driver = "docker"

// Permission is what an agent allows.
type Permission struct {
	Attribute string // of the driver's on a node, which is "1" where it is allowed
	Setting   string // by which it is allowed
}

// Permissions.
var (
	// Privileged is what makes root of the node.
	Privileged = Permission{Attribute: "privileged.enabled", Setting: "allow_privileged = true"}
	// Volumes are directories of the node and volumes of the daemon.
	Volumes = Permission{Attribute: "volumes.enabled", Setting: "volumes { enabled = true }"}
)

// Runtimes is the attribute of nodes that lists which runtimes jobs may choose there.
const Runtimes = "runtimes"

// Need is something that an agent has to allow.
type Need struct {
	Field string // that asks for it, as in "config.pid_mode"
	Why   string
	Of    Permission
}

// Needs are those of a config block.
func Needs(o taskconfig.Options) []Need {
	var out []Need
	root := func(field, why string) { out = append(out, Need{field, why, Privileged}) }
	if o.Yes("privileged") {
		root("config.privileged", "a privileged container is root on the node")
	}
	for _, m := range modes {
		if mode := o.Text(m.option); !later(mode) && !slices.Contains(m.own, mode) {
			root("config."+m.option, strconv.Quote(mode)+" reaches beyond the container")
		}
	}
	if strings.HasPrefix(o.Text("network_mode"), "container:") {
		root("config.network_mode", "another container's network reaches beyond this one")
	}
	for _, opt := range o.Texts("security_opt") {
		if !later(opt) && !slices.Contains(noNew, opt) {
			root("config.security_opt", "other profiles than the daemon's own can take its bounds away")
		}
	}
	if len(o.Blocks("devices")) > 0 {
		root("config.devices", "devices of the node reach beyond the container")
	}
	for _, name := range []string{"nice", "rtprio"} {
		if _, set := o.Pairs("ulimit")[name]; set {
			root("config.ulimit."+name, "what runs before all others of the node reaches beyond the container")
		}
	}
	if kind := LogType(o.One("logging")); !later(kind) && GoesOut(kind) {
		out = append(out, LogsNeed(kind))
	}
	return append(out, mounts(o)...)
}

// mounts are the needs of what a block mounts.
func mounts(o taskconfig.Options) (out []Need) {
	const shows = "mounts that show on the node reach beyond the container"
	for _, text := range o.Texts("volumes") {
		if _, rest, two := strings.Cut(text, ":"); two && slices.ContainsFunc(options(rest), shared) {
			out = append(out, Need{"config.mount.bind_options", shows, Privileged})
		}
	}
	if o.Text("volume_driver") != "" {
		out = append(out, Need{"config.volume_driver", "volumes of the daemon's drivers", Volumes})
	}
	for _, b := range Mounts(o) {
		switch {
		case b.Text("type") == "" || b.Text("type") == "volume":
			out = append(out, Need{"config.mount", "volumes of the daemon", Volumes})
		case shared(b.One("bind_options").Text("propagation")):
			out = append(out, Need{"config.mount.bind_options", shows, Privileged})
		}
	}
	return out
}

// Submitted are the needs of a block that no node has seen yet. Where its directories lie is not known: but no
// directory of a task is at a path that a job can know.
func Submitted(o taskconfig.Options) []Need {
	out := Needs(o)
	const which = "directories of the node"
	for _, text := range o.Texts("volumes") {
		if source, _, _ := strings.Cut(text, ":"); strings.HasPrefix(source, "/") && o.Text("volume_driver") == "" {
			out = append(out, Need{"config.volumes " + strconv.Quote(source), which, Volumes})
		}
	}
	for _, b := range Mounts(o) {
		if source := b.Text("source"); b.Text("type") == "bind" && strings.HasPrefix(source, "/") {
			out = append(out, Need{"config.mount " + strconv.Quote(source), which, Volumes})
		}
	}
	return out
}

// Mounts are the blocks of both names.
func Mounts(o taskconfig.Options) []taskconfig.Options {
	return slices.Concat(o.Blocks("mount"), o.Blocks("mounts"))
}

// LogType is how a block "logging" wants the daemon to keep what is written; empty: as the agent says.
func LogType(block taskconfig.Options) string {
	if kind := block.Text("type"); kind != "" {
		return kind
	}
	return block.Text("driver")
}

// GoesOut tells whether what is written leaves the node, or what the daemon keeps of its own.
func GoesOut(kind string) bool { return !slices.Contains(ownLogs, kind) }

// LogsNeed is what it needs to say where that goes: an address of the network, or a socket or a file of the node.
func LogsNeed(kind string) Need {
	why := "the daemon, which is root, goes wherever " + strconv.Quote(kind) + " is told to"
	return Need{"config.logging", why, Privileged}
}

// Propagations of a mount, by the daemon's names.
var Propagations = []string{"private", "rprivate", "slave", "rslave", "shared", "rshared"}

func shared(propagation string) bool { return propagation == "shared" || propagation == "rshared" }

// options are those of a volume, behind where it is mounted.
func options(rest string) []string {
	_, text, _ := strings.Cut(rest, ":")
	return strings.Split(text, ",")
}

// modes are options that choose a namespace, with what is harmless.
var modes = []struct {
	option string
	own    []string
}{
	{"pid_mode", []string{"", "private"}},
	{"ipc_mode", []string{"", "private", "none", "shareable"}},
	{"uts_mode", []string{"", "private"}},
	{"userns_mode", []string{"", "private"}},
}

// noNew are the ways to write the one option that only takes away.
var noNew = []string{"no-new-privileges", "no-new-privileges=true", "no-new-privileges:true"}

// ownLogs are the ways in which a daemon keeps what is written on its node.
var ownLogs = []string{"", "json-file", "local", "journald", "none"}

// later tells whether a text has a value that is put in its place on the node.
func later(text string) bool { return strings.Contains(text, "${") }
