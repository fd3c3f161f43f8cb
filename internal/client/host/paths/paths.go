// Package paths owns the question whether directories of the node can be used, of which one on a dead NFS server, or of
// a FUSE daemon that hangs, keeps whoever asks waiting for ever. Nobody is held up by it: a path is asked about by one
// goroutine, and who does not answer is said to be silent. Only client/host imports it.
package paths

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"berth/internal/base/lifecycle"
)

// patience is how long a path may take to answer before it counts as silent.
const patience = 2 * time.Second

// Paths remembers which paths are being asked about. The zero value is ready.
type Paths struct {
	mu    sync.Mutex
	asked map[string]*answer
}

// answer is what one asking of a path comes to.
type answer struct {
	since  time.Time
	done   chan struct{} // closed when why says it
	why    string
	silent bool // the patience of who asked first is over
}

// Look says of each path why it cannot be used; empty: it can. All are asked side by side, and waited for together, but
// none that was silent before: that one is not asked again before it has answered.
func (p *Paths) Look(ctx context.Context, paths ...string) map[string]string {
	out := map[string]string{}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	over := false
	for path, a := range p.ask(ctx, paths) {
		select {
		case <-a.done:
			out[path] = a.why
			continue
		default:
		}
		if !over && !p.isSilent(a) {
			select {
			case <-a.done:
				out[path] = a.why
				continue
			case <-limit.C:
				over = true
			}
		}
		out[path] = p.silence(path, a)
	}
	return out
}

// ask begins to ask about each path about which nobody is asking.
func (p *Paths) ask(ctx context.Context, paths []string) map[string]*answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil {
		p.asked = map[string]*answer{}
	}
	out := map[string]*answer{}
	for _, path := range paths {
		a := p.asked[path]
		if a == nil {
			a = &answer{since: time.Now(), done: make(chan struct{})}
			p.asked[path] = a
			// Nobody waits for it: it may not end before the agent does.
			work, _ := lifecycle.NewGroup(context.WithoutCancel(ctx))
			work.Go("look at "+path, func() error {
				p.answered(path, a, unusable(path))
				return nil
			})
		}
		out[path] = a
	}
	return out
}

func (p *Paths) answered(path string, a *answer, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.why = why
	close(a.done)
	delete(p.asked, path)
}

func (p *Paths) isSilent(a *answer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return a.silent
}

// silence marks a path as silent and says since when it is. The words stay the same as long as it lasts.
func (p *Paths) silence(path string, a *answer) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.silent = true
	return fmt.Sprintf("%s does not answer since %s: the file system there hangs, as of a server that is away or a "+
		"daemon that is dead; it is used again when it answers", path, a.since.UTC().Format(time.RFC3339))
}

// unusable is why a path cannot be a host volume; empty: it can.
func unusable(path string) string {
	if !filepath.IsAbs(path) {
		return fmt.Sprintf("the path %q is not absolute", path)
	}
	switch info, err := os.Stat(path); {
	case err != nil:
		return err.Error()
	case !info.IsDir():
		return path + " is not a directory"
	}
	return ""
}
