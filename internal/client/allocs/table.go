package allocs

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/base/logkey"
	"berth/internal/client/allocdir"
	"berth/internal/client/allocrunner"
	"berth/internal/client/csimanager"
	"berth/internal/client/disks"
	"berth/internal/client/localstate"
	"berth/internal/client/shim"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/wire"
)

// Table says what this node has of which alloc: a runner, a damaged record, or a directory without a record.
type Table struct {
	dir      string
	loaded   *localstate.Loaded
	log      *slog.Logger
	changed  lifecycle.Signal
	orphaned lifecycle.Signal // the orphans may have changed

	mu      sync.Mutex
	byID    map[ids.Alloc]*allocrunner.Runner
	damaged map[ids.Alloc]error
	// unrecorded holds allocs whose record is lost and of which a directory is here, or that a person ends.
	unrecorded map[ids.Alloc]*leftover
	// ended holds those that a person ended; a set that was made before the servers heard of it still wants them.
	ended    map[ids.Alloc]bool
	restored bool // the runners of restored allocs have been made
}

// NewTable returns the table of what was loaded; the directories of allocs lie in dataDir.
func NewTable(dataDir string, loaded *localstate.Loaded, log *slog.Logger) *Table {
	for id, err := range loaded.Damaged {
		log.Error("an allocation's record is damaged", logkey.Alloc, id, logkey.Error, err)
	}
	return &Table{
		dir:        filepath.Join(dataDir, "alloc"),
		loaded:     loaded,
		log:        log,
		byID:       map[ids.Alloc]*allocrunner.Runner{},
		damaged:    loaded.Damaged,
		unrecorded: map[ids.Alloc]*leftover{},
		ended:      map[ids.Alloc]bool{},
	}
}

// Dir is where the directories of allocs lie.
func (t *Table) Dir() string { return t.dir }

// AllocDir is the directory of one alloc.
func (t *Table) AllocDir(id ids.Alloc) allocdir.Dir { return allocdir.New(t.dir, id) }

// Changed implements csimanager.ProcessGate and shim.Records.
func (t *Table) Changed() <-chan struct{} { return t.changed.C() }

// Len is how many allocs have a runner.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// Runner returns the runner of an alloc; nil: there is none.
func (t *Table) Runner(id ids.Alloc) *allocrunner.Runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// Find returns the runner of an alloc or says that it is not here.
func (t *Table) Find(id ids.Alloc) (*allocrunner.Runner, error) {
	if r := t.Runner(id); r != nil {
		return r, nil
	}
	return nil, notHere(id, "use")
}

// notHere is the answer to calls about an alloc that this node does not have.
func notHere(id ids.Alloc, op string) error {
	return fault.New(fault.NotFound, op, "allocation \""+string(id)+"\"", "it is not on this node")
}

// Runners lists all, ordered by id.
func (t *Table) Runners() []*allocrunner.Runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Collect(maps.Values(t.byID))
	slices.SortFunc(out, func(x, y *allocrunner.Runner) int { return strings.Compare(string(x.ID()), string(y.ID())) })
	return out
}

// Known implements csimanager.Allocs.
func (t *Table) Known(id ids.Alloc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id] != nil || t.damaged[id] != nil || t.restoring(id)
}

// restoring reports that the runner of a recorded alloc is still to be made. The caller holds the lock.
func (t *Table) restoring(id ids.Alloc) bool { return t.loaded.Allocs[id] != nil && !t.restored }

// Standing implements shim.Records.
func (t *Table) Standing(id ids.Alloc) shim.Standing {
	t.mu.Lock()
	r := t.byID[id]
	damaged := t.damaged[id]
	restoring := t.restoring(id)
	t.mu.Unlock()
	switch {
	case damaged != nil, restoring:
		return shim.Active
	case r == nil:
		return shim.Unknown
	}
	if gone, _ := r.ProcessesGone(); gone {
		return shim.Ended
	}
	return shim.Active
}

// ShimsChanged says that shims of allocs without a record may be others than before.
func (t *Table) ShimsChanged() {
	t.changed.Notify()
	t.orphaned.Notify()
}

// EncodedBundle is an alloc as the servers last gave it, encoded for its shim to keep; nil for one that is not here.
func (t *Table) EncodedBundle(id ids.Alloc) []byte {
	r := t.Runner(id)
	if r == nil {
		return nil
	}
	data, err := wire.Encode(r.Bundle())
	if err != nil {
		t.log.Warn("an allocation can't be described to its shim", logkey.Alloc, id, logkey.Error, err)
		return nil
	}
	return data
}

// ProcessesIdle implements csimanager.ProcessGate.
func (t *Table) ProcessesIdle(id ids.Alloc) bool {
	r := t.Runner(id)
	return r != nil && r.Idle()
}

// Orphaned implements csimanager.Allocs.
func (t *Table) Orphaned(id ids.Alloc) bool {
	t.mu.Lock()
	r := t.byID[id]
	_, unrecorded := t.unrecorded[id]
	t.mu.Unlock()
	return unrecorded || r != nil && r.Orphan() != nil && !r.Released()
}

// VolumeCondition implements meter.Tasks.
func (t *Table) VolumeCondition(id ids.Alloc, alias string, c volume.Condition) {
	if r := t.Runner(id); r != nil {
		r.VolumeCondition(alias, c)
	}
}

// Disks implements disks.Allocs.
func (t *Table) Disks() []disks.Disk {
	var out []disks.Disk
	for _, r := range t.Runners() {
		b := r.Bundle()
		group := b.Job.Group(b.Alloc.TaskGroup)
		if gone, _ := r.ProcessesGone(); gone || group == nil || group.EphemeralDisk == nil {
			continue
		}
		out = append(out, disks.Disk{
			Alloc: r.ID(),
			Dir:   t.AllocDir(r.ID()),
			Limit: int64(group.EphemeralDisk.SizeMB) << 20,

			Beside: t.socketDirs(r.ID(), group),
		})
	}
	return out
}

// socketDirs are the directories of the sockets of an alloc's plugins: they can write there, too.
func (t *Table) socketDirs(id ids.Alloc, group *job.TaskGroup) map[string]string {
	out := map[string]string{}
	for _, task := range group.Tasks {
		if task.CSIPluginConfig != nil {
			out[task.Name+"'s socket directory"] = csimanager.SocketDir(filepath.Dir(t.dir), id, task.Name)
		}
	}
	return out
}

// DiskExceeded implements disks.Allocs.
func (t *Table) DiskExceeded(id ids.Alloc, reason string) {
	if r := t.Runner(id); r != nil {
		r.DiskExceeded(reason)
	}
}

// VolumeLost implements csimanager.Allocs: exactly the tasks whose volume was found dead are restarted.
func (t *Table) VolumeLost(id ids.Alloc, alias, reason string) {
	r, err := t.Find(id)
	if err == nil {
		err = r.RestartUsers(alias, `volume "`+alias+`": `+reason)
	}
	if err != nil {
		t.log.Error("the tasks of a lost volume could not be restarted", logkey.Alloc, id, logkey.Volume, alias,
			logkey.Error, err)
	}
}
