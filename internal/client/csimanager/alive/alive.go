// Package alive owns the question whether the file system of a publication still works. It asks the mount table, and
// the file system itself in a process that can be killed, because a dead one may keep whoever asks waiting for ever.
// Only the client's composition may import it, which gives it to the node keeper.
package alive

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/killable"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// patience is how long a file system may take to answer.
const patience = 30 * time.Second

// Prober asks in processes of the helper program.
type Prober struct{ Helpers *killable.Helpers }

// Dead says why the file system that an alloc's publication shows is dead; empty: it is not. One that was published for
// writing is asked to write. An error leaves it unknown: it did not answer.
func (p *Prober) Dead(ctx context.Context, e *entry.Entry, alloc ids.Alloc) (why string, err error) {
	path, writes := e.Pubs[alloc].HostPath, e.Writes(alloc)
	table, err := hostfs.ReadTableAnew() // no event says that a file system became read-only by itself
	if err != nil {
		return "", err
	}
	if why := evidence.Dead(e, alloc, table); why != "" {
		return why, nil
	}
	mode := "read"
	if writes {
		mode = "write"
	}
	word, err := p.Helpers.Run(ctx, "the file system at "+path, patience, "alive", path, mode)
	if word != "" {
		word = "its file system answers: " + word
	}
	return word, err
}

// Volumes are those that allocs of this node use; the node keeper implements it.
type Volumes interface {
	Published() []csimanager.PublishedVolume
	Snapshot(key volume.StagingKey) *entry.Entry
}

// wayOut is what is to be done about a file system that is dead.
const wayOut = ": what is written to it fails, and what was not synced is lost; when the disk beneath it is well and " +
	"has space again, restart the allocations that use it (berth alloc restart ALLOC): it is staged anew " +
	"before their tasks start"

// Deaths says of the volumes in use whose file systems are dead why, and what is to be done. It asks the mount table
// alone, so that it may be asked often. Nothing is given up for it: who only reads goes on until it starts again.
func Deaths(volumes Volumes) (map[volume.StagingKey]string, error) {
	table, err := hostfs.ReadTableAnew() // no event says that a file system became read-only by itself
	if err != nil {
		return nil, err
	}
	out := map[volume.StagingKey]string{}
	for _, v := range volumes.Published() {
		e := volumes.Snapshot(v.Key)
		for id := range v.Users {
			if e == nil {
				break
			}
			if why := evidence.Dead(e, id, table); why != "" {
				out[v.Key] = why + wayOut
			}
		}
	}
	return out, nil
}
