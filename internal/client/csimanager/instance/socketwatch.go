package instance

import (
	"context"
	"path/filepath"
	"time"

	"berth/internal/base/retry"
	"berth/internal/client/dynamicplugins"
	"berth/internal/port/hostfs"
)

// socketWatch tells when something appears in the directories where sockets are awaited. One that does not exist yet is
// covered by the retries of its instance, too.
type socketWatch struct {
	dirs    *hostfs.Directories
	changed chan struct{}
	watches map[string]*hostfs.Watch // by directory; only sync has them
}

func newSocketWatch(dirs *hostfs.Directories) *socketWatch {
	return &socketWatch{dirs: dirs, changed: make(chan struct{}, 1), watches: map[string]*hostfs.Watch{}}
}

// keep watches the directories of these instances' sockets, and no others.
func (w *socketWatch) keep(infos []dynamicplugins.Info) {
	wanted := map[string]bool{}
	for _, i := range infos {
		dir := filepath.Dir(i.Socket)
		wanted[dir] = true
		if w.watches[dir] == nil {
			w.watches[dir] = w.dirs.WatchInto(dir, w.changed)
		}
	}
	for dir, watch := range w.watches {
		if !wanted[dir] {
			watch.Close()
			delete(w.watches, dir)
		}
	}
}

// run calls tell for every burst of events until ctx ends.
func (w *socketWatch) run(ctx context.Context, tell func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.changed:
		}
		tell()
		// bind(2) shows the socket before listen(2) accepts; a moment later the next look finds it listening.
		if retry.Sleep(ctx, 5*time.Millisecond) {
			tell()
		}
	}
}
