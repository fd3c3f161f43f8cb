package csitest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"

	"berth/internal/conformance/csi/oracle"
	"berth/internal/conformance/csi/proxy"
	"berth/internal/port/csi"
	"berth/internal/testkit/fake"
)

// World is what surrounds a plugin under test and knows what its calls do not tell.
type World interface {
	// Witness is asked at the begin of every call that can change something, by several calls at once.
	Witness(begin proxy.Entry) *proxy.Observation
	// Facts is asked when the record is judged. Each fact needs a source, or the reason why the world has none.
	Facts(p *Plugin) oracle.Facts
}

// Alone runs a plugin without an orchestrator: the test makes its calls itself.
func Alone(t testing.TB, o Options) *Plugin {
	t.Helper()
	o.World = alone{}
	return New(t, o)
}

type alone struct{}

func (alone) Witness(proxy.Entry) *proxy.Observation { return nil }

func (alone) Facts(*Plugin) oracle.Facts {
	const why = "the test makes the calls itself: there is no orchestrator"
	return oracle.Facts{
		Processes: oracle.Nobody(why),
		Holders:   oracle.Nobody(why),
		Writers:   oracle.Nobody(why),
		Tasks:     oracle.None[oracle.TaskStart](why),
		Shown:     oracle.None[oracle.Shown](why),
		Works:     oracle.None[oracle.Work](why),
		Secrets:   oracle.Feed[string](),
		Texts:     oracle.None[oracle.Text](why + " that writes anything"),
		Strays:    oracle.Feed[oracle.Stray](),
		Ends:      oracle.None[oracle.End](why),
		Obeyed:    oracle.None[oracle.Obeyed](why),
		Quiet:     oracle.None[oracle.Quiet](why),
		Provider:  oracle.None[oracle.Thing](why + " that would have to know what there is"),
		Records:   oracle.None[oracle.Record](why),
		Rest:      oracle.None[oracle.Rest](why + " that would have to clean up"),
	}
}

// Provider is everything that the fake's backend has.
func (p *Plugin) Provider() []oracle.Thing {
	p.t.Helper()
	return Provider(p.t, p.Dir)
}

// Provider is everything that the backend of fakes in a directory has.
func Provider(t testing.TB, dir string) (out []oracle.Thing) {
	t.Helper()
	things, err := fake.Contents(dir)
	if err != nil {
		t.Error(err)
	}
	for _, v := range things {
		out = append(out, oracle.Thing{ID: v.ID, Name: v.Name})
	}
	return out
}

// Burn has the backend of fakes in a directory forget what was staged and published on a node whose machine is lost:
// it can't use anything any more.
func Burn(t testing.TB, dir, node string) {
	t.Helper()
	if err := fake.Burn(dir, node); err != nil {
		t.Error(err)
	}
}

// keepsake is a file that the proxy puts on every volume of the fake before it is staged or published: nobody but the
// deletion of the volume may take it away.
const keepsake = ".kept"

// witness asks the world, and looks after the keepsake.
func (p *Plugin) witness(begin proxy.Entry) *proxy.Observation {
	dir := filepath.Join(p.Dir, "volumes", begin.Volume)
	switch csi.RPC(begin.RPC) {
	case csi.NodeStageVolume, csi.NodePublishVolume:
		p.keep(begin.Volume, dir)
	case csi.DeleteVolume:
		p.mu.Lock()
		p.missing(begin.Volume, dir)
		p.mu.Unlock()
	}
	return p.world.Witness(begin)
}

func (p *Plugin) keep(volume, dir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if volume == "" || p.kept[volume] {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, keepsake), nil, 0o600); err == nil { // another plugin has no such place
		p.kept[volume] = true
	}
}

// missing notes a stray when a volume that is still there has lost its keepsake. The caller holds the lock.
func (p *Plugin) missing(volume, dir string) {
	path := filepath.Join(dir, keepsake)
	_, err := os.Stat(path)
	if _, there := os.Stat(dir); !p.kept[volume] || there != nil || err == nil {
		return
	}
	p.strays = append(p.strays, oracle.Stray{At: time.Now(), Path: path, What: "was deleted through a mount"})
}

// Beneath finds the files of workloads that lie beneath root itself and not in what is mounted there: names tells which
// files a workload writes.
func Beneath(root string, written func(name string) bool) (out []oracle.Stray, err error) {
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(root))
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	mounted := map[string]bool{}
	for _, m := range mounts {
		mounted[m.Mountpoint] = true
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone meanwhile
		case err != nil:
			return err
		case path != root && mounted[path] && d.IsDir():
			return fs.SkipDir
		case !d.IsDir() && !mounted[path] && written(d.Name()):
			out = append(out, oracle.Stray{At: time.Now(), Path: path, What: "lies beneath an unmounted target"})
		}
		return nil
	})
	return out, err
}
