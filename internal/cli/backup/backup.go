// Package backup owns the commands that back up a machine's data directory while its agent runs, look at what was
// saved, and put it back. Package cluster adds them to its noun.
package backup

import (
	"context"
	"fmt"
	"strconv"

	form "berth/internal/base/backup"
	"berth/internal/cli/kit"
)

// DataDirs knows what lies in data directories.
type DataDirs interface {
	// Sources lists what is to be saved of one that an agent of this machine uses.
	Sources(dir string) (*form.Sources, error)
	// Snapshot says where a snapshot of the bundled plugin lies.
	Snapshot(sources *form.Sources, id string) (form.Image, error)
	// Restore puts a backup back into an empty one that no agent uses.
	Restore(ctx context.Context, from, dir string, progress form.Progress) (*form.Manifest, error)
}

// Noun makes the commands.
func Noun(e *kit.Env, dirs DataDirs) *kit.Command {
	return kit.Noun("backup", "Back up a machine while its tasks run, look at a backup, and put it back",
		newSave(e, dirs), newInspect(e), newRestore(e, dirs))
}

// exitMissing is the exit code of a backup that lacks what should be in it, and of a check that found damage.
const exitMissing = 2

// summary writes what is in a backup and what is not.
func summary(e *kit.Env, m *form.Manifest) {
	e.Out.Pairs(kit.Pairs{
		{"Begun", kit.At(m.Begun)},
		{"Ended", kit.At(m.Ended)},
		{"Berth", m.Program},
		{"Cluster", m.ClusterID},
		{"Index", strconv.FormatUint(m.Index, 10)},
		{"Node", m.NodeID},
		{"Data directory", m.DataDir},
		{"Files", fmt.Sprintf("%d, %s with their holes", len(m.Files), kit.Size(m.Bytes()))},
	})
	kit.Part(e.Out, "Volumes", m.Volumes, []string{"Volume", "Plugin", "In the backup", "As of"},
		func(v form.Volume) []string {
			return []string{v.Label(), v.Plugin, kit.Yes(v.Saved), kit.At(v.At)}
		})
	for _, v := range m.Volumes {
		if !v.Saved {
			e.Out.Printf("\nNot in the backup: volume %s: %s\n", kit.Clean(v.Label()), kit.Clean(v.Why))
		}
	}
	for _, gap := range m.Gaps {
		e.Out.Printf("\nNot in the backup: %s\n", kit.Clean(gap))
	}
}

// meter shows on a terminal how far a command has come.
type meter struct {
	env   *kit.Env
	what  string
	path  string
	bytes int64
	shown int64
}

// shownEvery is how many bytes pass between two looks of whoever waits.
const shownEvery = 64 << 20

func (m *meter) read(path string, n int64) {
	if path != m.path {
		*m = meter{env: m.env, what: m.what, path: path}
	}
	m.bytes += n
	if m.bytes-m.shown >= shownEvery && m.env.Err.Terminal() {
		m.shown = m.bytes
		m.env.Err.Printf("\r\x1b[K%s %s: %s", m.what, kit.Clean(path), kit.Size(m.bytes))
	}
}

// end takes the line away.
func (m *meter) end() {
	if m.env.Err.Terminal() {
		m.env.Err.Printf("\r\x1b[K")
	}
}
