package docker

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"berth/internal/base/ids"
	"berth/internal/port/dockerapi"
	"berth/internal/port/driver"
	"berth/internal/port/driver/docker/images"
	"berth/internal/port/driver/docker/spec"
)

// Config of the driver in the agent's configuration.
type Config struct {
	Socket string // of the daemon; empty: DefaultSocket
	Dir    string // the driver's own, on the node
	spec.Policy

	Images images.Config

	PingEvery time.Duration // how often a daemon is asked whether it answers; 0: 30 seconds

	KeepContainers bool // those that ended stay
	SweepOff       bool // containers of allocs that have ended stay

	Program  func() (*os.File, error) // the helper; nil: containers join no networks of allocs
	Launcher driver.Launcher          // holds what reads the containers' output
	// Ended says of an alloc that everything of it has ended here, by the node's record; nil: it is not known.
	Ended  func(ids.Alloc) bool
	Events func(Event) // of tasks; nil: nobody listens
	Log    *slog.Logger
}

// Event is what the driver tells of a task.
type Event struct {
	Alloc       ids.Alloc
	Task        string
	Message     string
	Annotations map[string]string
}

const defaultSignal = "SIGTERM"

// Attributes of the node.
const (
	attributeVersion    = "driver.docker.version"
	attributePrivileged = "driver.docker.privileged.enabled"
	attributeVolumes    = "driver.docker.volumes.enabled"
	attributeRuntimes   = "driver.docker.runtimes"
	attributeCaps       = "driver.docker.allow_caps"
	attributeCSINode    = "driver.docker.allow_csi_node"
	attributeOS         = "driver.docker.os_type"
)

func fingerprint(cfg *Config, daemon *dockerapi.Daemon, info *dockerapi.Info) driver.Fingerprint {
	f := driver.Fingerprint{Health: driver.Healthy, Attributes: map[string]string{
		"driver." + Name: "1",
		attributeVersion: daemon.Version,
		attributeOS:      info.OSType,
		attributeCaps:    strings.Join(cfg.Caps(), ","),
	}}
	var runtimes []string
	for _, name := range cfg.AllowRuntimes {
		if _, there := info.Runtimes[name]; there {
			runtimes = append(runtimes, name)
		}
	}
	f.Attributes[attributeRuntimes] = strings.Join(runtimes, ",")
	for name, allowed := range map[string]bool{
		attributePrivileged: cfg.AllowPrivileged,
		attributeVolumes:    cfg.AllowVolumes,
		attributeCSINode:    cfg.AllowPrivileged,
	} {
		if allowed {
			f.Attributes[name] = "1"
		}
	}
	return f
}
