package allochooks

import (
	"context"
	"fmt"
	"sync"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/hook"
	"berth/internal/client/ownership"
	"berth/internal/model/alloc"
	"berth/internal/model/job"
	"berth/internal/model/volume"
	"berth/internal/port/users"
)

// Uses tells which allocs of the node a volume is published for; the node keeper implements it.
type Uses interface {
	Published() []csimanager.PublishedVolume
}

// owners has the volumes of this node given to their owners, one alloc at a time, and never under one that may run.
type owners struct {
	mu sync.Mutex
	// passed are the allocs of a volume that need it no more, and whose tasks may start on it.
	passed map[volume.StagingKey]map[ids.Alloc]bool
	// busy is closed when the alloc that gives a volume now is done.
	busy map[volume.StagingKey]chan struct{}
}

// enter waits until no other alloc is giving a volume.
func (o *owners) enter(ctx context.Context, key volume.StagingKey) error {
	for {
		o.mu.Lock()
		others := o.busy[key]
		if others == nil {
			if o.busy == nil {
				o.busy, o.passed = map[volume.StagingKey]chan struct{}{}, map[volume.StagingKey]map[ids.Alloc]bool{}
			}
			o.busy[key] = make(chan struct{})
			o.mu.Unlock()
			return nil
		}
		o.mu.Unlock()
		select {
		case <-others:
		case <-ctx.Done():
			return fault.Wrap(ctx.Err(), fault.KindOf(ctx.Err()), "wait for", "the owner of a volume")
		}
	}
}

// leave lets the next one in; an alloc that is done may start its tasks.
func (o *owners) leave(key volume.PublicationKey, done bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if done {
		if o.passed[key.StagingKey] == nil {
			o.passed[key.StagingKey] = map[ids.Alloc]bool{}
		}
		o.passed[key.StagingKey][key.Alloc] = true
	}
	close(o.busy[key.StagingKey])
	delete(o.busy, key.StagingKey)
}

// forget is for an alloc whose processes are gone.
func (o *owners) forget(key volume.PublicationKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.passed[key.StagingKey], key.Alloc)
	if len(o.passed[key.StagingKey]) == 0 {
		delete(o.passed, key.StagingKey)
	}
}

// othersPassed reports that tasks of another alloc may run on the volume.
func (o *owners) othersPassed(key volume.PublicationKey) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.passed[key.StagingKey] {
		if id != key.Alloc {
			return true
		}
	}
	return false
}

// give gives a volume that was just mounted to whom it shall belong to.
func (h *CSI) give(ctx context.Context, a *hook.Alloc, req csimanager.MountRequest, info csimanager.MountInfo) error {
	if info.Block || info.ReadOnly || req.ReadOnly || req.AccessMode.ReaderOnly() {
		return nil
	}
	if err := h.owners.enter(ctx, req.Key.StagingKey); err != nil {
		return err
	}
	err := h.giveUnused(ctx, a, req, info)
	h.owners.leave(req.Key, err == nil)
	return fault.Note(err, "", `volume "`+string(req.Volume.ID)+`"`)
}

// giveUnused gives a volume that nobody may use yet. One that is used is not looked at: a process of an earlier run of
// the agent must not end because its user is not found any more.
func (h *CSI) giveUnused(
	ctx context.Context, a *hook.Alloc, req csimanager.MountRequest, info csimanager.MountInfo,
) error {
	if req.Shared || h.used(req.Key) {
		return nil
	}
	want, ok, err := wanted(a, req)
	if err != nil || !ok {
		return err
	}
	err = ownership.Give(ctx, info.Source, want, func() {
		a.Emit(waiting(fmt.Sprintf(`volume "%s": giving its files to %d:%d`, req.Volume.ID, want.UID, want.GID)))
	})
	if err != nil {
		// It may be that nothing can be given because the file system is dead: then it is mounted anew, and given then.
		if dead := h.Mounter.Mounted(ctx, req.Key, true); dead != nil {
			return dead
		}
	}
	if err != nil && (req.Ownership == nil || req.MountGroup != "") && fault.Has(err, fault.Denied) {
		// Nobody asked for it, or the plugin has done it: tasks may do without, and who cannot says so.
		text := err.Error()
		a.Emit(&alloc.TaskEvent{Type: alloc.EventStorageWaiting, DisplayMessage: text, Message: text})
		return nil
	}
	return err
}

// used reports that a process may use the volume on this node, of another alloc or of this one, which an earlier run of
// the agent started.
func (h *CSI) used(key volume.PublicationKey) bool {
	if h.owners.othersPassed(key) {
		return true
	}
	for _, v := range h.Uses.Published() {
		if v.Key != key.StagingKey {
			continue
		}
		for id := range v.Users {
			if gone, _ := h.Processes.ProcessesGone(id); !gone && !h.Processes.ProcessesIdle(id) {
				return true
			}
		}
	}
	return false
}

// wanted is whom a volume shall belong to: what its specification leaves out is the first task's that writes to it.
func wanted(a *hook.Alloc, req csimanager.MountRequest) (want ownership.Want, ok bool, err error) {
	spec := volume.Ownership{Policy: volume.OwnFresh}
	if req.Ownership != nil {
		spec = *req.Ownership
	}
	task := firstWriter(a.Group, req.Alias)
	if spec.Policy == volume.OwnNothing || task == nil {
		return want, false, nil
	}
	info, err := a.Driver(task.Driver)
	if err != nil {
		return want, false, err
	}
	runAs := hook.OwnerOf(task, info)
	if runAs == "" && req.Ownership == nil {
		return want, false, nil
	}
	want.Policy = spec.Policy
	if want.Mode, err = spec.Perm(); err != nil {
		return want, false, fault.Wrap(err, fault.Invalid, "", "ownership")
	}
	if runAs != "" {
		u, err := users.Resolve(runAs)
		if err != nil {
			return want, false, fault.Note(err, "", `task "`+task.Name+`"`)
		}
		want.UID, want.GID = int(u.UID), int(u.GID)
	}
	if spec.UID != nil {
		want.UID = *spec.UID
	}
	switch {
	case req.MountGroup != "":
		want.GID = -1
	case spec.GID != nil:
		want.GID = *spec.GID
	}
	return want, true, nil
}

// firstWriter is the first task of a group that writes to a volume; nil: none does.
func firstWriter(g *job.TaskGroup, alias string) *job.Task {
	for _, t := range g.Tasks {
		for _, m := range t.VolumeMounts {
			if m.Volume == alias && !m.ReadOnly {
				return t
			}
		}
	}
	return nil
}
