// Package alive owns the question whether the file system of a publication still works. It asks the mount table, and
// the file system itself in a process that can be killed, because a dead one may keep whoever asks waiting for ever.
// Only the client's composition may import it, which gives it to the node keeper.
package alive

import (
	"context"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/client/csimanager/evidence"
	"berth/internal/client/csimanager/killable"
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
