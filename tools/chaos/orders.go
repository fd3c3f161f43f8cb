package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"berth/api"
	"berth/internal/base/retry"
)

const localCSI = "local-csi"

// volume is what was ordered of one.
type volume struct {
	id     string
	name   string // what its lines are named after: it keeps it when it gets another id
	life   int    // how often it was made: another life has other data
	access string
	size   int64
	from   string // snapshot it was made from
	clone  string // volume it was made from
	exists bool
}

// lines is the name of what is written to it in this life.
func (v *volume) lines() string { return fmt.Sprintf("%s-%d", v.name, v.life) }

// job is what was ordered of one.
type job struct {
	id     string
	volume *volume // nil: none
	count  int     // 0: stopped
	change int     // another one is another version
	batch  bool
	least  uint64 // of a job that checks: what must be there at least; else 0
	check  bool
	source string // whose lines it checks
	purged bool
}

func (j *job) result() string { return fmt.Sprintf("%s-%d.result", j.id, j.change) }

// arguments of the task.
func (j *job) arguments(rig string) []string {
	switch {
	case j.check:
		return []string{"check", "-name", j.source, "-least", fmt.Sprint(j.least), "-result",
			filepath.Join(rig, j.result())}
	case j.volume == nil:
		return []string{"write", "-name", "plain-${NOMAD_ALLOC_INDEX}", "-shared", "-data", rig, "-acks", rig,
			"-linger", "1s"}
	case j.volume.access == single:
		args := []string{"write", "-name", j.volume.lines()}
		if j.batch {
			args = append(args, "-lines", "40", "-result", filepath.Join(rig, j.result()))
		}
		return args
	}
	return []string{"write", "-name", j.volume.lines() + "-${NOMAD_ALLOC_INDEX}", "-shared"}
}

const (
	single = "single-node-writer"
	multi  = "multi-node-multi-writer"
)

// acks are the names of the lines that grow while the job runs.
func (j *job) acks() (out []string) {
	if j.batch {
		return nil
	}
	for i := range j.count {
		switch {
		case j.volume == nil:
			out = append(out, fmt.Sprintf("plain-%d", i))
		case j.volume.access == single:
			out = append(out, j.volume.lines())
		default:
			out = append(out, fmt.Sprintf("%s-%d", j.volume.lines(), i))
		}
	}
	return out
}

// storageBlocks are those of the group and of the task for the job's volume and for what is lent to it.
func (j *job) storageBlocks() (group, task string) {
	if j.volume == nil {
		return "", ""
	}
	group = fmt.Sprintf(`
    volume "rig" {
      type   = "host"
      source = "rig"
    }
    volume "data" {
      type            = "csi"
      source          = %q
      access_mode     = %q
      attachment_mode = "file-system"
    }`, j.volume.id, j.volume.access)
	return group, `
      volume_mount {
        volume      = "rig"
        destination = "/rig"
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }`
}

// program is the driver of the job's task, the path of this program, and where tasks find what is lent to them.
func (j *job) program(rig string) (driver, command, inside string) {
	if j.volume == nil {
		return "raw_exec", filepath.Join(rig, "chaos"), rig
	}
	return "exec", "/rig/chaos", "/rig"
}

// hcl is the job's file.
func (j *job) hcl(rig string) string {
	driver, command, inside := j.program(rig)
	requests, mounts := j.storageBlocks()
	kind := "service"
	again := `
    reschedule {
      delay          = "5s"
      delay_function = "constant"
      unlimited      = true
    }`
	if j.batch {
		kind, again = "batch", ""
	}
	var args []string
	for _, a := range j.arguments(inside) {
		args = append(args, fmt.Sprintf("%q", a))
	}
	return fmt.Sprintf(jobFile, j.id, kind, max(j.count, 1), again, requests, driver, j.change, command,
		strings.Join(args, ", "), mounts)
}

const jobFile = `
job %q {
  type = %q
  group "g" {
    count = %d
    restart {
      attempts = 1000
      delay    = "1s"
      interval = "24h"
      mode     = "delay"
    }%s%s
    ephemeral_disk { size = 10 }
    task "t" {
      driver       = %q
      kill_timeout = "5s"
      kill_signal  = "SIGTERM"
      env { CHANGE = "%d" }
      config {
        command = %q
        args    = [%s]
      }%s
      logs {
        max_files     = 1
        max_file_size = 1
      }
      resources {
        cpu    = 20
        memory = 64
      }
    }
  }
}`

// patience is how long an order is repeated that the agent, which may just start, does not take.
const patience = 90 * time.Second

// order has the agent do something, and repeats that until it says yes, or no for good: after a crash nobody knows
// whether it was done, so every order must bear repetition.
func order(ctx context.Context, what string, fn func(context.Context) error) error {
	deadline := time.Now().Add(patience)
	for {
		try, cancel := context.WithTimeout(ctx, patience)
		err := fn(try)
		cancel()
		var answer *api.StatusError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &answer) && answer.Code < 500, time.Now().After(deadline), ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, err)
		}
		retry.Sleep(ctx, 100*time.Millisecond)
	}
}

func (p *play) register(ctx context.Context, j *job) error {
	return order(ctx, "run "+j.id, func(ctx context.Context) error {
		parsed, err := p.m.api.Jobs().Parse(ctx, &api.JobsParseRequest{JobHCL: j.hcl(p.m.rig), Canonicalize: true}, nil)
		if err != nil {
			return err
		}
		_, _, err = p.m.api.Jobs().Register(ctx, &api.JobRegisterRequest{Job: parsed}, nil)
		return err
	})
}

func (p *play) deregister(ctx context.Context, j *job) error {
	return order(ctx, "stop "+j.id, func(ctx context.Context) error {
		_, _, err := p.m.api.Jobs().Deregister(ctx, j.id, api.JobDeregisterOptions{Purge: j.purged}, nil)
		if api.IsNotFound(err) {
			return nil // an earlier try purged it
		}
		return err
	})
}

func (p *play) create(ctx context.Context, v *volume) error {
	return order(ctx, "create volume "+v.id, func(ctx context.Context) error {
		_, _, err := p.m.api.Volumes().Create(ctx, &api.CSIVolume{
			ID:                    v.id,
			Name:                  v.id,
			PluginID:              localCSI,
			RequestedCapacityMin:  v.size,
			SnapshotID:            v.from,
			CloneID:               v.clone,
			RequestedCapabilities: []*api.CSIVolumeCapability{{AccessMode: v.access, AttachmentMode: "file-system"}},
		}, nil)
		return err
	})
}

// rekey forgets a volume and makes the provider's volume known by another id.
func (p *play) rekey(ctx context.Context, from, to *volume) error {
	var known *api.CSIVolume
	if err := order(ctx, "read volume "+from.id, func(ctx context.Context) (err error) {
		known, _, err = p.m.api.Volumes().Get(ctx, from.id, nil)
		return err
	}); err != nil {
		return err
	}
	if err := order(ctx, "forget volume "+from.id, func(ctx context.Context) error {
		err := p.m.api.Volumes().Deregister(ctx, from.id, false, "", nil)
		if api.IsNotFound(err) {
			return nil // an earlier try forgot it
		}
		return err
	}); err != nil {
		return err
	}
	return order(ctx, "register volume "+to.id, func(ctx context.Context) error {
		_, _, err := p.m.api.Volumes().Register(ctx, &api.CSIVolume{
			ID:                    to.id,
			Name:                  to.id,
			PluginID:              localCSI,
			ExternalID:            known.ExternalID,
			Context:               known.Context,
			RequestedCapabilities: known.RequestedCapabilities,
		}, nil)
		return err
	})
}

func (p *play) remove(ctx context.Context, v *volume) error {
	return order(ctx, "delete volume "+v.id, func(ctx context.Context) error {
		err := p.m.api.Volumes().Delete(ctx, v.id, nil, 30*time.Second, nil)
		if api.IsNotFound(err) {
			return nil // an earlier try deleted it
		}
		return err
	})
}
