// Package bundled owns the job of the storage plugin that is part of Berth: one for each node beside a server whose
// configuration asks for it. Only package agent imports it.
package bundled

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/retry"
	"berth/internal/base/volumestore"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/port/driver/rawexec"
	"berth/internal/wire"
)

// PluginID is the id of the bundled storage plugin, and of its first job in the reserved namespace.
const PluginID = "local-csi"

// nodeID is a variable that names the node.
const nodeID = "${node.unique.id}"

// refusedPause is how long a refused registration rests.
const refusedPause = 2 * time.Second

// Plugin is the bundled storage plugin of one node.
type Plugin struct {
	Servers grpc.ClientConnInterface
	Node    ids.Node
	Pool    string // of the node; empty: the default one
	Region  string
	Version string // of this program
	Dir     string // where the plugin keeps its volumes
	Log     *slog.Logger

	asks     bool // nothing on this machine tells whether Dir is a new one: the servers do
	answered bool
	short    bool // it was said that volumes cannot be written full
}

// Begin comes before the node runs. Where nobody has begun the directory of volumes, it keeps the plugin, which may be
// on this node already, from doing so before Run has asked the servers whether the node has volumes.
func (p *Plugin) Begin() {
	var err error
	if p.asks, err = volumestore.Ask(p.Dir); err != nil {
		p.Log.Warn("an empty directory of the bundled storage plugin is not told from one whose disk is not mounted",
			logkey.Error, err)
	}
}

// Run registers the plugin's job once the node is, and ends then. The same job again is unchanged, so that a restart
// touches nothing. What hinders it is reported once, and it is tried again until ctx ends.
func (p *Plugin) Run(ctx context.Context, registered <-chan struct{}) error {
	exe, build, err := program() // takes a tenth of a second, while the node registers
	if err != nil {
		p.Log.Error("the bundled storage plugin could not be registered", logkey.Error, err)
		return nil
	}
	// The plugin refuses it, too, and serves once it is the right one: its log is not the first that a person reads.
	if !p.asks {
		p.judge()
	}
	select {
	case <-registered:
	case <-ctx.Done():
		return nil
	}
	said, raced := "", false
	for {
		err := p.answer(ctx)
		if err == nil {
			err = p.register(ctx, exe, build)
		}
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case fault.Has(err, fault.Conflict) && !raced:
			raced = true // another agent took the id in between
			continue
		case !fault.Has(err, fault.Unavailable) && !fault.Has(err, fault.NotReady):
			// A full disk, say: it is tried again for as long as the agent runs, and reported once.
			if text := err.Error(); text != said {
				said = text
				p.Log.Error("the bundled storage plugin could not be registered; it is tried again", logkey.Error, err)
			}
			if !retry.Sleep(ctx, refusedPause) {
				return nil
			}
		}
		if !retry.Sleep(ctx, 100*time.Millisecond) {
			return nil
		}
	}
}

func (p *Plugin) judge() {
	if err := volumestore.Judge(p.Dir, volumestore.Copy(p.Dir)); err != nil {
		p.Log.Error("the bundled storage plugin does not serve", logkey.Error, err)
	}
}

// answer decides, once, by the volumes that the servers know of this node, whether a directory that nobody has begun is
// a new one. One that was begun and holds nothing, while the servers know volumes, is said.
func (p *Plugin) answer(ctx context.Context) error {
	if held, err := volumestore.Held(p.Dir); p.answered || held || err != nil {
		return err
	}
	volumes, err := p.volumes(ctx)
	if err != nil {
		return err
	}
	if p.asks {
		if err := volumestore.Answer(p.Dir, volumes); err != nil {
			return err
		}
		p.judge()
	} else if len(volumes) > 0 && volumestore.Judge(p.Dir, volumestore.Copy(p.Dir)) == nil {
		p.Log.Error("the store of the bundled storage plugin has no volume, and the servers know some of this node: "+
			"to delete one succeeds there, whatever lies elsewhere",
			"volumes", volumestore.Names(volumes), logkey.Path, p.Dir, "hint",
			"if they are on a disk that is not mounted, stop the agent, move the store away with "+
				volumestore.Copy(p.Dir)+", and mount the disk")
	}
	p.answered = true
	return nil
}

// volumes are those that the servers know of this node, by their namespaces and ids.
func (p *Plugin) volumes(ctx context.Context) (out []string, err error) {
	q := &wire.VolumeListRequest{Plugin: PluginID, Lines: true}
	q.Namespace = wire.AllNamespaces
	got, err := wire.VolumeList.Call(ctx, p.Servers, q)
	if err != nil {
		return nil, err
	}
	got.Complete()
	for _, v := range got.Lines {
		if volumestore.OfNode(v.ExternalID, string(p.Node)) {
			out = append(out, v.ID.String())
		}
	}
	return out, nil
}

// register registers the job of the bundled plugin on this node, and takes no other node's: each node with a
// server has one of its own. The first has the plugin's name, the others their node's beside it.
func (p *Plugin) register(ctx context.Context, exe, build string) error {
	own := PluginID + "-" + ids.Job(p.Node[:8])
	for _, id := range []ids.Job{own, PluginID} {
		old, err := p.ownJob(ctx, id)
		if err != nil {
			return err
		}
		mine, err := p.mine(ctx, id, old)
		if err != nil {
			return err
		}
		if mine {
			return p.registerAs(ctx, id, old, exe, build)
		}
	}
	return p.registerAs(ctx, own, nil, exe, build)
}

// mine tells whether the node may have a job: its own, the first where nobody has it, and that of a node that is
// forgotten.
func (p *Plugin) mine(ctx context.Context, id ids.Job, old *job.Job) (bool, error) {
	if old == nil {
		return id == PluginID, nil
	}
	holder := pinnedTo(old)
	if holder == p.Node {
		return true, nil
	}
	found, err := wire.NodeGet.Call(ctx, p.Servers, &wire.Ref[ids.Node]{ID: holder})
	return err == nil && found.Item == nil, err
}

// ownJob is a job of the reserved namespace; nil: there is none.
func (p *Plugin) ownJob(ctx context.Context, id ids.Job) (*job.Job, error) {
	q := &wire.Ref[ids.Job]{ID: id}
	q.Namespace = ids.ReservedNamespace
	found, err := wire.JobGet.Call(ctx, p.Servers, q)
	if err != nil || found.Item == nil {
		return nil, err
	}
	return found.Item.Job, nil
}

// pinnedTo is the node that the job of a bundled plugin is for.
func pinnedTo(j *job.Job) ids.Node {
	for _, c := range j.Constraints {
		if c.LTarget == nodeID {
			return ids.Node(c.RTarget)
		}
	}
	return ""
}

// registerAs registers the job, if it is what was read of it: nil if there was none.
func (p *Plugin) registerAs(ctx context.Context, id ids.Job, old *job.Job, exe, build string) error {
	r := &wire.JobRegisterRequest{Job: p.job(id, exe, build), EnforceIndex: true}
	if old != nil {
		r.ModifyIndex = old.JobModifyIndex
	}
	_, err := wire.JobRegister.Call(ctx, p.Servers, r)
	return err
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

// job is the job of the bundled plugin: a plain process that keeps volumes as image files. It is for the node
// beside this server: on others neither the program nor the directory need be where they are here.
func (p *Plugin) job(id ids.Job, exe, build string) *job.Job {
	restart := &job.RestartPolicy{Attempts: 1, Interval: time.Minute, Delay: time.Second, Mode: job.RestartDelay}
	return &job.Job{
		Region:      p.Region,
		Namespace:   ids.ReservedNamespace,
		ID:          id,
		Name:        string(id),
		Type:        job.TypeSystem,
		Priority:    100,
		Datacenters: []string{"*"},
		NodePool:    node.PoolOf(p.Pool),
		Constraints: []*job.Constraint{{LTarget: nodeID, RTarget: string(p.Node), Operand: "="}},
		TaskGroups: []*job.TaskGroup{{
			Name:          PluginID,
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
				Meta: map[string]string{"berth_version": p.Version, "berth_build": build},
				Config: map[string]any{"command": exe,
					"args": []any{"plugin", PluginID, "--data-dir", p.Dir, "--node-id", nodeID,
						"--identity-copy", volumestore.Copy(p.Dir)}},
				Resources:     &job.Resources{CPU: 50, MemoryMB: 64},
				RestartPolicy: restart,
				KillTimeout:   5 * time.Second,
				LogConfig:     &job.LogConfig{MaxFiles: 2, MaxFileSizeMB: 5},
				CSIPluginConfig: &job.CSIPluginConfig{
					ID:                  PluginID,
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
