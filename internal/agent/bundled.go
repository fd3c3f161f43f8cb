package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/model/job"
	"berth/internal/port/driver/rawexec"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// LocalCSI is the plugin id of the bundled storage plugin, and of its job in the reserved namespace.
const LocalCSI = "local-csi"

// registerPause is how long a refused registration of the bundled plugin rests.
const registerPause = 2 * time.Second

// VolumesDir is where the bundled plugin keeps its volumes, beneath the data_dir.
const VolumesDir = "volumes"

func (a *Agent) volumes() string { return a.dir(VolumesDir) }

// bundled registers the jobs that Berth runs for itself. The same job again is unchanged, so that a restart touches
// nothing.
func (a *Agent) bundled(ctx context.Context) error {
	if !*a.cfg.Client.LocalCSI || a.client == nil {
		return nil
	}
	if !orDev(a.cfg.plugin(rawexec.Name).Options().Enabled, a.cfg.dev) {
		a.log.Warn("local_csi is set, and the bundled storage plugin does not run on this node: it needs the driver "+
			"raw_exec, which is disabled here", "hint", `write enabled = true into the block config of `+
			`plugin "raw_exec", or take local_csi away`)
	}
	exe, build, err := program() // takes a tenth of a second, while the node registers
	if err != nil {
		a.log.Error("the bundled storage plugin could not be registered", logkey.Error, err)
		return nil
	}
	select {
	case <-a.client.Registered():
	case <-ctx.Done():
		return nil
	}
	said := ""
	for {
		_, err := wire.JobRegister.Call(ctx, a.conn, &wire.JobRegisterRequest{Job: a.localCSI(exe, build)})
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case !fault.Has(err, fault.Unavailable) && !fault.Has(err, fault.NotReady):
			// A full disk, say: it is tried again for as long as the agent runs, and reported once.
			if text := err.Error(); text != said {
				said = text
				a.log.Error("the bundled storage plugin could not be registered; it is tried again", logkey.Error, err)
			}
			if !retry.Sleep(ctx, registerPause) {
				return nil
			}
		}
		if !retry.Sleep(ctx, 100*time.Millisecond) {
			return nil
		}
	}
}

// program is the path of this program, and the sum of its bytes. After an upgrade in place it is the new one, which is
// what the plugin shall run.
func program() (exe, build string, err error) {
	if exe, err = os.Executable(); err == nil {
		build, err = sum(exe)
	}
	if err != nil {
		return "", "", fault.WithHint(fault.Wrap(err, fault.NotFound, "find", "berth's own program"),
			"put berth back to where it was started from, and restart the agent")
	}
	return exe, build, nil
}

// sum reads the file piece by piece: what is held of it at once stays with an agent that then does nothing.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// localCSI is the job of the bundled plugin: a plain process that keeps volumes as image files. It is for the node
// beside this server: on others neither the program nor the directory need be where they are here.
func (a *Agent) localCSI(exe, build string) *job.Job {
	restart := &job.RestartPolicy{Attempts: 1, Interval: time.Minute, Delay: time.Second, Mode: job.RestartDelay}
	return &job.Job{
		Region:      a.cfg.Region,
		Namespace:   ids.ReservedNamespace,
		ID:          LocalCSI,
		Name:        LocalCSI,
		Type:        job.TypeSystem,
		Priority:    100,
		Datacenters: []string{"*"},
		NodePool:    "default",
		Constraints: []*job.Constraint{{LTarget: "${node.unique.id}", RTarget: string(a.client.ID()), Operand: "="}},
		TaskGroups: []*job.TaskGroup{{
			Name:          LocalCSI,
			Count:         1,
			EphemeralDisk: &job.EphemeralDisk{SizeMB: 50},
			RestartPolicy: restart,
			Update: &job.UpdateStrategy{
				Stagger:          30 * time.Second,
				MaxParallel:      1,
				HealthCheck:      "task_states",
				MinHealthyTime:   time.Second,
				HealthyDeadline:  5 * time.Minute,
				ProgressDeadline: 10 * time.Minute,
			},
			Tasks: []*job.Task{{
				Name:   "plugin",
				Driver: rawexec.Name,
				// Another program brings its own plugin, whatever version it names: the job differs, so it is updated.
				Meta: map[string]string{"berth_version": a.version, "berth_build": build},
				Config: map[string]any{"command": exe,
					"args": []any{"plugin", LocalCSI, "--data-dir", a.volumes(), "--node-id",
						"${node.unique.id}"}},
				Resources:     &job.Resources{CPU: 50, MemoryMB: 64},
				RestartPolicy: restart,
				KillTimeout:   5 * time.Second,
				LogConfig:     &job.LogConfig{MaxFiles: 2, MaxFileSizeMB: 5},
				CSIPluginConfig: &job.CSIPluginConfig{
					ID:                  LocalCSI,
					Type:                job.PluginMonolith,
					MountDir:            "/csi",
					StagePublishBaseDir: "/local/csi",
					HealthTimeout:       30 * time.Second,
					ControllerScope:     "node",
				},
			}},
		}},
	}
}

// removeTree removes a directory that this run made. It stops at mounts: what is mounted below belongs to somebody.
func removeTree(dir string) error {
	table, err := hostfs.ReadTable()
	if err != nil {
		return err
	}
	if left := table.Beneath(dir); len(left) > 0 {
		return fault.New(fault.Busy, "remove", dir, left[0].Path+" is still mounted")
	}
	if dir == "/" || filepath.Dir(dir) == "/" {
		return fault.New(fault.Invalid, "remove", dir, "it is no temporary directory")
	}
	return os.RemoveAll(dir)
}
