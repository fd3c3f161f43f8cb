package allocs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/logkey"
	"berth/internal/base/reconcile"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/shim"
	"berth/internal/model/alloc"
	"berth/internal/model/lineage"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
	"berth/internal/wire"
)

// leftover is an alloc whose record is lost and of which something is here. It is an orphan as long as a process of it
// may live, something is mounted for it, or the servers take it for one that goes on. Its directory alone is none: that
// goes when the servers have removed the alloc, or when what has ended is collected.
type leftover struct {
	since    time.Time
	ending   bool          // a person ends it
	heard    bool          // the servers have said whether they want it
	wanted   bool          // their newest word is that it has not ended
	received lineage.Point // of their newest state that named it; zero: none has since the agent started
	// used are the publications that were seen of it: their staging goes after them.
	used []volume.PublicationKey
	// over: nothing of it was left when it was looked at, and nothing comes of it any more.
	over bool
}

// remains is what is left of a leftover.
type remains struct {
	since     time.Time
	ending    bool
	heard     bool
	wanted    bool
	processes string // why a process of it may live; empty: none does
	volumes   string // what its volumes wait for to be released; empty: it has none
}

// over reports that nothing is left about which anybody would have to decide.
func (l remains) over() bool { return l.undone() && !l.wanted }

// undone reports that neither a process nor a mount is left.
func (l remains) undone() bool { return l.processes == "" && l.volumes == "" }

// awaits says what its end waits for; empty: it does not end.
func (l remains) awaits() string {
	switch {
	case l.processes == "":
		return l.volumes
	case l.ending:
		return l.processes
	}
	return ""
}

// leftovers lists the allocs whose record is lost, and that have a directory here or are ended by a person.
func (t *Table) leftovers() []ids.Alloc {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.unrecorded))
}

// left looks at what is left of an alloc whose record is lost.
func (h *Holdings) left(id ids.Alloc) (out remains) {
	h.mu.Lock()
	if l := h.unrecorded[id]; l != nil && l.over {
		defer h.mu.Unlock()
		return remains{since: l.since, ending: l.ending, heard: l.heard}
	}
	h.mu.Unlock()
	gone, why := h.ProcessesGone(id)
	if !gone {
		out.processes = why
	}
	used := h.volumes.Publications(id)
	h.mu.Lock()
	if l := h.unrecorded[id]; l != nil {
		for _, key := range used {
			if !slices.Contains(l.used, key) {
				l.used = append(l.used, key)
			}
		}
		used = slices.Clone(l.used)
		out.since, out.ending = l.since, l.ending
		out.heard, out.wanted = l.heard, l.wanted
	}
	h.mu.Unlock()
	_, out.volumes = h.unreleasedOf(used)
	return out
}

// unreleasedOf says what is left of an alloc's volumes, and what that waits for.
func (h *Holdings) unreleasedOf(used []volume.PublicationKey) (held bool, why string) {
	var all []string
	for _, key := range used {
		if free, why := h.volumes.Free(key); !free {
			text := entry.Describe(key.StagingKey) + " is to be unmounted"
			if why != "" {
				text += ": " + why
			}
			all = append(all, text)
		}
	}
	return len(all) > 0, strings.Join(all, "; ")
}

// findUnrecorded finds directories of allocs whose records are lost: what they belong to may run, and nothing is
// started in their place.
func (a *Allocs) findUnrecorded() error {
	entries, err := os.ReadDir(a.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, fault.Internal, "read directory", a.dir)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		id := ids.Alloc(e.Name())
		if !e.IsDir() || !ids.IsUUID(e.Name()) || a.loaded.Allocs[id] != nil || a.damaged[id] != nil {
			continue
		}
		since := time.Now().Round(0)
		if info, err := e.Info(); err == nil {
			since = info.ModTime()
		}
		a.unrecorded[id] = &leftover{since: since}
		a.log.Warn("an allocation's directory is here, but its record is lost: nothing of it is started, and what "+
			"runs or is mounted of it is kept until: berth node orphans end "+ids.Short(id), logkey.Alloc, id)
	}
	return nil
}

// watchUnrecorded looks again at what is left of allocs without a record whenever that may have changed.
func (a *Allocs) watchUnrecorded(ctx context.Context) error {
	for {
		processes, volumes := a.changed.C(), a.volumes.Changed()
		for _, id := range a.open() {
			a.leaving.Mark(id)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-processes:
		case <-volumes:
			a.orphaned.Notify() // what an end waits for, of those with a record, too
		}
	}
}

// open lists the allocs without a record of which something is left, or whose directory is to go.
func (a *Allocs) open() (out []ids.Alloc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, l := range a.unrecorded {
		if !l.over || l.ending {
			out = append(out, id)
		}
	}
	return out
}

// hear notes what a set of the servers says of allocs whose record is lost.
func (a *Allocs) hear(set *wire.AllocSet) {
	a.mu.Lock()
	if set.Full {
		for _, l := range a.unrecorded {
			l.heard = true
		}
	}
	for _, b := range set.Bundles {
		if b.Alloc == nil {
			continue
		}
		if l := a.unrecorded[b.Alloc.ID]; l != nil {
			l.heard, l.received = true, set.At
			l.wanted = !b.Alloc.ClientTerminal() && !a.ended[b.Alloc.ID]
			l.over = l.over && !l.wanted
		}
	}
	a.mu.Unlock()
	for _, id := range a.open() {
		a.leaving.Mark(id)
	}
}

// lookAgain is when a cgroup is looked at again in which processes are left without a shim: nothing tells of their end.
const lookAgain = 10 * time.Second

// leaveUnrecorded removes the directory of an alloc whose record is lost when neither a process nor a mount of it is
// left, and a person ended it, or the servers removed it.
func (a *Allocs) leaveUnrecorded(ctx context.Context, id ids.Alloc) (reconcile.Result, error) {
	left := a.left(id)
	a.tell(id, left)
	a.mu.Lock()
	l := a.unrecorded[id]
	if l == nil {
		delete(a.gone, id)
		a.mu.Unlock()
		return reconcile.Done(), nil
	}
	received := l.received
	_, marked := a.gone[id]
	a.mu.Unlock()
	shims := a.ShimOrphans()
	switch {
	case left.processes != "" && !slices.ContainsFunc(shims, func(s shim.Held) bool { return s.Alloc == id }):
		return reconcile.Again(lookAgain, left.processes), nil
	case !left.undone():
		return reconcile.Done(), nil // its change marks the key again
	case left.ending:
		return reconcile.Done(), a.dropUnrecorded(id)
	}
	// No process can come back for its secrets, however long its directory stays.
	if err := a.AllocDir(id).DropSecrets(); err != nil || !marked {
		return reconcile.Done(), err
	}
	removed, orphan, err := a.known(ctx, id, received)
	if err != nil {
		return reconcile.Done(), err
	}
	a.dropMark(id)
	switch Leave(removed, orphan, true) {
	case Destroyed:
		return reconcile.Done(), a.dropUnrecorded(id)
	case Orphaned: // nobody wants it: it stays until it is collected
		a.mu.Lock()
		l.wanted = false
		a.mu.Unlock()
		a.tell(id, a.left(id))
	case Stays, Stops:
	}
	return reconcile.Done(), nil
}

// tell wakes whoever waits until nothing is left of an alloc, or shows what is.
func (a *Allocs) tell(id ids.Alloc, left remains) {
	a.mu.Lock()
	l := a.unrecorded[id]
	news := l != nil && !l.over && left.over()
	if news {
		l.over = true
	}
	a.mu.Unlock()
	a.orphaned.Notify()
	if news {
		a.changed.Notify()
	}
}

// dropUnrecorded removes the directory of an alloc whose record is lost.
func (a *Allocs) dropUnrecorded(id ids.Alloc) error {
	if err := errors.Join(a.dropSockets(id), a.AllocDir(id).Destroy()); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.unrecorded, id)
	delete(a.gone, id)
	a.mu.Unlock()
	a.changed.Notify()
	a.orphaned.Notify()
	return nil
}

// dropSockets removes the sockets of tasks that were plugins: their hooks are not run without a record. What else lies
// beside one is kept.
func (a *Allocs) dropSockets(id ids.Alloc) error {
	tasks, err := os.ReadDir(a.AllocDir(id).Path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, fault.Internal, "read directory", a.AllocDir(id).Path())
	}
	var failed []error
	for _, t := range tasks {
		dir := csimanager.SocketDir(filepath.Dir(a.dir), id, t.Name())
		err := os.Remove(filepath.Join(dir, csimanager.SocketName))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = hostfs.RemoveEmpty(dir)
		}
		if fault.Has(err, fault.Conflict) {
			a.log.Warn("what a plugin left beside its socket is kept", logkey.Alloc, id, logkey.Error, err)
			continue
		}
		failed = append(failed, fault.Wrap(err, fault.Internal, "remove the socket in", dir))
	}
	return errors.Join(failed...)
}

// endUnrecorded ends what may run of an alloc whose record is lost. The servers, should they know it, hear that it is
// lost before nothing is left here that keeps it from being run a second time. It returns when its processes are gone;
// it stays an orphan until what they had mounted is.
func (a *Allocs) endUnrecorded(ctx context.Context, id ids.Alloc) error {
	a.log.Warn("a person ends an allocation whose record is lost", logkey.Alloc, id)
	a.mu.Lock()
	if a.unrecorded[id] == nil {
		a.unrecorded[id] = &leftover{since: time.Now().Round(0)}
	}
	a.mu.Unlock()
	a.left(id) // what is mounted for it is known before it may go
	ectx, cancel := context.WithTimeout(ctx, unrecordedTimeout)
	defer cancel()
	if a.kept != nil {
		if err := a.kept.Drop(ectx, id); err != nil {
			return err
		}
	}
	if err := a.cfg.Shims.End(ectx, id); err != nil {
		return err
	}
	if err := a.sayLost(ctx, alloc.EndedUnrecorded, id); err != nil {
		return err
	}
	a.mu.Lock()
	if l := a.unrecorded[id]; l != nil {
		l.ending, l.wanted = true, false
	}
	a.ended[id] = true
	a.mu.Unlock()
	a.changed.Notify()
	a.orphaned.Notify()
	return nil
}

// unrecordedTimeout bounds the end of processes of which nothing else is known.
const unrecordedTimeout = time.Minute

// collectUnrecorded removes the directory of an alloc whose record is lost, when nothing else is left of it and the
// servers do not want it; an empty id means all of them.
func (a *Allocs) collectUnrecorded(id ids.Alloc) error {
	var failed []error
	for _, one := range a.leftovers() {
		left := a.left(one)
		switch {
		case id != "" && id != one:
		case left.over() && left.heard:
			failed = append(failed, a.dropUnrecorded(one))
		case id != "":
			failed = append(failed, fault.WithHint(
				fault.New(fault.Conflict, "collect", fmt.Sprintf("allocation %q", id), unrecordedReason),
				"end it: berth node orphans end "+ids.Short(id)))
		}
	}
	return errors.Join(failed...)
}

// unrecordedLeft says of which allocs a stopping agent leaves mounts that nothing but their id files names.
func (a *Allocs) unrecordedLeft() error {
	var left []ids.Alloc
	var why []string
	for _, id := range slices.Sorted(slices.Values(a.leftovers())) {
		if l := a.left(id); l.volumes != "" {
			left, why = append(left, id), append(why, l.volumes)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fault.WithHint(fault.New(fault.Conflict, "stop", "the node's tasks", fmt.Sprintf(
		"the records of allocations %v are lost: their processes have ended, but what they had mounted may be there (%s)",
		left, strings.Join(why, "; "))),
		"start again with the same data_dir and end them with: berth node orphans end -all")
}
