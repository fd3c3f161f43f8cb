package shim

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Live reports whether any shim of this launcher's directory answers: then tasks of an earlier run of the agent may
// live.
func (l *Launcher) Live(ctx context.Context) bool {
	entries, err := os.ReadDir(l.cfg.Dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.Type() != fs.ModeSocket || !strings.HasSuffix(e.Name(), ".sock") {
			continue
		}
		if c, err := dial(ctx, filepath.Join(l.cfg.Dir, e.Name())); err == nil {
			c.close()
			return true
		}
	}
	return false
}
