// Package evidence owns what can be known of stagings and publications without their plugin and without the journal:
// from the mount table, and from the id files beside their paths. It changes nothing but id files. The node keeper
// imports it.
package evidence

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/hostfs"
)

// Observed is what the mount table showed after a call.
type Observed struct {
	Device   string   // of a publication
	ReadOnly bool     // of a publication
	Mounts   []string // of a staging
	Own      []entry.Mount
	Block    entry.Device
}

// csiDir is the part of the data directory in which the bases of all plugins lie.
func csiDir(dataDir string) string { return filepath.Join(dataDir, "csi") }

// Traces are where a staging or a publication is, and what of it is removed when it is not, in this order.
func Traces(e *entry.Entry, s entry.Step) (path string, ours []string) {
	if s.Verb == entry.Publish || s.Verb == entry.Unpublish {
		path = e.Pubs[s.Alloc].HostPath
		parent := filepath.Dir(path)
		return path, []string{path, parent + ".id", parent}
	}
	path = e.Staging.HostPath
	return path, []string{path + ".id", path}
}

// Beneath lists what is mounted at or beneath a path in a form that can be compared later.
func Beneath(table *hostfs.Table, path string) []string {
	var out []string
	for _, m := range table.Beneath(path) {
		out = append(out, m.Path+" "+m.Device)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Mounts names what is mounted at or beneath a path, in the order in which it can be unmounted.
func Mounts(table *hostfs.Table, path string) (out []entry.Mount) {
	for _, m := range table.Beneath(path) {
		out = append(out, entry.Mount{
			Path:   m.Path,
			ID:     hostfs.UniqueID(m.ID),
			Device: m.Device,
			Root:   m.Root,
			FSType: m.FSType,
		})
	}
	return out
}

// Block is the block device that a staging has to itself: it is mounted whole at the staging path, and nowhere outside
// the directory of its plugin. A directory of another file system is none, nor a file system that somebody else has
// mounted too.
func Block(table *hostfs.Table, stagingPath string) entry.Device {
	m, mounted := table.At(stagingPath)
	if !mounted || m.Root != "/" || strings.HasPrefix(m.Device, "0:") {
		return entry.Device{}
	}
	base := filepath.Dir(filepath.Dir(stagingPath)) + "/"
	for _, o := range table.Beneath("/") {
		if o.Device == m.Device && !strings.HasPrefix(o.Path, base) {
			return entry.Device{}
		}
	}
	return entry.Device{Device: m.Device, Seq: hostfs.DeviceSeq(m.Device)}
}

// Published checks the target and returns what is mounted there, by which later checks recognise it.
func Published(e *entry.Entry, alloc ids.Alloc, table *hostfs.Table) (entry.Outcome, Observed, error) {
	p := e.Pubs[alloc]
	block := e.Staging.Args.AttachmentMode == volume.BlockDevice
	dev, readOnly, err := Target(table, p.HostPath, block)
	if err != nil {
		return entry.Missing, Observed{}, fault.WithHint(fault.Wrap(err, fault.Unavailable, "publish",
			entry.Describe(e.Key)), "the plugin answered OK; look at its logs")
	}
	if readOnly && !p.ReadOnly && !e.Staging.Args.AccessMode.ReaderOnly() && !block {
		return entry.Missing, Observed{},
			fault.New(fault.Unavailable, "publish", entry.Describe(e.Key),
				"the plugin mounted it read-only although writing was asked for")
	}
	o := Observed{Device: dev, ReadOnly: readOnly, Own: Mounts(table, p.HostPath)}
	if number, ok := strings.CutPrefix(dev, "b"); ok && block && !e.Staging.Skip {
		o.Block = entry.Device{Device: number, Seq: hostfs.DeviceSeq(number)}
	}
	return entry.Worked, o, nil
}

// Target reads what is at a target: the device number of the file system that is mounted there, or of the block
// device.
func Target(table *hostfs.Table, path string, block bool) (device string, readOnly bool, err error) {
	m, mounted := table.At(path)
	if !block {
		if !mounted {
			return "", false, fmt.Errorf("nothing is mounted at %s", path)
		}
		return m.Device, m.ReadOnly, nil
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", false, fmt.Errorf("look at %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return "", false, fmt.Errorf("%s is not a block device", path)
	}
	return fmt.Sprintf("b%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)), mounted && m.ReadOnly, nil
}
