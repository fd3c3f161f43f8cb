package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/api"
	"berth/jobspec"
)

// writer is a service that keeps a file on a volume: it notes its start and then, ten times a second, that it lives.
type writer struct {
	id, volume string
	count      int
	access     string // access mode; empty: single-node-writer
	attachment string
	options    string // content of mount_options
	create     string // content of create; then each alloc has a volume of its own
	driver     string
	script     string // replaces the writing
	readOnly   bool
	healthy    string // after how long it is healthy; empty: the default of jobs
}

const writing = `trap 'echo stopped >> /data/log; exit 0' TERM INT; echo started >> /data/log; while :; do date +%s%N > /data/tick.$NOMAD_ALLOC_INDEX; sleep 0.1 & wait $!; done`

func (w writer) hcl() string {
	or := func(v, otherwise string) string {
		if v == "" {
			return otherwise
		}
		return v
	}
	options := ""
	if w.options != "" {
		options = "mount_options {\n" + w.options + "\n}"
	}
	if w.create != "" {
		options += "\nper_alloc = true\ncreate {\n" + w.create + "\n}"
	}
	update := ""
	if w.healthy != "" {
		update = fmt.Sprintf("update {\n min_healthy_time = %q\n}", w.healthy)
	}
	script := strings.ReplaceAll(strings.ReplaceAll(or(w.script, writing), "${", "$${"), "%{", "%%{")
	return fmt.Sprintf(`
job %q {
  type = "service"
  group "g" {
    count = %d
    %s
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    volume "data" {
      type            = "csi"
      source          = %q
      access_mode     = %q
      attachment_mode = %q
      read_only       = %t
      %s
    }
    task "write" {
      driver       = %q
      kill_timeout = "5s"
      config {
        command = "/bin/sh"
        args    = ["-c", <<S
%s
S
        ]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`, w.id, max(w.count, 1), update, w.volume, or(w.access, "single-node-writer"), or(w.attachment, "file-system"),
		w.readOnly, options, or(w.driver, "exec"), script)
}

// register gives a job file to the servers and returns what they say.
func (m *machine) register(hcl string) (*api.JobRegisterResponse, error) {
	job, err := jobspec.Parse(jobspec.ParseConfig{Path: "test.nomad.hcl", Source: []byte(hcl)})
	if err != nil {
		return nil, err
	}
	r, _, err := m.api.Jobs().Register(m.t.Context(), &api.JobRegisterRequest{Job: job}, nil)
	return r, err
}

func (m *machine) run(hcl string) *api.JobRegisterResponse {
	m.t.Helper()
	r, err := m.register(hcl)
	must(m.t, err)
	return r
}

// stopJob stops a job and waits until its allocs have ended.
func (m *machine) stopJob(id string) {
	m.t.Helper()
	m.tellStop(id)
	m.ended(id)
}

func (m *machine) tellStop(id string) {
	m.t.Helper()
	_, _, err := m.api.Jobs().Deregister(m.t.Context(), id, api.JobDeregisterOptions{}, nil)
	must(m.t, err)
}

func capability(access, attachment string) *api.CSIVolumeCapability {
	return &api.CSIVolumeCapability{AccessMode: access, AttachmentMode: attachment}
}

// volumeOf is a volume of 32 MiB for the access modes given; none: single-node-writer.
func volumeOf(id, plugin string, access ...string) *api.CSIVolume {
	v := &api.CSIVolume{
		ID:                   id,
		Name:                 id,
		PluginID:             plugin,
		RequestedCapacityMin: 32 << 20,
		RequestedCapacityMax: 64 << 20,
	}
	if len(access) == 0 {
		access = []string{"single-node-writer"}
	}
	for _, mode := range access {
		v.RequestedCapabilities = append(v.RequestedCapabilities, capability(mode, "file-system"))
	}
	return v
}

// create has a volume of 32 MiB made for the access modes given; none: single-node-writer.
func (m *machine) create(id, plugin string, access ...string) *api.CSIVolume {
	m.t.Helper()
	r, _, err := m.api.Volumes().Create(m.t.Context(), volumeOf(id, plugin, access...), nil)
	must(m.t, err)
	if len(r.Volumes) != 1 || r.Volumes[0].ExternalID == "" {
		m.t.Fatalf("created %+v", r)
	}
	return r.Volumes[0]
}

// remove deletes a volume that is to become free.
func (m *machine) remove(id string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	must(m.t, m.api.Volumes().Delete(ctx, id, nil, time.Minute, nil))
}

// seen reads a file of a task's mounted volume through the root of a process of it.
func (m *machine) seen(pid int, path string) string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "root", path))
	must(m.t, err)
	return string(data)
}

// lives waits until a writer with this process writes, and writes again.
func (m *machine) lives(pid int, index int) {
	m.t.Helper()
	first := ""
	m.eventually("the task to write on", func() bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/data/tick.%d", pid, index))
		if err != nil || len(data) == 0 {
			return false // not yet, or between its truncation and the next word
		}
		if first == "" {
			first = string(data)
		}
		return string(data) != first
	})
}
